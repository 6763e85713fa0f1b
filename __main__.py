"""The program: read the config, plan, refuse what cannot work, build in order, export the contract."""

from functools import partial
from math import ceil

import pulumi

from components import cluster, cluster_software, outputs, window
from components.config import load_pulumi
from components.llm_service import LlmService
from components.plan import assemble
from components.plan.view import preview
from components.require import require


async def main() -> None:
    stack = pulumi.get_stack()
    env = load_pulumi()
    planned = assemble(env, stack)
    preview(planned.plan)
    require(planned.plan.findings)  # nothing is created from a plan with an error
    if env.cluster.kind == "aws":
        from components.preflight.preview import in_preview  # boto3 is loaded only where it is used

        in_preview(env, stack, planned.pools, {pool.name: ceil(pool.nodes.upgrade) for pool in planned.plan.pools})

    kubernetes = cluster.build(env, planned.pools)
    software = cluster_software.build(env, planned.pools, kubernetes)
    services = await window.build(
        partial(
            LlmService,
            spec.name,
            spec=spec,
            manifests=planned.manifests[spec.name],
            findings=planned.plan.findings,
            opts=pulumi.ResourceOptions(provider=kubernetes.provider, depends_on=[*kubernetes.ready, *software.ready]),
        )
        for spec in planned.specs
    )
    outputs.export(stack, {s.spec.name: s.endpoint for s in services if s.endpoint}, [s.ready for s in services])


pulumi.run(main)
