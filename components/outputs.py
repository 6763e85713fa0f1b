"""What other stacks read: one versioned value. Adding a field is free; renaming one needs a new version and a changelog line.

Version 1: contract_version, environment, endpoints {service: {url, base_url, public_base_url, namespace, service, port, models}}.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pydantic import BaseModel, ConfigDict, ValidationError

CONTRACT_VERSION = 1
OUTPUT = "contract"


class _Contract(BaseModel):
    # A reader of version 1 goes on when fields are added.
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class EndpointModel(_Contract):
    """A model that an endpoint serves."""

    name: str
    """Name to send as `model`."""
    model: str
    """Model it is."""
    max_model_len: int | None = None
    """Context length in tokens, where the stack states it."""


class Endpoint(_Contract):
    """An OpenAI-compatible endpoint inside the cluster."""

    url: str
    """http://<service>.<namespace>.svc.cluster.local:<port>"""
    base_url: str
    """`base_url` of an OpenAI client in the cluster: url + /v1."""
    public_base_url: str | None = None
    """The same from where its Ingress or Gateway is reached: https://<host>/v1; none where it has neither."""
    namespace: str
    """Namespace of the Service."""
    service: str
    """Kubernetes Service."""
    port: int
    """Port."""
    models: tuple[EndpointModel, ...]
    """Models."""


class Contract(_Contract):
    """Everything another team may rely on."""

    contract_version: int
    """Version of this value."""
    environment: str
    """Environment (the Pulumi stack's name)."""
    endpoints: dict[str, Endpoint]
    """Endpoints by service."""


class ContractError(Exception):
    """The referenced stack does not export a contract that this code can read."""

    user_facing = True


def endpoint(
    service: str, namespace: str, port: int, models: tuple[EndpointModel, ...], host: str | None = None
) -> Endpoint:
    """The endpoint of a service: KubeRay names its Service <service>-serve-svc, plain vLLM takes the same name."""
    name = f"{service}-serve-svc"
    url = f"http://{name}.{namespace}.svc.cluster.local:{port}"
    return Endpoint(
        url=url,
        base_url=f"{url}/v1",
        public_base_url=f"https://{host}/v1" if host else None,
        namespace=namespace,
        service=name,
        port=port,
        models=models,
    )


def export(environment: str, endpoints: dict[str, Endpoint], ready: list[pulumi.Output[Any]]) -> None:
    """Export the contract. It resolves only when every output of `ready` has: a reader never sees an endpoint that is not there."""
    contract = Contract(
        contract_version=CONTRACT_VERSION, environment=environment, endpoints=dict(sorted(endpoints.items()))
    ).model_dump(mode="json")
    pulumi.export(OUTPUT, pulumi.Output.all(*ready).apply(lambda _: contract))


def parse(value: Any, stack: str) -> Contract:
    """A contract from the exported value. Raises ContractError: no contract, another version, fields missing."""
    if value is None:
        raise ContractError(f"stack '{stack}': exports no '{OUTPUT}'; deploy it with a version that does")
    version = value.get("contract_version") if isinstance(value, dict) else None
    if version != CONTRACT_VERSION:
        raise ContractError(
            f"stack '{stack}': contract_version is {version!r}; this code reads {CONTRACT_VERSION}; use the reader of that version"
        )
    try:
        return Contract.model_validate(value)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, e["loc"])) for e in error.errors())
        raise ContractError(
            f"stack '{stack}': the contract lacks or misstates {fields}; deploy that stack again"
        ) from None


def read(reference: pulumi.StackReference) -> pulumi.Output[Contract]:
    """The contract of a referenced stack."""
    return pulumi.Output.all(reference.get_output(OUTPUT), reference.name).apply(lambda pair: parse(pair[0], pair[1]))
