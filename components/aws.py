"""An environment on AWS: network, EKS, node pools and roles, in order. `build` first; `karpenter_pools` when Karpenter runs.

Not for: software in the cluster (see cluster_software.py), or anything that a single component decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components import eks_cluster, network, versions
from components.cluster import Cluster
from components.config import AwsCluster, AwsPool, Environment
from components.efa_network import EfaNetwork
from components.eks_addons import EksAddons
from components.eks_cluster import EksCluster, EksOutputs
from components.gpu_node_pool import GpuNodePool, Placement
from components.karpenter_node_pool import KarpenterNodePool
from components.manifests import releases
from components.naming import cluster_name, tags
from components.network import Network, Subnets
from components.node_autoscaling import KarpenterAccount, cluster_autoscaler_role, load_balancer_controller_role
from components.node_pools import cluster_zones, node_autoscaler
from components.node_role import NodeRole
from components.weights_bucket import weights
from policies.facts import NodePool


@dataclass(frozen=True, kw_only=True)
class EksEnvironment(Cluster):
    """A cluster on EKS, with what later steps may need of it.

    karpenter: set when Karpenter is the node autoscaler; its chart needs `queue_name`.
    weights_bucket: name of the bucket, where one is made.
    """

    config: AwsCluster
    eks: EksOutputs
    kubeconfig: pulumi.Output[str]
    subnets: Subnets
    aws_provider: aws.Provider
    efa: EfaNetwork | None
    karpenter: KarpenterAccount | None
    weights_bucket: pulumi.Output[str] | None


def build(env: Environment, pools: Sequence[NodePool]) -> EksEnvironment:
    """Everything up to a cluster with nodes that can take software. `pools` are the plan's, of `env`."""
    config = env.cluster
    assert isinstance(config, AwsCluster)
    name = cluster_name(config, pulumi.get_stack())
    version = config.kubernetes_version or versions.KUBERNETES
    provider = _provider(config)
    on_aws = pulumi.ResourceOptions(provider=provider)

    subnets, vpc = _network(name, env, config, on_aws)
    eks = _cluster(name, config, version, subnets, on_aws, provider)
    efa = _efa(name, subnets, env, pools, on_aws)
    groups = _managed_pools(env, pools, config, eks, subnets, efa, vpc, on_aws)
    ready: list[pulumi.Resource] = [*groups, *eks.before_nodes]
    if config.create:
        ready.append(
            EksAddons(
                name,
                cluster_name=eks.cluster_name,
                kubernetes_version=version,
                region=config.region,
                pinned=config.addon_versions,
                repair=any(isinstance(pool, AwsPool) and pool.node_repair for pool in env.node_pools.values()),
                after=[*groups, *eks.before_nodes],
                opts=on_aws,
            )
        )
    # Credentials are put into a pod when it is made: one that starts before its association has none until it is made anew. And on
    # destroy a controller must be able to take its instances and load balancers with it.
    karpenter, autoscaling = _autoscaling(env, eks, config, on_aws)
    ready += autoscaling
    if releases.installs(versions.LOAD_BALANCER_CONTROLLER, env, pools):
        ready.append(load_balancer_controller_role(eks, on_aws))
    bucket, readers = weights(env, config, eks, on_aws)
    ready += readers

    kubeconfig = eks.kubeconfig()
    connection = {"kubeconfig": kubeconfig, "cluster_identifier": eks.arn}
    return EksEnvironment(
        provider=k8s.Provider("kubernetes", **connection),
        connection=connection,
        ready=tuple(ready),
        config=config,
        eks=eks,
        kubeconfig=kubeconfig,
        subnets=subnets,
        aws_provider=provider,
        efa=efa,
        karpenter=karpenter,
        weights_bucket=bucket,
    )


def karpenter_pools(
    env: Environment, pools: Sequence[NodePool], cluster: Cluster, after: Sequence[pulumi.Resource]
) -> tuple[pulumi.Resource, ...]:
    """Karpenter's pools; () without any. `after` is Karpenter's release: its CRDs must be there, and outlive the pools."""
    if not isinstance(cluster, EksEnvironment) or cluster.karpenter is None:
        return ()
    made: list[pulumi.Resource] = []
    for pool in pools:
        config = env.node_pools[pool.name]
        if isinstance(config, AwsPool) and pool.kind == "karpenter":
            component = KarpenterNodePool(
                pool.name,
                pool=pool,
                config=config,
                node_role_name=cluster.karpenter.node_role_name,
                security_group_id=cluster.eks.security_group_id,
                placement=_placement(env, pool, cluster.subnets, cluster.efa),
                tags=tags(cluster.config),
                after=[*after, *(cluster.efa.ready if cluster.efa else ())],
                opts=pulumi.ResourceOptions(provider=cluster.provider),
            )
            made += component.ready
    return tuple(made)


