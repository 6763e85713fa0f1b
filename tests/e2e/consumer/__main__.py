"""Another team's program: the endpoint comes through a stack reference, and goes into a ConfigMap of its own."""

import os
import sys

import pulumi
import pulumi_kubernetes as k8s

sys.path.insert(0, os.environ["SERVING_STACK_CHECKOUT"])

from components import outputs  # the reader is a package of the serving stack

contract = outputs.read(pulumi.StackReference(pulumi.Config().require("serving")))
chat = contract.apply(lambda value: value.endpoints["chat"])

provider = k8s.Provider("kubernetes", kubeconfig=os.environ["KUBECONFIG"])
k8s.core.v1.ConfigMap(
    "llm",
    metadata=k8s.meta.v1.ObjectMetaArgs(name="llm-endpoint", namespace="default"),
    data={"OPENAI_BASE_URL": chat.apply(lambda e: e.base_url), "MODEL": chat.apply(lambda e: e.models[0].name)},
    opts=pulumi.ResourceOptions(provider=provider),
)
pulumi.export("base_url", chat.apply(lambda e: e.base_url))
