"""Annotations of load balancers and Ingress controllers: the names that each reads, and what their values are.

For: names that nothing reads, values that do not parse (rules/annotation_words.py). Not for: whether a value is a good one.
Sources: aws-load-balancer-controller, pkg/annotations/constants.go and docs/guide; cloud-provider-aws, pkg/providers/v1/aws.go (the
load balancers of Kubernetes itself); ingress-nginx, docs/user-guide/nginx-configuration/annotations.md with names of older releases.
Read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

# A name -> None (any text), int, bool, "json", or its choices.
Names: TypeAlias = Mapping[str, Any]
ALB, NGINX, SERVICE = (
    "alb.ingress.kubernetes.io/",
    "nginx.ingress.kubernetes.io/",
    "service.beta.kubernetes.io/aws-load-balancer-",
)


def _of(text: Iterable[str], kind: Any = None) -> Names:
    return dict.fromkeys(text, kind)


_HEALTH = (
    "healthcheck-interval-seconds", "healthcheck-timeout-seconds", "healthy-threshold-count", "unhealthy-threshold-count",
)  # fmt: skip
_FRONT = "frontend-nlb-"
_OF_ALB: Names = {
    **_of((
        "acm-pca-arn", "auth-idp-cognito", "auth-idp-oidc", "auth-scope", "auth-session-cookie", "backend-protocol-version",
        "certificate-arn", "customer-owned-ipv4-pool", "frontend-nlb-attributes", "frontend-nlb-eip-allocations",
        "frontend-nlb-healthcheck-path", "frontend-nlb-healthcheck-port", "frontend-nlb-healthcheck-protocol",
        "frontend-nlb-healthcheck-success-codes", "frontend-nlb-listener-port-mapping", "frontend-nlb-security-groups",
        "frontend-nlb-subnets", "frontend-nlb-tags", "group.name", "healthcheck-path", "healthcheck-port", "inbound-cidrs",
        "ipam-ipv4-pool-id", "jwt-validation", "load-balancer-attributes", "load-balancer-name", "minimum-load-balancer-capacity",
        "multi-cluster-target-group", "mutual-authentication", "security-group-prefix-lists", "security-groups",
        "shield-advanced-protection", "ssl-policy", "subnets", "success-codes", "tags", "target-control-port", "target-group-attributes",
        "target-node-labels", "use-regex-path-match", "waf-acl-id", "wafv2-acl-arn", "wafv2-acl-name", "web-acl-id",
    )),
    **_of((*_HEALTH, "auth-session-timeout", "group.order", "ssl-redirect"), int),
    **_of(f"{_FRONT}{name}" for name in (
        "healthcheck-healthy-threshold-count", "healthcheck-interval-seconds", "healthcheck-timeout-seconds",
        "healthcheck-unhealthy-threshold-count",
    )),
    **_of(("create-acm-cert", "dry-run-plan", "enable-frontend-nlb", "manage-backend-security-group-rules"), bool),
    "auth-on-unauthenticated-request": ("allow", "authenticate", "deny"),
    "auth-type": ("cognito", "none", "oidc"),
    "backend-protocol": ("HTTP", "HTTPS"),
    f"{_FRONT}scheme": ("internal", "internet-facing"),
    "healthcheck-protocol": ("HTTP", "HTTPS"),
    "ip-address-type": ("dualstack", "dualstack-without-public-ipv4", "ipv4"),
    "listen-ports": "json",
    "scheme": ("internal", "internet-facing"),
    "target-type": ("instance", "ip"),
}  # fmt: skip
_OF_SERVICE: Names = {
    **_of((
        "access-log-emit-interval", "access-log-enabled", "access-log-s3-bucket-name", "access-log-s3-bucket-prefix",
        "additional-resource-tags", "alpn-policy", "attributes", "backend-protocol", "connection-draining-enabled",
        "connection-draining-timeout", "connection-idle-timeout", "cross-zone-load-balancing-enabled", "disable-nlb-sg", "eip-allocations",
        "eip-allocations-discovery-tags", "enable-icmp-for-path-mtu-discovery", "enable-prefix-for-ipv6-source-nat",
        "enable-tcp-udp-listener", "extra-security-groups", "healthcheck-healthy-threshold", "healthcheck-interval", "healthcheck-path",
        "healthcheck-port", "healthcheck-protocol", "healthcheck-success-codes", "healthcheck-timeout", "healthcheck-unhealthy-threshold",
        "inbound-sg-rules-on-private-link-traffic", "internal", "ip-address-type", "ipv6-addresses", "listener-attributes",
        "manage-backend-security-group-rules", "minimum-load-balancer-capacity", "multi-cluster-target-group", "name",
        "private-ipv4-addresses", "proxy-protocol", "proxy-protocol-per-target-group", "quic-enabled-containers", "quic-enabled-ports",
        "security-group-prefix-lists", "security-groups", "source-nat-ipv6-prefixes", "ssl-cert", "ssl-negotiation-policy", "ssl-ports",
        "subnets", "target-group-attributes", "target-node-labels",
    )),
    "nlb-target-type": ("instance", "ip", "nlb-ip"),
    "scheme": ("internal", "internet-facing"),
    "type": ("clb", "external", "nlb", "nlb-ip"),
}  # fmt: skip
_OF_NGINX: Names = {
    **_of((
        "affinity", "affinity-canary-behavior", "affinity-mode", "allowlist-source-range", "app-root", "auth-always-set-cookie",
        "auth-cache-duration", "auth-cache-key", "auth-method", "auth-proxy-set-headers", "auth-realm", "auth-request-redirect",
        "auth-response-headers", "auth-secret", "auth-secret-type", "auth-signin", "auth-signin-redirect-param", "auth-snippet",
        "auth-tls-error-page", "auth-tls-match-cn", "auth-tls-pass-certificate-to-upstream", "auth-tls-secret", "auth-tls-verify-client",
        "auth-type", "auth-url", "backend-protocol", "canary-by-cookie", "canary-by-header", "canary-by-header-pattern",
        "canary-by-header-value", "client-body-buffer-size", "configuration-snippet", "connection-proxy-header", "cors-allow-headers",
        "cors-allow-methods", "cors-allow-origin", "cors-expose-headers", "custom-headers", "custom-http-errors", "default-backend",
        "denylist-source-range", "fastcgi-index", "fastcgi-params-configmap", "global-rate-limit", "global-rate-limit-ignored-cidrs",
        "global-rate-limit-key", "global-rate-limit-window", "influxdb-host", "influxdb-measurement", "influxdb-port",
        "influxdb-server-name", "limit-allowlist", "limit-whitelist", "load-balance", "mirror-host", "mirror-request-body",
        "mirror-target", "modsecurity-snippet", "modsecurity-transaction-id", "opentelemetry-operation-name", "permanent-redirect",
        "proxy-body-size", "proxy-buffer-size", "proxy-buffering", "proxy-busy-buffers-size", "proxy-cookie-domain", "proxy-cookie-path",
        "proxy-http-version", "proxy-max-temp-file-size", "proxy-next-upstream", "proxy-redirect-from", "proxy-redirect-to",
        "proxy-request-buffering", "proxy-ssl-ciphers", "proxy-ssl-name", "proxy-ssl-protocols", "proxy-ssl-secret",
        "proxy-ssl-server-name", "proxy-ssl-verify", "relative-redirects", "rewrite-target", "satisfy", "secure-backends", "server-alias",
        "server-snippet", "session-cookie-domain", "session-cookie-expires", "session-cookie-max-age", "session-cookie-name",
        "session-cookie-path", "session-cookie-samesite", "ssl-ciphers", "stream-snippet", "temporal-redirect", "upstream-hash-by",
        "upstream-vhost", "whitelist-source-range", "x-forwarded-prefix",
    )),
    **_of((
        "auth-keepalive", "auth-keepalive-requests", "auth-keepalive-timeout", "auth-tls-verify-depth", "canary-weight",
        "canary-weight-total", "cors-max-age", "limit-burst-multiplier", "limit-connections", "limit-rate", "limit-rate-after", "limit-rpm",
        "limit-rps", "permanent-redirect-code", "proxy-buffers-number", "proxy-connect-timeout", "proxy-next-upstream-timeout",
        "proxy-next-upstream-tries", "proxy-read-timeout", "proxy-send-timeout", "proxy-ssl-verify-depth", "temporal-redirect-code",
        "upstream-hash-by-subset-size",
    ), int),
    **_of((
        "auth-keepalive-share-vars", "canary", "cors-allow-credentials", "disable-proxy-intercept-errors", "enable-access-log",
        "enable-cors", "enable-global-auth", "enable-influxdb", "enable-modsecurity", "enable-opentelemetry", "enable-opentracing",
        "enable-owasp-core-rules", "enable-rewrite-log", "force-ssl-redirect", "from-to-www-redirect", "http2-push-preload",
        "opentelemetry-trust-incoming-span", "opentracing-trust-incoming-span", "preserve-trailing-slash", "service-upstream",
        "session-cookie-change-on-failure", "session-cookie-conditional-samesite-none", "session-cookie-secure", "ssl-passthrough",
        "ssl-prefer-server-ciphers", "ssl-redirect", "upstream-hash-by-subset", "use-port-in-redirects", "use-regex",
    ), bool),
}  # fmt: skip
NAMES: Mapping[str, Names] = {ALB: _OF_ALB, NGINX: _OF_NGINX, SERVICE: _OF_SERVICE}
# Names that go on after a dot: of a Service, or of a listener.
OPEN = ("actions.", "conditions.", "listener-attributes.", "transforms.")
