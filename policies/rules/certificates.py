"""Certificates: of ACM, in the load balancer's region; of cert-manager, by an issuer that is there. Not for: whether an endpoint has TLS at all (published.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error

_ARN = re.compile(
    r"arn:aws[a-z-]*:(?P<service>acm|iam):(?P<region>[a-z0-9-]*):\d{12}:(certificate|server-certificate)/.+"
)
_KEYS = (
    "alb.ingress.kubernetes.io/certificate-arn",
    "service.beta.kubernetes.io/aws-load-balancer-ssl-cert",
)


def certificates(stack: Stack) -> Iterator[Problem]:
    region = next((zone.rstrip("abcdef") for zone in stack.zones), None)
    for item in stack.of_kind("Ingress", "Service"):
        annotations = item.annotations
        for key in _KEYS:
            for arn in filter(None, (part.strip() for part in str(annotations.get(key) or "").split(","))):
                match = _ARN.fullmatch(arn)
                if match is None:
                    yield error(
                        item.where,
                        f"certificate '{arn}' is no ARN of a certificate: the controller makes no listener",
                        "write arn:aws:acm:<region>:<account>:certificate/<id>",
                    )
                elif match["service"] == "acm" and region and match["region"] != region:
                    yield error(
                        item.where,
                        f"its certificate is of {match['region']} and the cluster in {region}: a load balancer takes certificates of its own region",
                        f"request or import the certificate in {region}",
                    )


_ISSUERS = {"Issuer": "cert-manager.io/issuer", "ClusterIssuer": "cert-manager.io/cluster-issuer"}


def issuers(stack: Stack) -> Iterator[Problem]:
    """Names of issuers of which only one of the other kind, or of another namespace, is seen."""
    seen = stack.of_kind(*_ISSUERS)
    for where, space, kind, name in _wanted(stack) if seen else ():
        alike = [each for each in seen if each.name == name]
        if alike and not any(each.kind == kind and (kind != "Issuer" or each.namespace == space) for each in alike):
            there = alike[0]
            has = (
                f"a {there.kind} of that name is" if there.kind != kind else f"one of namespace '{there.namespace}' is"
            )
            yield error(
                where,
                f"{kind} '{name}' is not there, and {has}: no certificate is made, and the Secret of the TLS entry never is",
                f"name a {there.kind} ({_ISSUERS[there.kind]}, or issuerRef.kind)"
                if there.kind != kind
                else "use a ClusterIssuer, or make an Issuer in this namespace",
            )


def _wanted(stack: Stack) -> Iterator[tuple[str, str, str, str]]:
    """(place, namespace, kind, name) of every issuer that something names."""
    for item in stack.of_kind("Ingress", "Gateway"):
        for kind, key in _ISSUERS.items():
            if item.annotations.get(key):
                yield item.where, item.namespace, kind, str(item.annotations[key])
    for item in stack.of_kind("Certificate", group="cert-manager.io/"):
        named = mapping(item.spec.get("issuerRef"))
        if named.get("name") and str(named.get("group") or "cert-manager.io") == "cert-manager.io":
            yield item.where, item.namespace, str(named.get("kind") or "Issuer"), str(named["name"])


RULES: tuple[Rule, ...] = (
    Rule(
        id="ingress-certificate",
        title="The certificate is one of the load balancer's region",
        why=(
            "ACM keeps certificates by region, and only CloudFront reads those of us-east-1 from elsewhere. The load balancer controller logs CertificateNotFound, and the "
            "Ingress never gets an address."
        ),
        check=certificates,
        sources=("https://docs.aws.amazon.com/acm/latest/userguide/acm-regions.html",),
    ),
    Rule(
        id="ingress-issuer",
        title="A certificate's issuer is of the kind and namespace that it is asked for",
        why="An Issuer is of its namespace, a ClusterIssuer of all. cert-manager looks for what the annotation or issuerRef says, and waits: the Ingress serves the controller's own certificate.",
        check=issuers,
        sources=("cert-manager#3066", "cloudflare/origin-ca-issuer#35"),
    ),
)
