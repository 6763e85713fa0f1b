"""Which pods may read which weights: read off the services, nothing more. Pure.

Not for: the roles (see components/aws.py), or where a model's weights are (the config says).
"""

from __future__ import annotations

from collections.abc import Mapping

from components.config import Environment

S3 = "s3://"


def readers(env: Environment) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """(namespace, service account) to the S3 places it reads, "bucket" or "bucket/folder", both sorted.

    Only services that name a service account are here: without one there is nobody to give access to. The stack's own
    bucket is not among the places, since its name is known after it is made.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for service in env.services.values():
        if service.service_account is None:
            continue
        places = found.setdefault((service.namespace, service.service_account), set())
        for model in service.models.values():
            named = [model.source or "", model.model or "", model.lora.path if model.lora else ""]
            places.update(each.removeprefix(S3).strip("/") for each in named if each.startswith(S3))
    return {key: tuple(sorted(places)) for key, places in sorted(found.items())}
