"""The program: read the config, plan, refuse what cannot work, build in order, export the contract."""

import pulumi

from components import cluster, cluster_software, outputs
from components.config import load_pulumi
from components.llm_service import LlmService
from components.plan import assemble
from components.plan.view import preview
from components.require import require


def main() -> None:
    stack = pulumi.get_stack()
    env = load_pulumi()
    planned = assemble(env, stack)
    preview(planned.plan)
    require(planned.plan.findings)

    kubernetes = cluster.build(env, planned.pools)
    software = cluster_software.build(env, planned.pools, kubernetes)
    services = [
        LlmService(
            spec.name,
            spec=spec,
            manifests=planned.manifests[spec.name],
            findings=planned.plan.findings,
            opts=pulumi.ResourceOptions(provider=kubernetes.provider, depends_on=[*kubernetes.ready, *software.ready]),
        )
        for spec in planned.specs
    ]
    endpoints = {service.spec.name: service.endpoint for service in services}
    outputs.export(stack, endpoints, [service.ready for service in services])


main()
