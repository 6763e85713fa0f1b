"""Names, labels and paths in another form than the API server takes; that it refuses them itself, tests/e2e/software/test_crds.py holds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from components.config import ConfigError, names, parse

PATHS = TypeAdapter(names.PathPrefixes)
GATEWAY = {"host": "chat.example.com", "tls_secret": "tls"}


def problem(**service: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({"services": {"chat": {"models": {"a": {}}, **service}}})
    return caught.value.problems[0]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/a-b_c.d~e!$&'()*+,;=:@", "/v1%20x", "/.well-known/a", "/..."])
def test_a_path_of_a_url_passes(path: str) -> None:
    assert PATHS.validate_python([path]) == (path,)


@pytest.mark.parametrize("path", ["v1", "", "/v1//x", "/v1/./x", "/v1/../x", "/v1/.", "/v1/..", "/v1%2fx", "/v1?x=1", "/v1#x", "/v 1", "/vé", "/" + "a" * 1024])  # fmt: skip
def test_another_path_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        PATHS.validate_python([path])


def test_no_path_at_all_would_publish_every_path() -> None:
    assert "expose.gateway.paths: [] was given" in problem(expose={"gateway": {**GATEWAY, "paths": []}})


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ({"expose": {"gateway": {**GATEWAY, "tls_secret": "TLS"}}}, 'expose.gateway.tls_secret: "TLS" was given; a name is lower-case'),
        ({"expose": {"gateway": {"host": "a.example.com", "gateway": "e" * 64 + "/public"}}}, "expose.gateway.gateway"),
        ({"expose": {"ingress": {"host": "a.example.com", "class_name": "My Class"}}}, "expose.ingress.class_name"),
        ({"expose": {"ingress": {"host": "a.example.com", "annotations": {"a b": "c"}}}}, "annotation key 'a b' is none that Kubernetes takes"),
        ({"expose": {"port": 70000}}, "expose.port: 70000 was given"),
        ({"service_account": "a" * 254}, "service_account"),
        ({"metrics": {"labels": {"a": "c d"}}}, "label a has value 'c d', which Kubernetes does not take"),
        ({"network": {"operators": [{"namespace": "a", "pods": {"a b": "c"}}]}}, "label key 'a b' is none"),
        ({"image": {"repository": "rayproject/ray-llm:2.60.0-py311-cu128"}}, "a repository is named without tag or digest; give those as tag and digest"),
        ({"image": {"repository": "localhost:5000/llm@sha256:" + "0" * 64}}, "a repository is named without tag or digest"),
        ({"image": {"repository": "rayproject/Ray-LLM"}}, "a repository is [host[:port]/]name, the name in lower case"),
        ({"image": {"repository": "https://registry.example.com/llm"}}, "a repository is [host[:port]/]name"),
        ({"image": {"tag": "a b"}}, "image.tag"),
        ({"secrets": {"Team": {"store": "aws", "keys": {"a": {"name": "b"}}}}}, "secrets.Team"),
        ({"secrets": {"team": {"store": "My Store", "keys": {"a": {"name": "b"}}}}}, "secrets.team.store"),
        ({"secrets": {"team": {"store": "aws", "keys": {"a b": {"name": "b"}}}}}, "secrets.team.keys"),
    ],
)  # fmt: skip
def test_a_name_or_label_in_another_form_is_refused(service: dict[str, Any], says: str) -> None:
    assert says in problem(**service)


@pytest.mark.parametrize("repository", ["llm-serve", "rayproject/ray-llm", "localhost:5000/llm", "localhost/llm-serve", "Registry.Example.com/a/b_c.d--e", "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-serve"])  # fmt: skip
def test_a_repository_passes(repository: str) -> None:
    parse({"image": repository, "services": {"chat": {"models": {"a": {}}, "image": {"repository": repository, "tag": "v1.0_a-B"}}}})  # fmt: skip


def test_names_as_people_have_them_pass() -> None:
    parse(
        {
            "services": {
                "chat": {
                    "models": {"a": {}},
                    "expose": {"ingress": {"host": "a.example.com", "class_name": "alb", "annotations": {"alb.ingress.kubernetes.io/group.name": "Edge"}}},
                    "metrics": {"pod_monitor": True, "labels": {"release": "prometheus", "team": ""}},
                    "secrets": {"team-keys.v2": {"store": "aws.prod", "keys": {"API_KEY.old-1": {"name": "prod/keys"}}}},
                }
            }
        }
    )  # fmt: skip
