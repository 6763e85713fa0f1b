"""Facts of a stack and the readers that make them from manifests and resource properties."""

from .records.nodes import NodePool, Sharing, Taint, Toleration
from .records.stack import AwsResource, Budget, Object, Queue, Release, Stack, Unread, Use, Versions
from .records.values import EMPTY, Values
from .records.workloads import Engine, PodGroup, SecretRef, ServeApp, Workload

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