def _provider(config: AwsCluster) -> aws.Provider:
    """An explicit provider: the ambient one would follow whatever region a person has set."""
    return aws.Provider("aws", region=config.region, default_tags=aws.ProviderDefaultTagsArgs(tags=tags(config)))


def _network(
    name: str, env: Environment, config: AwsCluster, opts: pulumi.ResourceOptions
) -> tuple[Subnets, tuple[pulumi.Resource, ...]]:
    if config.network.vpc_id is not None:
        return network.given(config.network), ()
    made = Network(name, config=config.network, zones=cluster_zones(env), region=config.region, opts=opts)
    return made.subnets, (made,)


def _cluster(
    name: str,
    config: AwsCluster,
    version: str,
    subnets: Subnets,
    opts: pulumi.ResourceOptions,
    provider: aws.Provider,
) -> EksOutputs:
    if not config.create:
        return eks_cluster.existing(name, config.region, pulumi.InvokeOutputOptions(provider=provider))
    return EksCluster(name, config=config, kubernetes_version=version, subnets=subnets, opts=opts).outputs


def _efa(
    name: str, subnets: Subnets, env: Environment, pools: Sequence[NodePool], opts: pulumi.ResourceOptions
) -> EfaNetwork | None:
    wanted = [pool for pool in pools if pool.efa and pool.kind in ("managed", "karpenter")]
    if not wanted:
        return None
    # Instances in a placement group can use only a reservation that was made in it (EC2 user guide, "Capacity Reservations
    # in cluster placement groups"): for a reservation a group of ours would be a wall.
    grouped = [pool.name for pool in wanted if pool.reservation is None and _own_group(env, pool) is None]
    return EfaNetwork(f"{name}-efa", vpc_id=subnets.vpc_id, placement_groups=grouped, opts=opts)


def _own_group(env: Environment, pool: NodePool) -> str | None:
    config = env.node_pools[pool.name]
    return config.placement_group if isinstance(config, AwsPool) else None


def _placement(env: Environment, pool: NodePool, subnets: Subnets, efa: EfaNetwork | None) -> Placement:
    made = efa.placement_groups.get(pool.name) if efa else None
    return Placement(
        subnet_ids=subnets.in_zones(pool.zones),
        efa_security_group_id=efa.security_group_id if efa and pool.efa else None,
        placement_group=_own_group(env, pool) or made,
    )


def _managed_pools(
    env: Environment,
    pools: Sequence[NodePool],
    config: AwsCluster,
    eks: EksOutputs,
    subnets: Subnets,
    efa: EfaNetwork | None,
    vpc: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    managed = [pool for pool in pools if pool.kind == "managed"]
    if not managed:
        return []
    role = NodeRole(f"{eks.name}-node", region=config.region, cni=not config.create, opts=opts)
    groups: list[pulumi.Resource] = []
    for pool in managed:
        own = env.node_pools[pool.name]
        assert isinstance(own, AwsPool)
        component = GpuNodePool(
            f"{eks.name}-{pool.name}",
            pool=pool,
            config=own,
            cluster=eks,
            node_role_arn=role.arn,
            placement=_placement(env, pool, subnets, efa),
            tags=tags(config),
            autoscaler_tags=node_autoscaler(env) == "cluster_autoscaler",
            after=[*role.policies, *vpc, *(efa.ready if efa and pool.efa else ())],
            opts=opts,
        )
        groups.append(component.node_group)
    return groups


def _autoscaling(
    env: Environment, eks: EksOutputs, config: AwsCluster, opts: pulumi.ResourceOptions
) -> tuple[KarpenterAccount | None, list[pulumi.Resource]]:
    """Karpenter's side of the account, if it is Karpenter; and what the autoscaler's pods must find when they start."""
    match node_autoscaler(env):
        case "karpenter":
            account = KarpenterAccount(f"{eks.name}-karpenter", cluster=eks, cni=not config.create, opts=opts)
            return account, [account]
        case "cluster_autoscaler":
            return None, [cluster_autoscaler_role(eks, opts)]
    return None, []
