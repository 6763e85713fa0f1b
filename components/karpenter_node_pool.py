"""A node pool as Karpenter's NodePool and EC2NodeClass. Karpenter itself must run before (its CRDs refuse nothing until then).

Not for: deciding anything (manifests/karpenter.py does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from components.config import AwsPool
from components.gpu_node_pool import Placement
from components.manifests.karpenter import node_class, node_pool
from policies.facts import NodePool


class KarpenterNodePool(pulumi.ComponentResource):
    """Both objects, the class first; on destroy the NodePool goes first and takes its nodes with it."""

    ready: tuple[pulumi.Resource, ...]

    def __init__(
        self,
        name: str,
        *,
        pool: NodePool,
        config: AwsPool,
        node_role_name: pulumi.Input[str],
        security_group_id: pulumi.Input[str],
        placement: Placement,
        tags: Mapping[str, str],
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:KarpenterNodePool", name, {}, opts)
        efa = [placement.efa_security_group_id] if placement.efa_security_group_id is not None else []
        # Plain where it can be: what is known before anything is made is judged in the first preview (policies/pack.py).
        spec = node_class(
            pool,
            config,
            role=node_role_name,
            subnet_ids=placement.subnet_ids,
            security_group_ids=[security_group_id, *efa],
            placement_group=placement.placement_group,
            tags=dict(tags),
        )["spec"]
        class_object = k8s.apiextensions.CustomResource(
            f"{name}-class",
            api_version="karpenter.k8s.aws/v1",
            kind="EC2NodeClass",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=pool.name),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )
        manifest = node_pool(pool, config)
        pool_object = k8s.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=k8s.meta.v1.ObjectMetaArgs(name=pool.name),
            spec=manifest["spec"],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, class_object]),
        )
        self.ready = (class_object, pool_object)
        self.register_outputs({})
