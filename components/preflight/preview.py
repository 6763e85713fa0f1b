"""The checks inside `pulumi preview`, when there are credentials to look with. An error fails the preview, by Pulumi's own log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import boto3
import pulumi

from components.config import AwsCluster, Environment
from components.preflight.check import Check
from components.preflight.run import Account, checks
from policies.facts import NodePool


def in_preview(
    env: Environment, environment: str, pools: Sequence[NodePool], peak_nodes: Mapping[str, int]
) -> list[Check]:
    """Run and log the checks. [] outside a preview, for a cluster that is not AWS', and without credentials."""
    config = env.cluster
    if not pulumi.runtime.is_dry_run() or not isinstance(config, AwsCluster):
        return []
    session = boto3.Session(region_name=config.region)
    if session.get_credentials() is None:
        return []
    found = list(checks(env, environment, pools, peak_nodes, Account(session)))
    for check in found:
        sentence = f"preflight: {check.place}: {check.message}" + (f"; {check.mend}" if check.mend else "")
        if check.status == "error":
            pulumi.log.error(sentence)
        elif check.status != "pass":
            pulumi.log.warn(sentence)
    return found
