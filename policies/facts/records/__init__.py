"""The facts rules judge: small frozen records, the same whether read from our config, from manifests or from resources.

Not the wire: readers beside this package turn manifests and properties into these. Units are in the names: mib, milli
(thousandths of a core), seconds. None is "not stated" and never "zero".
"""

from .nodes import NodePool, Sharing, Taint, Toleration
from .stack import AwsResource, Budget, Object, Queue, Release, Stack, Unread, Use, Versions
from .values import EMPTY, Values
from .workloads import Engine, PodGroup, SecretRef, ServeApp, Workload

__all__ = [
    "EMPTY",
    "AwsResource",
    "Budget",
    "Engine",
    "NodePool",
    "Object",
    "PodGroup",
    "Queue",
    "Release",
    "SecretRef",
    "ServeApp",
    "Sharing",
    "Stack",
    "Taint",
    "Toleration",
    "Unread",
    "Use",
    "Values",
    "Versions",
    "Workload",
]
