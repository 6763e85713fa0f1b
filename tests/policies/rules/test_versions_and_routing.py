"""Each test breaks one thing about versions of images and drivers, routing, or prefill and decode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.catalog.ray_releases import RELEASES
from policies.facts import ServeApp, Stack
from policies.rules.versions import Image, image_of

from .engine_stacks import (
    NIXL,
    args,
    at,
    disaggregated,
    found,
    pair,
    plain,
    scaled,
    sentences,
    sparse,
    whole,
    with_engine,
    with_pool,
    with_service,
    with_workers,
)
from .stacks import core, head, l4

IMAGES, PAIR, SERVE, MODEL = (
    ("version-images", "error"),
    ("version-ray-vllm", "error"),
    ("version-serve-llm", "error"),
    ("version-model", "error"),
)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("rayproject/ray-llm:2.56.0-py312-cu130", Image("2.56.0", "3.12", "13.0", None)),
        ("rayproject/ray:2.60.0.d1e2f3-py311-gpu", Image("2.60.0", "3.11", None, None)),
        ("registry:5000/llm-serve:ray2.60.0-vllm0.29.0-py311-abc123", Image("2.60.0", "3.11", None, "0.29.0")),
        (
            "vllm/vllm-openai:v0.29.0",
            Image(None, None, None, None),
        ),  # a bare version says something only of Ray's images
        ("registry/llm@sha256:0123", Image(None, None, None, None)),
        ("registry:5000/llm-serve", Image(None, None, None, None)),
        ("llm-serve:latest", Image(None, None, None, None)),
    ],
)
def test_a_tag_says_what_is_in_an_image(reference: str, expected: Image) -> None:
    assert image_of(reference) == expected


def imaged(head_image: str, worker_image: str, **over: Any) -> Stack:
    given = with_workers(whole(), image=worker_image)
    return with_service(given, head=head(image=head_image), **over)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (imaged("rayproject/ray:2.60.0-py311", "rayproject/ray:2.59.0-py311"), [IMAGES]),
        (imaged("rayproject/ray:2.60.0-py311", "rayproject/ray:2.60.0-py312"), [IMAGES]),
        (imaged("rayproject/ray:2.59.0-py311", "rayproject/ray:2.59.0-py311"), [IMAGES]),  # rayVersion is 2.60.0
        (imaged("registry/a:1", "registry/b:1"), [("version-images", "warning")]),
        (imaged("registry/a:1", "registry/a:1"), []),
        (imaged("rayproject/ray-llm:2.60.0-py311-cu130", "rayproject/ray-llm:2.60.0-py311-cu130"), []),
    ],
)
def test_head_and_workers_run_one_image_of_the_stated_ray(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_the_sentence_of_a_wrong_ray_version_says_what_kuberay_does_with_it() -> None:
    given = imaged("rayproject/ray-llm:2.56.0-py312-cu130", "rayproject/ray-llm:2.56.0-py312-cu130")
    assert sentences(given, "version-images")[0] == (
        "service 'chat': head: rayVersion is 2.60.0 and its image has Ray 2.56.0: KubeRay chooses probes, commands and autoscaler by "
        "rayVersion; set ray_version: 2.56.0, or use an image of Ray 2.60.0 [version-images]"
    )


@pytest.mark.parametrize(
    ("ray", "vllm", "expected"),
    [
        ("2.54.0", "0.17.0", [PAIR]),
        ("2.54.0", "0.14.0", [PAIR]),
        ("2.52.0", "0.11.2", [PAIR]),
        ("2.55.1", "0.22.1", [PAIR]),
        ("2.60.0", "0.28.0", [PAIR]),
        ("2.60.0", "0.33.0", [("version-ray-vllm", "warning")]),
        ("2.60.0", "0.32.0", [("version-ray-vllm", "warning")]),
        ("2.58.0", "0.27.0", [("version-ray-vllm", "warning")]),
        ("2.54.0", "0.16.0", []),
        ("2.60.0", "0.29.1", []),
        ("2.70.0", "0.50.0", []),  # not known here
    ],
)
def test_ray_and_vllm_go_together(ray: str, vllm: str, expected: list[tuple[str, str]]) -> None:
    assert found(at(whole(), ray, vllm)) == expected


@pytest.mark.parametrize("row", RELEASES, ids=lambda row: str(row.minor))
def test_each_ray_goes_with_the_vllm_it_asks_for(row: Any) -> None:
    assert ("version-ray-vllm", "error") not in found(at(whole(), f"{row.minor}.0", row.vllm_first))
    assert ("version-ray-vllm", "warning") not in found(at(whole(), f"{row.minor}.0", row.vllm_first))


def served(**app_args: Any) -> Stack:
    app = ServeApp(name="chat", import_path="serve_apps.openai_chat.app:build", route_prefix="/", args=app_args)
    return with_service(whole(), apps=(app,))


@pytest.mark.parametrize(
    ("given", "ray", "vllm", "expected"),
    [
        (served(llm_configs=[{"model_loading_config": {"model_id": "m"}}]), "2.42.1", "0.7.2", SERVE),
        (with_service(whole(), apps=(ServeApp(name="a", import_path="ray.serve.llm:build_openai_app", route_prefix="/", args={}),)), "2.42.1", "0.7.2", SERVE),
        (served(llm_config={"model_loading_config": {"model_id": "m"}}), "2.51.0", "0.11.0", SERVE),
        (imaged("rayproject/ray-llm:2.44.1-py311-cu124", "rayproject/ray-llm:2.44.1-py311-cu124"), "", "", ("version-serve-llm", "warning")),
    ],
)  # fmt: skip
def test_the_parts_of_serve_llm_came_one_by_one(given: Stack, ray: str, vllm: str, expected: tuple[str, str]) -> None:
    assert expected in found(at(given, ray, vllm) if ray else given)


@pytest.mark.parametrize(
    ("name", "ray", "vllm", "refused"),
    [
        ("Qwen/Qwen3.5-27B", "2.54.0", "0.16.0", True),
        ("Qwen/Qwen3.5-27B", "2.55.1", "0.18.0", False),
        ("google/gemma-4-31B-it", "2.55.1", "0.18.0", True),
        ("openai/gpt-oss-20b", "2.48.0", "0.9.2", True),
        ("Qwen/Qwen2.5-7B-Instruct", "2.48.0", "0.9.2", False),
        ("Qwen/Qwen-14B-Chat", "2.60.0", "0.29.0", True),
        ("Qwen/Qwen-14B-Chat", "2.56.0", "0.24.0", True),
        ("Qwen/Qwen-14B-Chat", "2.56.0", "0.23.0", False),
    ],
)
def test_a_model_needs_a_vllm_that_knows_it(name: str, ray: str, vllm: str, refused: bool) -> None:
    given = at(with_engine(whole(), source=name, catalog_id=name), ray, vllm)
    assert (MODEL in found(given)) is refused


@pytest.mark.parametrize(
    ("driver", "cuda", "expected"),
    [
        ("570.133.20", "13.0", [("driver-cuda", "error")]),
        ("515.65", "12.4", [("driver-cuda", "error")]),
        ("570.86", "12.9", [("driver-cuda", "warning")]),
        ("550.54", "12.8", [("driver-cuda", "warning")]),
        ("580.95.05", "13.0", []),
        ("580", "12.9", []),
        ("570", "12.8", []),
        (None, "13.0", []),
    ],
)
def test_the_driver_runs_the_images_cuda(driver: str | None, cuda: str, expected: list[tuple[str, str]]) -> None:
    assert found(with_service(with_pool(whole(), driver_version=driver), cuda_version=cuda)) == expected


def test_cuda_is_read_from_the_tag_where_it_is_there() -> None:
    image = "rayproject/ray-llm:2.60.0-py311-cu130"
    given = with_service(
        with_workers(with_pool(whole(), driver_version="570"), image=image), head=head(image=image), cuda_version="12.8"
    )
    assert found(given) == [("driver-cuda", "error")]


def test_a_new_gpu_needs_a_new_driver() -> None:
    pool = l4(
        gpu="RTX-PRO-4500",
        gpu_mib=32623,
        driver_version="580.95",
        ami_type="CUSTOM",
        kind="existing",
        instance_types=(),
    )
    assert ("driver-gpu", "error") in found(replace(whole(), pools=(core(), pool)))
    assert ("driver-gpu", "error") not in found(
        replace(whole(), pools=(core(), replace(pool, driver_version="595.91")))
    )


PREFIX = "ray.serve.llm.request_router.PrefixCacheAffinityRouter"
ROUTER, ROUTER_WARNING = ("routing-router", "error"), ("routing-router", "warning")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_engine(whole(), router=PREFIX), []),
        (with_engine(whole(), router="my.routers:Own"), []),
        (with_engine(whole(), router=PREFIX, router_options={"match_rate_threshold": 0.2}), []),
        (scaled(router=PREFIX), []),
        (with_engine(whole(), router=PREFIX, min_replicas=1, max_replicas=1), [ROUTER_WARNING]),
        (args(with_engine(whole(), router=PREFIX), enable_prefix_caching=False), [ROUTER_WARNING]),
        (with_engine(sparse(), router=PREFIX), [ROUTER_WARNING]),
        (with_engine(whole(), router="ray.serve.llm.request_router.KVAwareRouter"), [ROUTER_WARNING]),
        (with_engine(whole(), router="ray.serve.llm.request_router.PrefixAffinityRouter"), [ROUTER]),
        (with_engine(whole(), router=PREFIX, router_options={"threshold": 1}), [ROUTER]),
        (at(with_engine(whole(), router=PREFIX), "2.48.0", "0.9.2"), [ROUTER]),
    ],
)
def test_a_router_exists_and_has_something_to_choose(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


STREAMING = {"RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING": "1"}
KV_AWARE = "ray.serve.llm.request_router.KVAwareRouter"


def test_a_kv_aware_router_needs_its_index_and_what_scores_with_it() -> None:
    """Ray's data parallel and prefill/decode applications have the same router in front of them (builder.py of both)."""
    routed = with_engine(whole(), router=KV_AWARE)
    assert found(with_workers(routed, env=STREAMING)) == [("routing-kv-aware", "warning")]
    assert found(with_workers(whole(), env=STREAMING)) == []
    assert found(with_workers(with_engine(whole(), router=PREFIX), env=STREAMING)) == []
    assert sentences(with_workers(routed, env=STREAMING), "routing-kv-aware") == [
        "service 'chat': model 'm': KVAwareRouter scores replicas with ai-dynamo, which ray[llm] does not bring: where the image has it not, every "
        "request is answered with 503; build ai-dynamo into the image and set policy: {routing-kv-aware: off}, or use prefix_affinity [routing-kv-aware]"
    ]


