"""Another team's program: one manifest, rendered to files so that no cluster is needed; what it does is set by its config."""

import json

import pulumi
import pulumi_kubernetes as k8s

config = pulumi.Config()
provider = k8s.Provider("render", render_yaml_to_directory=config.require("directory"))
options = pulumi.ResourceOptions(provider=provider)
team = k8s.core.v1.Namespace("team", opts=options)
manifest = json.loads(config.require("manifest"))
if config.get_bool("unknown"):
    # Only the update knows the id of what it makes.
    worker = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    worker.setdefault("env", []).append({"name": "TEAM", "value": team.id})
k8s.apiextensions.CustomResource(
    "llm",
    api_version=manifest["apiVersion"],
    kind=manifest["kind"],
    metadata={**manifest["metadata"], "namespace": "team"},
    spec=manifest["spec"],
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[team]),
)
if config.get("chart"):
    values = {"token": config.require_secret("token")}
    k8s.helm.v4.Chart("chart", chart=config.require("chart"), values=values, opts=options)
    k8s.helm.v3.Release("release", chart=config.require("chart"), values={"token": "plain"}, opts=options)
