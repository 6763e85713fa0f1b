"""All rules, and the one way to run them over the facts of a stack.

A rule module has a tuple `RULES`; this module concatenates them in an explicit order. Rules know facts and catalogs, never
Pulumi, Kubernetes clients or the config they came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from policies.facts import Stack
from policies.finding import Finding, Rule

from . import (
    accelerator,
    addresses,
    architecture,
    attention,
    aws_exposure,
    budget,
    cache_offload,
    capacity,
    certificates,
    cluster_versions,
    compute_domain,
    context_parallel,
    cuda_graphs,
    device_plugin,
    disaggregation,
    disruption,
    dra_driver,
    drivers,
    dtype_quantisation,
    eks_access,
    engine_args,
    engine_needs,
    engine_share,
    engine_spread,
    engine_values,
    engine_words,
    environment_variables,
    exposure,
    extended_resources,
    fit,
    fragmentation,
    gang,
    gpu_operator,
    head_pod,
    helm,
    helm_values,
    host_memory,
    hybrid_models,
    inference_pools,
    ingress_timeouts,
    interfaces,
    kai,
    kai_placement,
    karpenter,
    karpenter_discovery,
    karpenter_disruption,
    karpenter_objects,
    kinds,
    kuberay_cleanup,
    kuberay_cluster,
    kuberay_objects,
    kuberay_options,
    kuberay_schema,
    memory_share,
    metric_names,
    mig_configs,
    model_access,
    model_catalog,
    model_formats,
    model_use,
    moe_kernels,
    names,
    namespace_bounds,
    namespaces,
    network,
    network_policies,
    node_group,
    object_references,
    parallelism,
    placement,
    placement_gpu,
    pod_resources,
    pod_scaling,
    pod_scheduling,
    pod_schema,
    pod_security,
    pod_template,
    pod_writes,
    pool_disk,
    pool_image,
    pool_labels,
    pool_reservation,
    pool_shape,
    pool_types,
    probe_requests,
    probes,
    published,
    queue_bounds,
    queue_shares,
    queues,
    ray_jobs,
    ray_pods,
    ray_start,
    replicas,
    rollout,
    routing,
    runtime_env,
    scheduler_pods,
    secret_references,
    secrets,
    serve_autoscaling,
    serve_llm,
    serve_options,
    serve_ports,
    serve_schema,
    server_times,
    service_objects,
    shared_memory,
    shared_pods,
    sharing,
    side_channels,
    software,
    speculation,
    startup_time,
    system_nodes,
    topology,
    unread,
    upgrade,
    versions,
    volume_claims,
)

RULES: tuple[Rule, ...] = (
    *engine_share.RULES,
    *memory_share.RULES,
    *fit.RULES,
    *cuda_graphs.RULES,
    *hybrid_models.RULES,
    *host_memory.RULES,
    *cache_offload.RULES,
    *model_catalog.RULES,
    *parallelism.RULES,
    *context_parallel.RULES,
    *topology.RULES,
    *engine_spread.RULES,
    *dtype_quantisation.RULES,
    *moe_kernels.RULES,
    *accelerator.RULES,
    *attention.RULES,
    *engine_args.RULES,
    *engine_words.RULES,
    *engine_values.RULES,
    *engine_needs.RULES,
    *speculation.RULES,
    *serve_llm.RULES,
    *serve_options.RULES,
    *serve_schema.RULES,
    *serve_ports.RULES,
    *service_objects.RULES,
    *serve_autoscaling.RULES,
    *startup_time.RULES,
    *routing.RULES,
    *disaggregation.RULES,
    *side_channels.RULES,
    *versions.RULES,
    *cluster_versions.RULES,
    *drivers.RULES,
    *model_access.RULES,
    *model_use.RULES,
    *model_formats.RULES,
    *environment_variables.RULES,
    *head_pod.RULES,
    *placement.RULES,
    *extended_resources.RULES,
    *placement_gpu.RULES,
    *architecture.RULES,
    *capacity.RULES,
    *fragmentation.RULES,
    *budget.RULES,
    *pool_types.RULES,
    *pool_image.RULES,
    *pool_shape.RULES,
    *pool_reservation.RULES,
    *pool_labels.RULES,
    *node_group.RULES,
    *eks_access.RULES,
    *pool_disk.RULES,
    *system_nodes.RULES,
    *karpenter.RULES,
    *karpenter_objects.RULES,
    *karpenter_discovery.RULES,
    *karpenter_disruption.RULES,
    *gpu_operator.RULES,
    *device_plugin.RULES,
    *mig_configs.RULES,
    *compute_domain.RULES,
    *dra_driver.RULES,
    *sharing.RULES,
    *shared_pods.RULES,
    *kai.RULES,
    *kai_placement.RULES,
    *gang.RULES,
    *replicas.RULES,
    *queues.RULES,
    *queue_shares.RULES,
    *queue_bounds.RULES,
    *scheduler_pods.RULES,
    *upgrade.RULES,
    *rollout.RULES,
    *network.RULES,
    *interfaces.RULES,
    *addresses.RULES,
    *network_policies.RULES,
    *shared_memory.RULES,
    *probes.RULES,
    *probe_requests.RULES,
    *disruption.RULES,
    *pod_scaling.RULES,
    *object_references.RULES,
    *metric_names.RULES,
    *inference_pools.RULES,
    *names.RULES,
    *namespaces.RULES,
    *namespace_bounds.RULES,
    *unread.RULES,
    *kuberay_cluster.RULES,
    *kuberay_cleanup.RULES,
    *ray_start.RULES,
    *ray_pods.RULES,
    *ray_jobs.RULES,
    *runtime_env.RULES,
    *kuberay_options.RULES,
    *kuberay_objects.RULES,
    *kuberay_schema.RULES,
    *helm.RULES,
    *helm_values.RULES,
    *software.RULES,
    *kinds.RULES,
    *exposure.RULES,
    *published.RULES,
    *certificates.RULES,
    *ingress_timeouts.RULES,
    *server_times.RULES,
    *pod_security.RULES,
    *pod_writes.RULES,
    *volume_claims.RULES,
    *pod_resources.RULES,
    *pod_template.RULES,
    *pod_scheduling.RULES,
    *pod_schema.RULES,
    *secrets.RULES,
    *secret_references.RULES,
    *aws_exposure.RULES,
)
SEVERITIES = ("error", "warning", "off")
UNKNOWN_OVERRIDE = "policy-override-unknown"  # said by check() itself, about the `policy` section


def check(
    stack: Stack, overrides: Mapping[str, str] | None = None, rules: Iterable[Rule] | None = None
) -> tuple[Finding, ...]:
    """Everything the rules find, sorted: errors first, then by place, rule and text; the same bytes for the same facts.

    `overrides` is rule id -> error | warning | off: off silences a rule, the others set the severity of all it finds. An id
    that no rule has, or another value, is itself an error: a waiver that silences nothing would hide what it was meant for.
    """
    given = overrides or {}
    chosen = RULES if rules is None else tuple(rules)
    found = set(_unknown_overrides(given, chosen))
    for rule in chosen:
        severity = given.get(rule.id)
        if severity == "off":
            continue
        for finding in rule.findings(stack):
            if severity == "error":
                finding = replace(finding, severity="error")
            elif severity == "warning":
                finding = replace(finding, severity="warning")
            found.add(finding)
    return tuple(sorted(found, key=lambda f: (f.severity != "error", f.place, f.rule, f.message, f.mend)))


def _unknown_overrides(overrides: Mapping[str, str], rules: tuple[Rule, ...]) -> Iterable[Finding]:
    from policies.catalog.lookup import closest_names

    ids = sorted(rule.id for rule in rules)
    for rule_id, value in sorted(overrides.items()):
        if rule_id not in ids:
            near = closest_names(rule_id, ids, 1)
            mend = (
                f"did you mean '{near[0]}'?" if near else "take it out, or use the id that a finding shows in brackets"
            )
            yield Finding("policy", "error", UNKNOWN_OVERRIDE, f"there is no rule '{rule_id}'", mend)
        elif value not in SEVERITIES:
            yield Finding(
                "policy",
                "error",
                UNKNOWN_OVERRIDE,
                f"rule '{rule_id}' is set to {value!r}; allowed: {', '.join(SEVERITIES)}",
                "set one of these",
            )