def streamed(models: int = 1, **app_args: Any) -> Stack:
    configs = [{"model_loading_config": {"model_id": f"m{i}"}} for i in range(models)]
    return with_workers(served(llm_configs=configs, **app_args), env=STREAMING)


def test_direct_streaming_is_for_one_model_without_ingress_options() -> None:
    refused = [("routing-direct-streaming", "error")]
    assert found(streamed()) == []
    assert found(streamed(2)) == refused
    assert found(streamed(ingress_deployment_config={"num_replicas": 2})) == refused
    lora = with_engine(args(streamed(), enable_lora=True), lora={"dynamic_lora_loading_path": "s3://adapters"})
    assert found(lora) == refused
    forwarding = {**STREAMING, "RAY_SERVE_INGRESS_REQUEST_ROUTER_FORWARD_BODY": "1"}
    assert found(with_workers(lora, env=forwarding)) == []


PORTS, SIDES, CONNECTOR = (
    ("disaggregation-ports", "error"),
    ("disaggregation-pair", "error"),
    ("disaggregation-connector", "error"),
)
BASE = "NIXL_SIDE_CHANNEL_PORT_BASE"


def based(prefill: Any, decode: Any, **over: Any) -> Stack:
    return disaggregated({"experimental": {BASE: prefill}, **over}, {"experimental": {BASE: decode}})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (based(40000, 40000), [PORTS]),
        (based(40000, 40001), [PORTS]),  # two replicas take 40000 and 40001
        (based(40000, 40002), []),
        (based(80, 41000), [PORTS]),
        (based("high", 41000), [PORTS]),
        (disaggregated({"experimental": {}}, {"experimental": {}}), []),  # Ray's own: 20000 and 22000
        (
            disaggregated(
                {"env": {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}}, {"env": {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}}
            ),
            [PORTS],
        ),
        (disaggregated({"env": {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}}), [PORTS]),
        (disaggregated({"env": {"VLLM_NIXL_SIDE_CHANNEL_HOST": "localhost"}}), [("disaggregation-host", "warning")]),
    ],
)
def test_side_channels_have_ports_of_their_own(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_the_sentence_of_equal_ports_names_the_right_values() -> None:
    assert sentences(based(40000, 40000), "disaggregation-ports") == [
        "service 'chat': model 'm': prefill and decode have the same NIXL_SIDE_CHANNEL_PORT_BASE 40000: side by side on a node their side "
        "channels collide; set bases at least as far apart as replicas times GPUs, e.g. disaggregation.prefill_port_base: 40000 and "
        "decode_port_base: 41000 [disaggregation-ports]"
    ]


def transfer(**over: Any) -> dict[str, Any]:
    config = {k: v for k, v in {**NIXL, **over}.items() if v is not None}
    return {"kv_transfer": config, "engine_args": {"max_model_len": 8192, "kv_transfer_config": config}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (disaggregated(transfer(kv_connector="NixlConector")), CONNECTOR),
        (disaggregated(transfer(kv_connector=None)), CONNECTOR),
        (disaggregated(transfer(kv_role="producer")), CONNECTOR),
        (disaggregated(transfer(kv_role="kv_consumer")), CONNECTOR),
        (disaggregated(None, transfer(kv_role="kv_producer")), CONNECTOR),
        (disaggregated(transfer(kv_connector="MooncakeConnector"), transfer(kv_connector="MooncakeConnector")), ("disaggregation-connector", "warning")),
        (disaggregated(transfer(kv_connector="LMCacheConnectorV1")), SIDES),
        (disaggregated({"engine_args": {"kv_cache_dtype": "fp8"}}), SIDES),
        (disaggregated({"engine_args": {"dtype": "half"}}), SIDES),
        (disaggregated({"source": "s3://other"}), SIDES),
        (with_service(disaggregated(), apps=(pair(decode_config=None),)), SIDES),
        (with_service(disaggregated(), apps=(pair(prefill_config=None),)), SIDES),
        (with_service(disaggregated(), apps=(pair(decode_config={"model_loading_config": {"model_id": "other"}, "engine_kwargs": {"kv_transfer_config": NIXL}}),)), SIDES),
        (with_service(disaggregated(), apps=(pair(decode_config={"model_loading_config": {"model_id": "m"}}),)), SIDES),
        (with_engine(whole(), **transfer()), ("disaggregation-connector", "warning")),
    ],
)  # fmt: skip
def test_prefill_and_decode_are_a_pair(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize(
    "given",
    [
        disaggregated(transfer(kv_role="kv_producer"), transfer(kv_role="kv_consumer")),
        disaggregated({"engine_args": {"dtype": "bfloat16", "kv_transfer_config": NIXL}}),  # what auto comes to
        with_engine(whole(), **transfer(kv_connector="LMCacheConnectorV1")),
        disaggregated(transfer(kv_connector="Own", kv_connector_module_path="a.b"), transfer(kv_connector="Own", kv_connector_module_path="a.b")),
    ],
)  # fmt: skip
def test_pairs_that_speak_to_each_other_pass(given: Stack) -> None:
    assert found(given) == []


def test_a_plain_deployment_says_where_its_side_channel_is() -> None:
    given = with_engine(plain(), **transfer())
    assert found(given) == [("disaggregation-host", "warning")]
    container = {
        "env": [{"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    }
    assert found(with_workers(given, pod={"containers": [container]})) == []


@pytest.mark.parametrize(
    ("ray", "vllm", "said"), [("2.43.0", "0.10.2", True), ("2.51.0", "0.11.0", True), ("2.52.0", "0.11.0", False)]
)
def test_prefill_and_decode_start_from_ray_2_52_on(ray: str, vllm: str, said: bool) -> None:
    assert (("disaggregation-versions", "warning") in found(at(disaggregated(), ray, vllm))) is said
