"""Public reports about Serve autoscaling, routing, prefill and decode, memory and formats (classes M, P, Q), each as a small config."""

from __future__ import annotations

from typing import Any

import pytest

from .small import EXISTING, Config, chat, found, model, planned
from .test_a_to_b import gpus, one


def case(*patches: Config) -> set[tuple[str, str]]:
    return found(*patches, base=EXISTING)


def errors(*patches: Config) -> set[str]:
    return {rule for rule, severity in case(*patches) if severity == "error"}


def versions(**given: str) -> Config:
    return {"versions": given}


NO_TOKEN = chat(auth={"mode": "disabled"})
ZERO = model(replicas={"min": 0, "max": 3})

# M: Serve autoscaling


@pytest.mark.parametrize(("ray", "said"), [("2.51.1", True), ("2.52.0", True), ("2.50.1", False), ("2.60.0", False)])
def test_m1_and_m3_rays_that_wake_models_are_said(ray: str, said: bool) -> None:
    assert (("serve-scale-to-zero", "warning") in case(ZERO, versions(ray=ray), NO_TOKEN)) is said


def test_m4_a_target_that_a_replica_cannot_exceed_is_a_warning() -> None:
    tight = model(replicas={"min": 1, "max": 3, "target_ongoing_requests": 1, "max_ongoing_requests": 1})
    assert ("serve-never-scales", "warning") in case(tight)
    right = model(replicas={"min": 2, "max": 3, "target_ongoing_requests": 1, "max_ongoing_requests": 2})
    assert "serve-never-scales" not in {rule for rule, _ in case(right)}


def test_a_target_is_written_wherever_replicas_may_change() -> None:
    engine = planned(model(replicas={"min": 2, "max": 4}), base=EXISTING).stack.workloads[0].engines[0]
    assert engine.target_ongoing_requests
    assert engine.max_ongoing_requests is not None
    assert engine.target_ongoing_requests < engine.max_ongoing_requests
    unset = model(
        replicas={"min": 2, "max": 4}, deployment_config={"autoscaling_config": {"target_ongoing_requests": None}}
    )
    assert "serve-never-scales" in errors(unset)


def test_m6_proxies_on_every_node_pass() -> None:
    assert errors(chat(patch={"spec": {"serveConfigV2": {"proxy_location": "EveryNode"}}})) == set()


def test_m7_zero_sooner_than_a_cold_start_is_a_warning() -> None:
    assert ("serve-scale-to-zero", "warning") in case(
        model(replicas={"min": 0, "max": 3, "downscale_to_zero_delay_s": 5})
    )
    assert "serve-scale-to-zero" not in {
        rule for rule, _ in case(model(replicas={"min": 0, "max": 3, "downscale_to_zero_delay_s": 900}))
    }


def test_where_all_workers_may_go_the_head_holds_the_first_request() -> None:
    zero = planned(ZERO, base=EXISTING).manifests["chat"][0]["spec"]
    assert zero["excludeHeadPodFromServeSvc"] is False
    some = planned(model(replicas={"min": 2, "max": 3}), base=EXISTING).manifests["chat"][0]["spec"]
    assert some["excludeHeadPodFromServeSvc"] is True
    left_out = chat(patch={"spec": {"excludeHeadPodFromServeSvc": True}})
    assert "serve-zero-without-head" in errors(ZERO, left_out)
    assert errors(ZERO) == errors(left_out) == set()
    assert errors(ZERO, left_out, chat(worker={"min": 1})) == set()


def test_where_all_models_go_to_zero_the_ingress_goes_with_the_last_of_them() -> None:
    def ingress(*patches: Config) -> dict[str, Any]:
        (app,) = planned(*patches, base=EXISTING).stack.workloads[0].apps
        return dict(app.args["ingress_deployment_config"])

    zero = ingress(model(replicas={"min": 0, "max": 3, "downscale_to_zero_delay_s": 900}))
    assert zero["autoscaling_config"] == {"min_replicas": 0, "downscale_to_zero_delay_s": 900}
    stays = model(replicas={"min": 1, "max": 3}), chat(expose={"direct_streaming": False})
    assert "autoscaling_config" not in ingress(*stays)


# P: prefix routing, prefill and decode


def apart(**fields: Any) -> Config:
    return model(disaggregation=fields, replicas={"min": 1, "max": 1})


def test_p2_prefill_and_decode_have_ports_of_their_own() -> None:
    assert "disaggregation-ports" in errors(apart(prefill_port_base=40000, decode_port_base=40000))
    assert errors(apart(prefill_port_base=40000, decode_port_base=41000)) == set()
    assert errors(apart()) == set()


