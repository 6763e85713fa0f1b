"""Every version the stack deploys, once, and which of them go together.

Not for the tools that the one-node environment builds: those are in local/pins.py.
Sources are named beside each row; `checked_on` says when they were read.
"""

from __future__ import annotations

from dataclasses import dataclass

CHECKED_ON = "2026-11-30"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A Helm chart as it is published."""

    name: str
    version: str
    repository: str  # https://... or oci://... (for oci the chart name is the last path element)
    namespace: str
    source: str


GPU_OPERATOR = Chart(
    name="gpu-operator",
    version="v26.7.0",
    repository="https://helm.ngc.nvidia.com/nvidia",
    namespace="gpu-operator",
    source="https://github.com/NVIDIA/gpu-operator/tree/v26.7.0",
)
KUBERAY = Chart(
    name="kuberay-operator",
    version="1.7.0",
    repository="https://ray-project.github.io/kuberay-helm/",
    namespace="kuberay-system",
    source="https://github.com/ray-project/kuberay/tree/v1.7.0",
)
KAI = Chart(
    name="kai-scheduler",
    version="v0.17.0",
    repository="oci://ghcr.io/kai-scheduler/kai-scheduler",
    namespace="kai-scheduler",
    source="https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0",
)
VOLCANO = Chart(
    name="volcano",
    version="1.15.1",
    repository="https://volcano-sh.github.io/helm-charts",
    namespace="volcano-system",
    source="https://github.com/volcano-sh/volcano/tree/v1.15.1",
)

# Kubernetes: newest that EKS offers with more than half a year of standard support left (1.34 ends 2026-12-02).
KUBERNETES = "1.35"
# Ray and the vLLM that ray[llm] pins for it (python/requirements/llm of the ray-2.60.0 tag).
RAY = "2.60.0"
VLLM = "0.29.0"
PYTHON = "3.11"
CUDA = "13.0"
