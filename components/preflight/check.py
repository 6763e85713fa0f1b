"""One thing that was looked at in the account, and how a look that failed is told. "Could not be checked" is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

Status = Literal["pass", "warning", "error", "unchecked"]

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


@dataclass(frozen=True, slots=True, order=True)
class Check:
    """What was looked at (`place`), which question (`name`), what came out, and for anything but a pass what to do."""

    place: str
    name: str
    status: Status
    message: str
    mend: str = ""


def ok(place: str, name: str, message: str) -> Check:
    return Check(place, name, "pass", message)


def warning(place: str, name: str, message: str, mend: str) -> Check:
    return Check(place, name, "warning", message, mend)


def error(place: str, name: str, message: str, mend: str) -> Check:
    return Check(place, name, "error", message, mend)


def unchecked(place: str, name: str, why: str, mend: str = "") -> Check:
    return Check(place, name, "unchecked", f"could not be checked: {why}", mend)


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
