"""Further public reports about pods, ports, Ray clusters, jobs and queues, each with its mended twin."""

from __future__ import annotations

from typing import Any

from .report import Report, each
from .small import KAI, VOLCANO, Config, chat, model, pool
from .test_a_to_b import gpus


def cluster(**fields: Any) -> Config:
    return chat(patch={"spec": {"rayClusterConfig": fields}})


def worker(**fields: Any) -> Config:
    return cluster(workerGroupSpecs=[{"groupName": "l4", **fields}])


def container(**fields: Any) -> Config:
    return worker(template={"spec": {"containers": [{"name": "ray-worker", **fields}]}})


def both(resource: str, amount: str) -> Config:
    return container(resources={"limits": {resource: amount}, "requests": {resource: amount}})


def head(**fields: Any) -> Config:
    return cluster(headGroupSpec={"template": {"spec": {"containers": [{"name": "ray-head", **fields}]}}})


def serve(**fields: Any) -> Config:
    return chat(patch={"spec": {"serveConfigV2": fields}})


OFF = {"RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING": "0"}  # then the builder makes the OpenAI ingress


def job(**fields: Any) -> Config:
    given = {"entrypoint": "python -m batch", **fields.pop("job", {})}
    return chat(kind="ray_job", models={"qwen": None}, job=given, **fields)


def queues(**fields: Config) -> Config:
    return {"queues": fields}


