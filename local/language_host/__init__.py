"""A stand-in for `pulumi-language-python`, for machines where the official one is not installed.

The Pulumi CLI runs programs through a language host. The official one comes with the CLI's release and is no Go module that can be
built from a proxy; this one is enough for Python programs and policy packs in this checkout. Where `pulumi` is already on PATH, its
own host is used and this folder is not.
"""
