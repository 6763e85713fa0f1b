"""A service in the cluster: its custom resource (or plain vLLM's Deployment and Service), awaited until it is Ready.

Not for deciding anything: what is created here was derived, rendered and judged by the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.config import deep_merge
from components.derive.spec import ServiceSpec
from components.derive.startup import ready_timeout
from components.manifests.surroundings import AFTER_WORKLOAD
from components.outputs import Endpoint, EndpointModel, endpoint
from components.require import require
from policies.finding import Finding


class LlmService(pulumi.ComponentResource):
    """One service. Outputs: `endpoint` (known at preview; None for a job and a shared cluster), `ready` (resolves when it is Ready)."""

    spec: ServiceSpec
    endpoint: Endpoint | None
    ready: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        spec: ServiceSpec,
        manifests: Sequence[dict[str, Any]],
        findings: Sequence[Finding],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        require(finding for finding in findings if finding.place.startswith(spec.where))
        super().__init__("llm-serving:index:LlmService", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        if spec.config.create_namespace:
            namespace = k8s.core.v1.Namespace(
                spec.config.namespace,
                metadata=k8s.meta.v1.ObjectMetaArgs(name=spec.config.namespace),
                opts=child,
            )
            child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        first, *rest = manifests
        others = [self._object(name, spec, m, child) for m in rest if m["kind"] not in AFTER_WORKLOAD]
        after = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=others))
        workload = self._object(name, spec, first, after)
        last = pulumi.ResourceOptions.merge(after, pulumi.ResourceOptions(depends_on=[workload]))
        others += [self._object(name, spec, m, last) for m in rest if m["kind"] in AFTER_WORKLOAD]
        self.spec = spec
        self.endpoint = _endpoint(spec)
        self.ready = pulumi.Output.all(workload.id, *[other.id for other in others]).apply(lambda ids: str(ids[0]))
        shown = self.endpoint.model_dump(mode="json") if self.endpoint else None
        self.register_outputs({"endpoint": shown, "ready": self.ready})

    def _object(
        self, name: str, spec: ServiceSpec, manifest: dict[str, Any], opts: pulumi.ResourceOptions
    ) -> pulumi.CustomResource:
        """Apply one object as it stands, of whatever kind: what was judged is what is sent."""
        annotations: dict[str, str] = {}
        if manifest["kind"] == "RayService":
            # Custom resources are not awaited unless told so (pulumi-kubernetes >= 4.18).
            annotations["pulumi.com/waitFor"] = "condition=Ready"
        if manifest["kind"] in ("RayService", "Deployment"):
            annotations["pulumi.com/timeoutSeconds"] = str(ready_timeout(spec))
        metadata = (
            deep_merge(manifest["metadata"], {"annotations": annotations}) if annotations else manifest["metadata"]
        )
        if manifest["kind"] == "RayJob":
            # KubeRay reads a job's spec once: a changed one takes the place of the old, and runs.
            opts = pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
            )
        if "/" not in manifest["apiVersion"]:
            # The provider calls the group without a name `core`, and refuses a kubernetes:v1:Service, which CustomResource makes.
            token = f"kubernetes:core/{manifest['apiVersion']}:{manifest['kind']}"
            return pulumi.CustomResource(
                token, _resource_name(name, manifest), {**manifest, "metadata": metadata}, opts
            )
        made: pulumi.CustomResource = k8s.apiextensions.CustomResource(
            _resource_name(name, manifest),
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=metadata,
            **({"spec": manifest["spec"]} if "spec" in manifest else {}),
            opts=opts,
        )
        return made


def _endpoint(spec: ServiceSpec) -> Endpoint | None:
    if spec.config.kind not in ("ray_service", "vllm"):
        return None
    return endpoint(
        spec.name,
        spec.config.namespace,
        spec.config.expose.port,
        tuple(
            EndpointModel(name=e.name, model=e.catalog_id, max_model_len=_length(e.engine_args))
            for e in spec.engines
            if e.role != "prefill"
        ),
        _host(spec),
    )


def _host(spec: ServiceSpec) -> str | None:
    """Host by which the endpoint is published; of a wildcard there is none."""
    doors = (spec.config.expose.ingress, spec.config.expose.gateway)
    hosts = (door.host for door in doors if door is not None)
    return next((host for host in hosts if not host.startswith("*")), None)


def _resource_name(service: str, manifest: dict[str, Any]) -> str:
    """Kind, and the object's own name where it differs from the service's; a service has one Service and one ServiceAccount."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    alone = name == service or kind in ("Service", "ServiceAccount")
    return f"{service}-{kind.lower()}" + ("" if alone else f"-{name}")


def _length(engine_args: dict[str, Any]) -> int | None:
    length = engine_args.get("max_model_len")
    return length if isinstance(length, int) and length > 0 else None