PLAIN: tuple[Config, ...] = (chat(),)
PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "serve": 8000}
PODS = (
    Report("volcano-sh/volcano#822", "pod-resources", (both("nvidia.com/gpu", "0.4"),), PLAIN),
    Report("NVIDIA/k8s-device-plugin#458", "pod-resources", (both("nvidia.com/gpu", "500m"),), (pool(sharing={"strategy": "time_slicing", "replicas": 2}), model(model="Qwen/Qwen2.5-1.5B-Instruct", gpu={"share": 0.45}))),
    Report("skypilot-org/skypilot#2655", "pod-resources", (container(resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),), PLAIN),
    Report("NVIDIA/k8s-device-plugin#1078", "sharing-one-slice", (gpus("H100", sharing={"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "3g.40gb"}), both("nvidia.com/mig-3g.40gb", "10")), (gpus("H100", sharing={"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "3g.40gb"}),)),
    Report("NVIDIA/gpu-operator#460", "sharing-mig-profile", (gpus("A30", sharing={"strategy": "mig", "mig_strategy": "single", "mig_profile": "all-balanced"}),), (gpus("A100-80G", sharing={"strategy": "mig", "mig_strategy": "single", "mig_profile": "3g.40gb"}),)),
    Report("kai-scheduler/KAI-Scheduler#522", "placement-taint", (pool(taints=[{"key": "ai-type", "value": "strong"}]), chat(worker={"tolerations": [{"key": "nvidia.com/gpu", "value": "true"}]})), (pool(taints=[{"key": "ai-type", "value": "strong"}]),)),
    Report("ray-project/kuberay#1984", "ray-start-parameters", (worker(resources=None, rayStartParams={"resources": '{"NPU": 1}'}),), (worker(resources=None, rayStartParams={"resources": "'{\"NPU\": 1}'"}),)),
    Report("ray-project/kuberay#4447", "ray-start-parameters", (chat(worker={"resources": {"shard": "0.4"}}),), (chat(worker={"resources": {"shard": "1"}}),)),
    Report("ray-project/ray#36836", "gang-replica-gpus", (chat(worker={"min": 1, "max": 1}), model(replicas={"min": 2, "max": 2})), (model(replicas={"min": 2, "max": 2}),)),
    Report("ray-project/kuberay PR#932", "ray-start-parameters", (chat(head={"ray_start_params": {"dashboard-host": "localhost"}}),), (chat(head={"ray_start_params": {"disable-usage-stats": "false"}}),)),
)  # fmt: skip
ENDPOINTS = (
    Report("ray-project/kuberay PR#1816", "serve-ports", (serve(http_options={"port": 9000}),), (chat(expose={"port": 9000}),)),
    Report("ray-project/kuberay#3791", "serve-ports", (head(ports=[{"name": "gcs-server", "containerPort": 6379}, {"name": "dashboard", "containerPort": 8265}]),), (head(ports=[{"name": n, "containerPort": p} for n, p in PORTS.items()]),)),
    Report("ray-project/kuberay#4994", "serve-ports", (serve(proxy_location="HeadOnly"),), (serve(proxy_location="EveryNode"),)),
    Report("ray-project/ray#33579", "serve-llm-applications", (serve(applications=[{"name": "chat", "deployments": [{"name": "VLLMDeployment:qwen", "num_replicas": 3}]}]),), (serve(applications=[{"name": "chat", "deployments": [{"name": "LLMServer:qwen", "max_ongoing_requests": 32}]}]),)),
    Report("ray-project/ray#33579", "serve-llm-applications", (chat(env=OFF), serve(applications=[{"name": "chat", "deployments": [{"name": "LLMRouter", "max_ongoing_requests": 32}]}])), (chat(env=OFF), serve(applications=[{"name": "chat", "deployments": [{"name": "OpenAiIngress", "max_ongoing_requests": 32}]}]))),
    Report("ray-project/kuberay#1828", "serve-ports", (serve(http_options={"host": "127.0.0.1"}),), (serve(http_options={"host": "0.0.0.0"}),)),
)  # fmt: skip
LIFECYCLE = (
    Report("ray-project/kuberay#1476", "upgrade-room", (pool(max=2),), (pool(max=2), chat(upgrade={"strategy": "none"})), "warning"),
    Report("ray-project/kuberay#4239", "upgrade-room", (pool(max=3), model(replicas={"min": 3, "max": 3})), (pool(max=6), model(replicas={"min": 3, "max": 3})), "warning"),
    Report("ray-project/kuberay#3651", "kuberay-job", (job(job={"shutdown_after_finish": False}, patch={"spec": {"ttlSecondsAfterFinished": 10}}),), (job(job={"ttl_seconds": 10}),)),
    Report("ray-project/kuberay#3994", "kuberay-job", (job(job={"shutdown_after_finish": False}, patch={"spec": {"suspend": True}}),), (job(patch={"spec": {"suspend": True}}),)),
)  # fmt: skip
QUEUES = (
    Report("volcano-sh/volcano#4292", "queue-bounds", (VOLCANO, queues(team={"gpu": {"quota": 8, "limit": 4}})), (VOLCANO, queues(team={"gpu": {"quota": 4, "limit": 8}}))),
    Report("volcano-sh/volcano#2166", "config", (VOLCANO, queues(team={"gpu": {"quota": 4, "limit": 8, "guarantee": 6}})), (VOLCANO, queues(team={"gpu": {"quota": 4, "limit": 8, "guarantee": 2}}))),
    Report("volcano-sh/volcano#4818", "queue-guarantees", (VOLCANO, queues(org={"gpu": {"quota": 8, "limit": 64, "guarantee": 1}}, team={"parent": "org", "gpu": {"guarantee": 4}})), (VOLCANO, queues(org={"gpu": {"quota": 8, "limit": 64, "guarantee": 4}}, team={"parent": "org", "gpu": {"guarantee": 4}})), "warning"),
    Report("volcano-sh/volcano#4363", "queue-children", (VOLCANO, queues(org={"gpu": {"quota": 2, "limit": 64}}, team={"parent": "org"})), (VOLCANO, queues(org={"gpu": {"quota": 4, "limit": 64}}, team={"parent": "org"})), "warning"),
    Report("volcano-sh/volcano#4819", "queue-children", (VOLCANO, queues(org={"gpu": {"quota": 4, "limit": 8}}, team={"parent": "org"})), (VOLCANO, queues(org={"gpu": {"quota": 4, "limit": 64}}, team={"parent": "org"})), "warning"),
    Report("kai-scheduler/KAI-Scheduler PR#19", "queue-quota-preemptible", (KAI, queues(team={"gpu": {"quota": 1}}), chat(priority_class="inference")), (KAI, queues(team={"gpu": {"quota": 1}}), chat(priority_class="train"))),
)  # fmt: skip


@each((*PODS, *ENDPOINTS, *LIFECYCLE, *QUEUES))
def test_what_was_reported_is_said_and_its_mended_twin_passes(report: Report) -> None:
    report.holds()
