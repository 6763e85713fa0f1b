"""The wire: a resource as Pulumi's engine or a manifest states it, made plain. Every reader of facts starts from this record.

Numbers cross as floats, unknown values as sentinels, secrets in envelopes. Here whole numbers become int, unknown values
leave and their paths are kept, and texts that must not be shown are remembered. Not for: what a property means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .records.values import EMPTY, Values

# Values that the engine sends for what it cannot know yet, by kind (sdk/go/common/resource/plugin/rpc.go).
UNKNOWN = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string, and everything of no certain kind
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
PLACEHOLDER = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # stands in for a value that somebody is yet to fill in
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_TOKEN_KEY = re.compile(r"token|passw|secret|credential|api.?key|private.?key|kubeconfig", re.IGNORECASE)
# Shorter texts are words: hiding every "gpu" of a message because a secret tree holds one would hide the message.
_LEAST_SECRET = 8
_LEAVE_OUT = object()
Guess = str | bool | int | None
GUESSES: tuple[Guess, ...] = ("not-known", "999.0.0", False, True, 0, 1, 1_000_000)
"""Values that stand in for an unknown one, to see whether a finding depends on it (None: the value is left out)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource as declared. props: camelCase, without the unknown ones, whose paths are in `unknown` ("spec.template[0].x")."""

    type: str  # Pulumi's type token: kubernetes:ray.io/v1:RayService, aws:eks/nodeGroup:NodeGroup
    name: str
    urn: str = ""
    props: Values = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    raw: Values = field(default_factory=dict)  # as it crossed the wire
    secrets: frozenset[str] = frozenset()  # texts that no message may show
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # property -> URNs its value comes from
    ignore_changes: tuple[str, ...] = ()
    parent: str = ""
    provider_version: str | None = None

    def is_unknown(self, path: str) -> bool:
        """Whether the value at `path`, or one that holds it, is not known yet."""
        return any(path == p or path.startswith((p + ".", p + "[")) for p in self.unknown)

    def guessed(self, value: Guess) -> Resource:
        """The same resource with `value` wherever the real one is unknown; itself where nothing is."""
        if not self.unknown:
            return self
        return replace(self, props=_plain(self.raw, "", "", False, [], set(), value))

    @property
    def manifest(self) -> Values | None:
        """The Kubernetes object, where it is one: not for Helm releases and charts, or patches of others' objects."""
        if "kind" in self.props and "apiVersion" in self.props and not self.type.endswith("Patch"):
            return self.props
        return None


def resource(
    type: str,
    name: str,
    props: Mapping[str, Any],
    *,
    urn: str = "",
    sources: Mapping[str, Iterable[str]] = EMPTY,
    ignore_changes: Iterable[str] = (),
    parent: str = "",
    provider_version: str | None = None,
) -> Resource:
    """A record from properties as they cross the wire (JSON types, sentinels, envelopes), or as a policy's proxies hold them."""
    unknown: list[str] = []
    secrets: set[str] = set()
    known = _plain(props, "", "", False, unknown, secrets, None)
    return Resource(
        type=type,
        name=name,
        urn=urn,
        props=known,
        unknown=tuple(unknown),
        raw=props,
        secrets=frozenset(secrets),
        sources={key: tuple(urns) for key, urns in sources.items()},
        ignore_changes=tuple(ignore_changes),
        parent=parent,
        provider_version=provider_version,
    )


def manifests(documents: Iterable[Any], origin: str = "") -> list[Resource]:
    """Resources from Kubernetes objects, as a YAML file holds them; Lists are opened, what is no object is left out.

    `origin` stands in for the URN: the file, say.
    """
    found: list[Resource] = []
    for document in documents:
        if not isinstance(document, Mapping) or not document.get("kind"):
            continue
        if str(document["kind"]).endswith("List") and isinstance(document.get("items"), list):
            found.extend(manifests(document["items"], origin))
            continue
        metadata = document.get("metadata")
        name = str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""
        api = str(document.get("apiVersion", ""))
        found.append(resource(f"kubernetes:{api}:{document['kind']}", name, document, urn=origin))
    return found


def shown(text: str, secrets: Iterable[str]) -> str:
    """The text without any of the secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def _plain(value: Any, path: str, key: str, inside: bool, unknown: list[str], secrets: set[str], guess: Guess) -> Any:
    if isinstance(value, str):
        if value in UNKNOWN:
            return _unknown(path, key, unknown, guess)
        if inside and len(value) >= _LEAST_SECRET and _TOKEN_KEY.search(key):
            secrets.add(value)
        return value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        value = _target(value)
        signature = value.get(_SIGNATURE)
        if signature == _SECRET:
            return _secret(value.get("value"), path, key, unknown, secrets, guess)
        if signature == _OUTPUT:
            if "value" not in value:
                return _unknown(path, key, unknown, guess)
            kept = _secret if value.get("secret") is True else _open
            return kept(value["value"], path, key, unknown, secrets, guess)
        if signature is not None:  # an asset keeps its path or text; a reference to another resource is no value
            return {k: value[k] for k in ("path", "text", "uri") if k in value} or _LEAVE_OUT
        found = {}
        for name in value:
            if str(name).startswith("__"):  # the engine's own (__defaults, __inputs)
                continue
            child = f"{path}.{name}" if path else str(name)
            plain = _plain(value[name], child, str(name), inside, unknown, secrets, guess)
            if plain is not _LEAVE_OUT:
                found[str(name)] = plain
        return found
    if isinstance(value, Sequence):
        value = _target(value)
        entries = (_plain(v, f"{path}[{i}]", key, inside, unknown, secrets, guess) for i, v in enumerate(value))
        return [entry for entry in entries if entry is not _LEAVE_OUT]
    return value


def _unknown(path: str, key: str, unknown: list[str], guess: Guess) -> Any:
    unknown.append(path)
    if guess is None:
        return _LEAVE_OUT
    # A text that is wrong nowhere: an image must look like one, and pinned.
    return f"not-known/image@sha256:{'0' * 64}" if key == "image" and isinstance(guess, str) else guess


def _open(value: Any, path: str, key: str, unknown: list[str], secrets: set[str], guess: Guess) -> Any:
    return _plain(value, path, key, False, unknown, secrets, guess)


def _secret(value: Any, path: str, key: str, unknown: list[str], secrets: set[str], guess: Guess) -> Any:
    """A value marked secret. A text is hidden whole; of a tree, which one secret leaf makes secret, what is named like one."""
    if isinstance(value, str):
        if value in UNKNOWN:
            return _unknown(path, key, unknown, guess)
        if len(value) >= _LEAST_SECRET:
            secrets.add(value)
        return value
    return _plain(value, path, key, True, unknown, secrets, guess)


def _target(value: Any) -> Any:
    """What stands behind a policy SDK's proxy, which raises an error for each unknown value that is touched."""
    if type(value).__name__ in ("_DictProxy", "_ListProxy", "_DictSecretsProxy", "_ListSecretsProxy"):
        return value["__target"]
    return value
