"""A role for the pods of one service account, by EKS Pod Identity: no key in a Secret, no access for the whole node.

Not for: the policies themselves (see manifests/iam.py), or the service accounts (charts and services make them).
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from components.manifests.iam import managed_policy_arn, trust_pods
from components.naming import POLICY_PREFIX, ROLE_PREFIX, prefix


class PodIdentityRole(pulumi.ComponentResource):
    """Role, its policies, and the association with a service account.

    `policy` is a document of our own, `managed` are names of AWS managed policies. `associate` is off for EKS add-ons, which
    bring their own association. Outputs: `arn`, known when every policy is attached.
    """

    arn: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster_name: pulumi.Input[str],
        namespace: str,
        service_account: str,
        region: str,
        policy: pulumi.Input[str] | None = None,
        managed: Sequence[str] = (),
        associate: bool = True,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:PodIdentityRole", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            name,
            name_prefix=prefix(name, ROLE_PREFIX),
            description=f"Pods of service account {namespace}/{service_account}",
            assume_role_policy=pulumi.Output.from_input(cluster_name).apply(
                lambda cluster: trust_pods(cluster, namespace, service_account)
            ),
            opts=child,
        )
        attached: list[pulumi.CustomResource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{each.rsplit('/', 1)[-1]}",
                role=role.name,
                policy_arn=managed_policy_arn(each, region),
                opts=child,
            )
            for each in managed
        ]
        if policy is not None:
            attached.append(
                aws.iam.RolePolicy(
                    name, name_prefix=prefix(name, POLICY_PREFIX), role=role.name, policy=policy, opts=child
                )
            )
        if associate:
            aws.eks.PodIdentityAssociation(
                name,
                cluster_name=cluster_name,
                namespace=namespace,
                service_account=service_account,
                role_arn=role.arn,
                opts=pulumi.ResourceOptions(parent=self, depends_on=attached),
            )
        self.arn = pulumi.Output.all(role.arn, *[each.id for each in attached]).apply(lambda found: str(found[0]))
        self.register_outputs({"arn": self.arn})
