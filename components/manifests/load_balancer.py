"""Annotations of load balancers made by the AWS Load Balancer Controller. Pure."""

from __future__ import annotations


def network(internal: bool) -> dict[str, str]:
    """Of a Service of type LoadBalancer: a network load balancer to pod addresses, inside the VPC or on the internet."""
    prefix = "service.beta.kubernetes.io/aws-load-balancer"
    return {
        f"{prefix}-nlb-target-type": "ip",
        f"{prefix}-scheme": "internal" if internal else "internet-facing",
        f"{prefix}-type": "external",
    }
