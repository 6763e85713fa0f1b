"""What a secret looks like: texts by their makers' prefixes, and names of settings that hold one.

Not for: where secrets must not stand (secrets.py). No message shows a secret.
"""

from __future__ import annotations

import re
from functools import lru_cache

# What tokens look like, by their makers' published prefixes.
_SHAPES = re.compile(
    r"(?P<hf>\bhf_[A-Za-z0-9]{20,})|(?P<aws>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)|(?P<key>-----BEGIN [A-Z ]*PRIVATE KEY-----)"
    r"|(?P<github>\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,})|(?P<gitlab>\bglpat-[A-Za-z0-9_-]{20,})"
    r"|(?P<openai>\bsk-[A-Za-z0-9_-]{20,})|(?P<nvidia>\bnvapi-[A-Za-z0-9_-]{20,})|(?P<slack>\bxox[abprs]-[A-Za-z0-9-]{10,})"
    r"|(?P<google>\bAIza[0-9A-Za-z_-]{35})|(?P<jwt>\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.)"
    r"|(?P<url>\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@$<{]+@)"
)
_WHAT = {
    "hf": "a Hugging Face token",
    "aws": "an AWS access key",
    "key": "a private key",
    "github": "a GitHub token",
    "gitlab": "a GitLab token",
    "openai": "an API key",
    "nvidia": "an NVIDIA API key",
    "slack": "a Slack token",
    "google": "a Google API key",
    "jwt": "a signed token",
    "url": "an address with a password",
}
# Every shape has one of these, so that most texts are done with a few substring searches.
MARKS = (
    "hf_",
    "AKIA",
    "ASIA",
    "PRIVATE KEY",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "nvapi-",
    "xox",
    "AIza",
    "eyJ",
    "://",
)
# Names that hold a secret: the word at the end, so that MAX_TOKENS, TOKENIZERS_PARALLELISM and TOKEN_FILE do not match.
_NAME = re.compile(
    r"(^|[_-])(token|passwd|password|secret|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret[_-]?access[_-]?key|credentials?|auth[_-]?token)$",
    re.IGNORECASE,
)
# Charts call the name of a Secret existingSecret, tlsSecret or imagePullSecret.
_REFERENCE = re.compile(r"(?<!client)(?<!app)(?<!shared)(?<=[a-z])Secret$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Identifiers that are no secrets by themselves, and words that stand for none.
_HARMLESS = (
    "AWS_ACCESS_KEY_ID",
    "classifier_from_token",
)  # the latter: words that a reranker answers with (hf_overrides)
_WORDS = frozenset({"true", "false", "none", "null", "auto", "disabled", "token"})


def shape(text: str) -> str | None:
    """What a text holds, if it looks like a secret."""
    if len(text) < 12 or not any(mark in text for mark in MARKS):
        return None
    match = _SHAPES.search(text)
    return _WHAT[match.lastgroup or ""] if match else None


@lru_cache(maxsize=4096)
def secret_name(name: str) -> bool:
    """Whether settings of that name hold secrets."""
    if name in _HARMLESS or _REFERENCE.search(name):
        return False
    return bool(_NAME.search(_CAMEL.sub("_", name)))


def by_name(name: str, value: object) -> bool:
    """Whether a setting of that name with that literal value is a secret in plain text."""
    if not isinstance(value, str) or not secret_name(name):
        return False
    text = value.strip()
    return (
        bool(text)
        and text.lower() not in _WORDS
        and not text.startswith(("$", "{", "/", "file:"))  # a text of JSON is what its own keys say
        and not text.isdigit()
    )
