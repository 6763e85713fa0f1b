"""The facts rules judge: small frozen records, the same whether read from our config, from manifests or from resources.

Not the wire: readers beside this package turn manifests and properties into these. Units are in the names: mib, milli
(thousandths of a core), seconds. None is "not stated" and never "zero".
"""
