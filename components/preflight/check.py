"""How a look into the account that failed is told: AWS refused, throttled, or was not reached. The checks are those of components/checks.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from botocore.exceptions import BotoCoreError, ClientError

from components.checks import Check, Status, error, ok, unchecked, warning

__all__ = ["Check", "Status", "attempt", "error", "is_missing", "ok", "unchecked", "warning"]

_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "RequestThrottled",
        "SlowDown",
    }
)


def attempt(place: str, name: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """The checks of one look. When AWS refuses, throttles or is not reached, one that says so, after those it gave so far."""
    try:
        yield from look()
    except ClientError as failure:
        yield _refused(place, name, failure)
    except BotoCoreError as failure:  # no credentials, no endpoint, timeout
        yield unchecked(
            place, name, str(failure).rstrip("."), "set credentials and region, e.g. `aws sts get-caller-identity`"
        )


def is_missing(failure: ClientError, *codes: str) -> bool:
    """Whether AWS answered that the thing is not there, under one of these error codes."""
    return str(failure.response.get("Error", {}).get("Code")) in codes


def _refused(place: str, name: str, failure: ClientError) -> Check:
    found = failure.response.get("Error", {})
    code, operation = str(found.get("Code")), failure.operation_name
    if code in _DENIED:
        mend = f"let the credentials call {operation}, or check by hand"
        return unchecked(place, name, f"{operation} was denied ({code})", mend)
    if code in _THROTTLED:
        retries = failure.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
        return unchecked(place, name, f"{operation} was throttled ({code}, {retries} retries)", "run preflight again")
    return unchecked(place, name, f"{operation} failed: {found.get('Message', code)} ({code})")
