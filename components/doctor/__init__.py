"""Compares the plan with the cluster as it is: nodes, services, queues, software, GPUs. Reads, and changes nothing.

`python -m components.doctor Pulumi.dev.yaml --kubeconfig FILE`. Not for AWS accounts (components/preflight), or for what the
config alone can tell (the plan and its rules).
"""

from __future__ import annotations

from components.doctor.live import Cluster, Refused
from components.doctor.run import checks

__all__ = ["Cluster", "Refused", "checks"]
