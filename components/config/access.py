"""Who may reach a service and by which door: network policy, Ingress, Gateway route, API keys, metrics.

Not for Ray's own token authentication or the type of the Service (services.py).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from .base import Name, Positive, SecretKey, Strict
from .clusters import Cidr
from .names import Annotations, ObjectLabels, ObjectName, PathPrefixes, SecretKeyName


class Peer(Strict):
    """The other end of a connection: pods by namespace and labels, or addresses."""

    namespace: str | None = None
    """Namespace by name; with `pods` alone: any namespace."""
    pods: ObjectLabels = {}
    """Labels of the pods; every pod of the namespace when empty."""
    cidr: Cidr | None = None
    """Address range, for what is no pod: load balancers, other networks, the API server."""

    @model_validator(mode="after")
    def _pods_or_addresses(self) -> Peer:
        if self.cidr is not None and (self.namespace is not None or self.pods):
            raise ValueError("cidr stands alone; give namespace and pods as another entry of the list")
        if self.cidr is None and self.namespace is None and not self.pods:
            raise ValueError("an empty entry is everybody; give namespace, pods or cidr, or leave the list out")
        return self


class NetworkPolicy(Strict):
    """Who may open connections to the pods of a service. Its own pods always may, and KubeRay's operator as far as it must."""

    enabled: bool = True
    """Make NetworkPolicies. The network plugin has to enforce them; on EKS made here the VPC CNI does."""
    clients: tuple[Peer, ...] | None = None
    """Who may reach the endpoint; everyone who has a route when not given. Load balancers are addresses: give their cidr, too."""
    operators: tuple[Peer, ...] = ()
    """Who may reach the head's dashboard, jobs and client ports beside KubeRay: nobody, since `kubectl port-forward` needs no entry.
    Teams that bring jobs and apps to a shared cluster from pods of their own are named here."""
    metrics: tuple[Peer, ...] | None = None
    """Who may read metrics; everyone who has a route when not given."""
    egress: tuple[Peer, ...] | None = None
    """Where the pods may connect to, beside each other and DNS; anywhere when not given. Model downloads and, with Ray's
    autoscaler, the API server are addresses: give their cidr."""


class Ingress(Strict):
    """An Ingress with TLS in front of the endpoint."""

    host: str = Field(pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$")
    """Host name, e.g. chat.example.com."""
    class_name: ObjectName | None = None
    """IngressClass; derived: alb on AWS, the cluster's default class elsewhere."""
    tls_secret: ObjectName | None = None
    """Secret of type kubernetes.io/tls in the service's namespace."""
    certificate_arn: str | None = Field(default=None, pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/.+$")
    """Certificate of ACM, for class alb; derived there: the one that matches the host."""
    internal: bool = True
    """alb: a load balancer inside the VPC."""
    source_ranges: tuple[Cidr, ...] = ()
    """alb: addresses that may connect; all when empty."""
    paths: PathPrefixes = ("/v1",)
    """Path prefixes that are published. Outside /v1 are metrics, probes and what vLLM's API key does not guard."""
    timeout_seconds: int = Field(default=900, ge=1, le=4000)  # the most that an ALB takes
    """Longest silence in a request. Load balancers cut a connection after 60 s by default, in the middle of a long answer."""
    annotations: Annotations = {}
    """Further annotations, over the derived ones; an authentication of the load balancer, say."""

    @model_validator(mode="after")
    def _one_certificate_for_the_class(self) -> Ingress:
        if self.tls_secret is not None and self.certificate_arn is not None:
            raise ValueError(
                "tls_secret and certificate_arn are two certificates; give the one that the class reads (alb: certificate_arn)"
            )
        if self.class_name not in (None, "alb"):
            for name in ("certificate_arn", "source_ranges"):
                if getattr(self, name):
                    raise ValueError(
                        f"{name} is read by class alb only and class_name is '{self.class_name}'; leave it out"
                    )
        return self


class GatewayRoute(Strict):
    """A Gateway with TLS and an HTTPRoute to the endpoint."""

    host: str = Field(pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$")
    """Host name, e.g. chat.example.com."""
    tls_secret: ObjectName | None = None
    """Secret of type kubernetes.io/tls in the service's namespace, for the Gateway that is made."""
    gateway: str | None = Field(
        default=None, pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
    )
    """<namespace>/<name> of a Gateway that is there and brings TLS; derived: one is made for the service."""
    load_balancer: Literal["none", "internal", "internet"] = "none"
    """Address of the Gateway that is made by Envoy Gateway: none is inside the cluster only; internal is inside the VPC."""
    paths: PathPrefixes = ("/v1",)
    """Path prefixes that are published."""
    timeout_seconds: int = Field(default=900, ge=1, le=86400)
    """Longest request. Envoy ends one after 15 s by default."""

    @model_validator(mode="after")
    def _a_gateway_that_is_made_has_a_certificate(self) -> GatewayRoute:
        if self.gateway is None and self.tls_secret is None:
            raise ValueError("the Gateway that is made needs tls_secret; or give gateway, one that is there")
        if self.gateway is not None and (self.tls_secret is not None or self.load_balancer != "none"):
            raise ValueError(
                f"gateway '{self.gateway}' has its own TLS and address; leave tls_secret and load_balancer out, or leave gateway out"
            )
        return self


class ApiKeys(Strict):
    """Keys that clients send as `Authorization: Bearer`; only references to Secrets."""

    engine: SecretKey | None = None
    """Kind vllm: the one key that vLLM itself asks for (VLLM_API_KEY), on paths under /v1. Ray Serve LLM asks for none."""
    teams: tuple[Name, ...] = ()
    """Secrets whose entries are a team's name and its key. The Gateway checks them (expose.gateway) and passes the name on."""


class Metrics(Strict):
    """Scraping by the Prometheus Operator."""

    pod_monitor: bool = False
    """Make a PodMonitor, for a Prometheus that is there; the one that this stack installs scrapes every service anyhow."""
    labels: ObjectLabels = {}
    """Labels of the PodMonitor, by which a Prometheus selects it, e.g. release: prometheus."""
    interval_seconds: Positive = 30
    """Seconds between two scrapes."""


class RemoteKey(Strict):
    """Where one value lies in a store of secrets."""

    name: str
    """Name of the secret in the store, e.g. prod/huggingface."""
    property: str | None = None
    """Property of a secret that is JSON; the whole secret when not given."""


class ExternalSecret(Strict):
    """A Secret that the External Secrets Operator keeps equal to a store's, e.g. AWS Secrets Manager. No value is ever written here."""

    store: ObjectName
    """Name of the store that is there."""
    store_kind: Literal["ClusterSecretStore", "SecretStore"] = "ClusterSecretStore"
    """Kind of the store: for the whole cluster, or of the namespace."""
    keys: dict[SecretKeyName, RemoteKey] = Field(min_length=1)
    """Key inside the Secret -> where its value lies."""
    refresh_seconds: Positive = 3600
    """Seconds between two looks at the store."""