@pytest.mark.parametrize(("ray", "said"), [("2.43.0", True), ("2.51.0", True), ("2.55.0", False)])
def test_p3_the_builder_before_ray_2_52_is_a_warning(ray: str, said: bool) -> None:
    assert (("disaggregation-versions", "warning") in case(apart(), versions(ray=ray), NO_TOKEN)) is said


NIXL = {"max_model_len": 8192, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}


def test_p5_a_side_channel_on_localhost_is_a_warning() -> None:
    assert ("disaggregation-host", "warning") in case(chat(kind="vllm"), model(engine_args=NIXL))
    local = model(disaggregation={}, env={"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1"}, replicas={"min": 1, "max": 1})
    assert ("disaggregation-host", "warning") in case(local)
    assert "disaggregation-host" not in {rule for rule, _ in case(apart())}  # Ray sets the node's address


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"engine_args": {"model": "x"}}, "engine-arguments"),
        ({"engine_args": {"served_model_name": "x"}}, "engine-arguments"),
        ({"engine_args": {"max_modle_len": 4096}}, "engine-arguments"),
        ({"engine_args": {"device": "auto"}}, "engine-arguments"),
        ({"deployment_config": {"placement_group_strategy": "PACK"}}, "serve-llm-placement"),
        ({"deployment_config": {"num_replica": 2}}, "serve-llm-fields"),
        ({"placement": {"bundles": [{"GPU": 1, "CPU": 1}], "bundle_per_worker": {"GPU": 1}}}, "serve-llm-placement"),
    ],
)
def test_p6_what_ray_refuses_is_refused_before(fields: Config, rule: str) -> None:
    assert rule in errors(model(**fields))


@pytest.mark.parametrize("placement", [{"strategy": "PACK"}, {"bundles": [{"GPU": 1}], "strategy": "TIGHT"}])
def test_p6_placement_without_bundles_or_with_another_strategy_is_refused(placement: Config) -> None:
    # a list without names is replaced as a whole, so the patch gives the whole entry
    entry = {"model_loading_config": {"model_id": "qwen"}, "placement_group_config": placement}
    serve = {"applications": [{"name": "chat", "args": {"llm_configs": [entry]}}]}
    assert "serve-llm-placement" in errors(chat(patch={"spec": {"serveConfigV2": serve}}))


def test_prefix_routing_with_one_replica_is_a_warning() -> None:
    assert ("routing-router", "warning") in case(
        model(routing={"policy": "prefix_affinity"}, replicas={"min": 1, "max": 1})
    )
    assert case(model(routing={"policy": "prefix_affinity"})) == set()


# Q: memory, dtype, quantisation, accelerator names


def test_q2_a_context_that_the_cache_does_not_hold_is_refused() -> None:
    args = {"max_model_len": 4096, "gpu_memory_utilization": 0.68}
    assert "fit-memory" in errors(gpus("A100-40G"), one("Llama-2-13B", engine_args=args))
    two = one("Llama-2-13B", parallel={"tensor": 2}, engine_args=args)
    assert "fit-memory" not in errors(gpus("A100-40G", 2), two)


def test_q3_a_second_gpu_that_is_not_used_does_not_help() -> None:
    args = {"max_model_len": 32768, "dtype": "half"}
    assert "fit-memory" in errors(
        gpus("L40S", 2), one("Llama-2-13B", engine_args={**args, "max_model_len": 4096, "gpu_memory_utilization": 0.55})
    )
    assert "fit-memory" in errors(gpus("A10G", 2), one("Qwen/Qwen2.5-14B-Instruct", engine_args=args))
    assert "fit-memory" not in errors(
        gpus("A10G", 2),
        one("Qwen/Qwen2.5-14B-Instruct", parallel={"tensor": 2}, engine_args={**args, "max_model_len": 15000}),
    )


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("A10G", ("quantisation-capability", "warning")),
        ("A100-80G", ("quantisation-capability", "warning")),
        ("V100-32G", ("quantisation-capability", "error")),
        ("L4", None),
        ("H100", None),
    ],
)
def test_q5_fp8_by_the_gpus_capability(gpu: str, expected: tuple[str, str] | None) -> None:
    given = case(gpus(gpu), one("Qwen2-7B", engine_args={"max_model_len": 4096, "quantization": "fp8"}))
    assert (expected in given) if expected else "quantisation-capability" not in {rule for rule, _ in given}


