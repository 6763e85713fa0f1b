"""Certificates of load balancers: of ACM, in the load balancer's region. Not for: whether an endpoint has TLS at all (published.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Stack
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
)
