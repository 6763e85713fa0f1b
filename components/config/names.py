"""Names, labels and paths inside objects that the API server refuses in another form: said when the config is read.

Not for: names that other names are made from, whose length rules judge (policies/rules/names.py), or node labels (node_labels.py).
Sources: apimachinery validation (IsDNS1123Subdomain); Gateway API 1.6.1 (HTTPPathMatch); tests/e2e/software/test_crds.py asks the CRDs;
grammar of image references, https://github.com/distribution/reference (reference.go).
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from .base import Labels
from .node_labels import NodeLabels, is_key

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_REPOSITORY = re.compile(
    r"(?:[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*(:[0-9]+)?/)?"
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
)
_PATH = re.compile(r"/(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END = ("/.", "/..")


def _object_name(text: str) -> str:
    if len(text) > 253 or _SUBDOMAIN.fullmatch(text) is None:
        raise ValueError(
            "a name is lower-case letters, digits, '-' and '.', up to 253, and begins and ends with a letter or digit"
        )
    return text


def _annotations(given: Labels) -> Labels:
    wrong = [key for key in given if not is_key(key.lower())]
    if wrong:
        raise ValueError(
            f"annotation key '{wrong[0]}' is none that Kubernetes takes; a key is [prefix/]name, as of a label"
        )
    return given


def _repository(text: str) -> str:
    last = text.rpartition("/")[2]
    if ":" in last or "@" in last:
        raise ValueError("a repository is named without tag or digest; give those as tag and digest beside it")
    if _REPOSITORY.fullmatch(text) is None:
        raise ValueError(
            "a repository is [host[:port]/]name, the name in lower case: registry.example.com/team/llm-serve"
        )
    return text


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("a path begins with '/'")
    found = [part for part in _NOT_IN_PATHS if part in text] + [end for end in _NOT_AT_THE_END if text.endswith(end)]
    if found:
        raise ValueError(
            f"a path has no '{found[0]}': Ingress and Gateway refuse it, since proxies disagree on what it means"
        )
    if len(text) > 1024 or _PATH.fullmatch(text) is None:
        raise ValueError("a path is up to 1024 characters of a URL's path, others as %XX; without query and fragment")
    return text


ObjectName = Annotated[str, AfterValidator(_object_name)]
"""Name of an object: a Secret, a class, a store."""
ObjectLabels = NodeLabels
"""Labels of an object or of a selector."""
Annotations = Annotated[Labels, AfterValidator(_annotations)]
"""Annotations of an object."""
ImageRepository = Annotated[str, AfterValidator(_repository)]
"""Image repository, without tag and digest."""
ImageTag = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}$")]
"""Tag of an image."""
PathPrefix = Annotated[str, AfterValidator(_path)]
"""Prefix of a URL's path, as Ingress and HTTPRoute take it."""
PathPrefixes = Annotated[tuple[PathPrefix, ...], Field(min_length=1, max_length=64)]
"""At least one: an HTTPRoute without paths publishes all of them."""
SecretKeyName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""Key inside a Secret."""