def test_q5_a_405b_model_in_fp8_fits_eight_a100_as_weight_only() -> None:
    args = {"max_model_len": 8192, "quantization": "fp8"}
    given = case(gpus("A100-80G", 8), one("Llama-3.1-405B", parallel={"tensor": 8}, engine_args=args))
    assert ("quantisation-capability", "warning") in given
    assert not {rule for rule, severity in given if severity == "error"}


def test_q6_awq_on_a_v100_is_refused_and_gptq_passes() -> None:
    def quantised(method: str) -> Config:
        return one("Llama-2-13B", engine_args={"max_model_len": 4096, "dtype": "half", "quantization": method})

    assert errors(gpus("V100-32G"), quantised("awq")) == {"quantisation-capability"}
    assert errors(gpus("V100-32G"), quantised("gptq")) == set()


@pytest.mark.parametrize(("used", "expected"), [(1.0, {"gpu-memory-utilization"}), (0.95, set())])
def test_q8_the_whole_memory_leaves_nothing_for_the_context(used: float, expected: set[str]) -> None:
    args = {"max_model_len": 4096, "dtype": "half", "gpu_memory_utilization": used}
    assert errors(gpus("V100-32G", 8), one("Llama-2-70B", parallel={"tensor": 8}, engine_args=args)) == expected


@pytest.mark.parametrize("tensor", [4, 8])
def test_q9_a_70b_model_in_awq_fits_four_or_eight_a10g(tensor: int) -> None:
    args = {"max_model_len": 4096, "quantization": "awq"}
    assert errors(gpus("A10G", 8), one("Llama-2-70B", parallel={"tensor": tensor}, engine_args=args)) == set()


@pytest.mark.parametrize("name", ["A100-80G", "A100-40G"])
def test_q11_sized_a100_names_are_on_no_node(name: str) -> None:
    eight = gpus("A100-80G", 8)
    assert errors(eight, one("Llama-3.1-8B", accelerator_type=name)) == {"accelerator-detected"}
    assert errors(eight, one("Llama-3.1-8B", accelerator_type="A100")) == set()
    declared = chat(worker={"resources": {f"accelerator_type:{name}": "1"}})
    assert errors(eight, one("Llama-3.1-8B", accelerator_type=name), declared) == set()


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("T4", "T4"),
        ("A10G", "A10G"),
        ("L4", "L4"),
        ("L40S", "L40S"),
        ("A100-40G", "A100"),
        ("H100", "H100"),
        ("H200", "H200"),
        ("B200", "B200"),
    ],
)
def test_q11_each_gpu_has_its_name(gpu: str, name: str) -> None:
    small = {"max_model_len": 2048, "dtype": "auto"}
    assert errors(gpus(gpu), one("Qwen/Qwen2.5-1.5B-Instruct", accelerator_type=name, engine_args=small)) == set()


@pytest.mark.parametrize(
    ("name", "ray", "refused"),
    [("H20", "2.44.0", True), ("H20", "2.45.0", False), ("B200", "2.48.0", True), ("B200", "2.49.0", False)],
)
def test_q12_names_came_with_a_ray(name: str, ray: str, refused: bool) -> None:
    given = errors(gpus("B200", 8), one("Qwen2-7B", accelerator_type=name), versions(ray=ray), NO_TOKEN)
    assert ("accelerator-name" in given) is refused


def test_q14_chunked_prefill_on_a_v100_is_a_warning() -> None:
    args = {"max_model_len": 4096, "dtype": "half"}
    on_v100 = gpus("V100-32G", driver_version="570")
    given = case(on_v100, one("Llama-3.1-8B", parallel={"tensor": 2}, engine_args=args), versions(cuda="12.6"))
    assert ("gpu-too-old", "warning") in given
    off = {**args, "enable_chunked_prefill": False}
    assert "gpu-too-old" not in {
        rule for rule, _ in case(on_v100, one("Llama-3.1-8B", engine_args=off), versions(cuda="12.6"))
    }


@pytest.mark.parametrize("dtype", ["fp8_e5m2", "fp8"])
def test_q15_an_fp8_cache_on_an_a100_passes(dtype: str) -> None:
    args = {"max_model_len": 8192, "kv_cache_dtype": dtype}
    assert errors(gpus("A100-80G"), one("Llama-3.1-8B", engine_args=args)) == set()
    assert ("kv-cache-dtype", "warning") not in case(gpus("A100-80G"), one("Llama-3.1-8B", engine_args=args))
