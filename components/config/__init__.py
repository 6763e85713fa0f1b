"""What a person may write, and how it is read. Pure: no pulumi, no network."""

from .base import SecretKey, Strict, Taint, Toleration, deep_merge
from .clusters import AwsCluster, ExistingCluster, Network
from .environment import Environment
from .load import PROJECT, ConfigError, load_file, load_pulumi, load_text, parse
from .mistakes import place
from .models import Disaggregation, Gpu, Lora, Model, Parallel, Placement, Replicas, Routing
from .pools import AwsPool, ExistingPool, GpuSharing, Pool, Reservation
from .services import (
    Auth,
    Autoscaling,
    Expose,
    FaultTolerance,
    Head,
    Image,
    Job,
    PodShape,
    Service,
    Upgrade,
    Volume,
    Worker,
)
from .software import Budget, Queue, QueueShare, Software, VersionOverrides

__all__ = [
    "PROJECT",
    "Auth",
    "Autoscaling",
    "AwsCluster",
    "AwsPool",
    "Budget",
    "ConfigError",
    "Disaggregation",
    "Environment",
    "ExistingCluster",
    "ExistingPool",
    "Expose",
    "FaultTolerance",
    "Gpu",
    "GpuSharing",
    "Head",
    "Image",
    "Job",
    "Lora",
    "Model",
    "Network",
    "Parallel",
    "Placement",
    "PodShape",
    "Pool",
    "Queue",
    "QueueShare",
    "Replicas",
    "Reservation",
    "Routing",
    "SecretKey",
    "Service",
    "Software",
    "Strict",
    "Taint",
    "Toleration",
    "Upgrade",
    "VersionOverrides",
    "Volume",
    "Worker",
    "deep_merge",
    "load_file",
    "load_pulumi",
    "load_text",
    "parse",
    "place",
]
