"""Reader of RayService, RayCluster and RayJob: the manifest becomes a Workload with its groups and engines.

Not for: plain vLLM Deployments (vllm.py beside this).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import yaml

from policies.catalog.engine_values import SWITCHES

from . import job, pods
from .quantities import items, mapping, real, switch, whole
from .records.values import Values
from .records.workloads import Engine, PodGroup, ServeApp, Workload

KINDS = ("RayService", "RayCluster", "RayJob")
MODELS_ANNOTATION = "llm-serving/models"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(
    manifest: Values,
    *,
    where: str | None = None,
    engine_groups: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    ready_timeout_seconds: int | None = None,
) -> Workload:
    """Read a manifest. `where` names it in messages; the rest is what the plan knows and a bare manifest does not say.

    Never raises on odd content: what cannot be read is left out.
    """
    kind = str(manifest.get("kind", ""))
    metadata, spec = mapping(manifest.get("metadata")), mapping(manifest.get("spec"))
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "default")
    place = where or f"{kind} {namespace}/{name}"
    cluster = {
        "RayService": mapping(spec.get("rayClusterConfig")),
        "RayJob": mapping(spec.get("rayClusterSpec")),
    }.get(kind, spec)
    serve = serve_config(spec.get("serveConfigV2"))
    annotations = mapping(metadata.get("annotations"))
    head_spec = mapping(cluster.get("headGroupSpec"))
    head = (
        pods.read(
            mapping(head_spec.get("template")),
            name="head",
            where=f"{place}: head",
            head=True,
            ray_start_params=mapping(head_spec.get("rayStartParams")),
            resources=mapping(head_spec.get("resources")),
        )
        if head_spec
        else None
    )
    groups = tuple(_group(mapping(group), place) for group in items(cluster.get("workerGroupSpecs")))
    apps = tuple(_app(mapping(app)) for app in items(serve.get("applications")))
    options = mapping(cluster.get("autoscalerOptions"))
    auth = mapping(cluster.get("authOptions"))
    upgrade = mapping(spec.get("upgradeStrategy"))
    known = versions or {}
    job_args = job.arguments(spec.get("entrypoint")) if kind == "RayJob" else None
    catalog_ids = _catalog_ids(annotations)
    found = engines(apps, place, catalog_ids, engine_groups or {}) + _of_job(
        job_args, place, catalog_ids, engine_groups or {}
    )
    return Workload(
        kind=kind,
        name=name,
        namespace=namespace,
        where=place,
        labels=mapping(metadata.get("labels")),
        annotations=annotations,
        ray_version=str(cluster["rayVersion"]) if cluster.get("rayVersion") else None,
        python_version=known.get("python"),
        vllm_version=known.get("vllm"),
        cuda_version=known.get("cuda"),
        head=head,
        groups=groups,
        engines=tuple(found),
        apps=apps,
        job_args=job_args,
        serve_config=serve,
        autoscaling=cluster.get("enableInTreeAutoscaling") is True,
        autoscaler_version=options.get("version"),
        autoscaler_options=options,
        upgrade_type=upgrade.get("type"),
        upgrade_options=mapping(upgrade.get("clusterUpgradeOptions")),
        fault_tolerance=mapping(cluster["gcsFaultToleranceOptions"])
        if cluster.get("gcsFaultToleranceOptions")
        else None,
        auth_mode=auth.get("mode"),
        auth_options=auth,
        head_service_type=head_spec.get("serviceType"),
        head_service=mapping(head_spec["headService"]) if head_spec.get("headService") else None,
        head_ingress=head_spec.get("enableIngress") is True,
        serve_service=mapping(spec["serveService"]) if spec.get("serveService") else None,
        submission_mode=(spec.get("submissionMode") or "K8sJobMode") if kind == "RayJob" else None,
        managed_by=spec.get("managedBy"),
        suspend=spec.get("suspend") is True,
        huggingface_token=_token(head, groups),
        ready_timeout_seconds=ready_timeout_seconds,
        spec=spec,
        manifest=manifest,
    )


def serve_config(text: Any) -> dict[str, Any]:
    """serveConfigV2 as a mapping; JSON first, since it is ten times faster than YAML and what we write."""
    if isinstance(text, dict):
        return text
    if not isinstance(text, str):
        return {}
    try:
        return mapping(json.loads(text))
    except json.JSONDecodeError:
        pass
    try:
        return mapping(yaml.load(text, Loader=LOADER))
    except yaml.YAMLError:
        return {}


def _group(group: Values, place: str) -> PodGroup:
    name = str(group.get("groupName", ""))
    return pods.read(
        mapping(group.get("template")),
        name=name,
        where=f"{place}: worker group '{name}'",
        group=group,
        ray_start_params=mapping(group.get("rayStartParams")),
        resources=mapping(group.get("resources")),
    )


def _app(app: Values) -> ServeApp:
    return ServeApp(
        name=str(app.get("name", "default")),
        import_path=str(app.get("import_path", "")),
        route_prefix=app.get("route_prefix", "/"),
        args=mapping(app.get("args")),
        deployments=tuple(mapping(d) for d in items(app.get("deployments"))),
    )


def _catalog_ids(annotations: Values) -> dict[str, str]:
    try:
        return {str(k): str(v) for k, v in mapping(json.loads(str(annotations.get(MODELS_ANNOTATION, "{}")))).items()}
    except json.JSONDecodeError:
        return {}


def _token(head: PodGroup | None, groups: tuple[PodGroup, ...]) -> bool:
    pods_of_ray = [*([head] if head else []), *groups]
    names = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    return bool(pods_of_ray) and all(any(name in pod.env for name in names) for pod in pods_of_ray)


Role = Literal["serve", "prefill", "decode", "data_parallel"]


def engines(
    apps: tuple[ServeApp, ...], place: str, catalog_ids: Mapping[str, str], groups: Mapping[str, str]
) -> list[Engine]:
    """Engines of all applications: LLMConfigs in the args of Ray's builders or of apps that take the same names."""
    found: list[Engine] = []
    for app in apps:
        for entry in items(app.args.get("llm_configs")):
            found.append(engine(mapping(entry), "serve", place, catalog_ids, groups))
        for key, role in _SINGLE:
            if isinstance(app.args.get(key), dict):
                found.append(engine(mapping(app.args[key]), role, place, catalog_ids, groups))
    return found


def _of_job(
    args: dict[str, Any] | None, place: str, catalog_ids: Mapping[str, str], groups: Mapping[str, str]
) -> list[Engine]:
    """The engine of a batch job; its copies are what `concurrency` says, since no Serve scales them."""
    config = job.engine_config(args) if args else {}
    if args is None or not config:
        return []
    fewest, most = job.concurrency(args)
    found = engine(config, "serve", place, catalog_ids, groups)
    return [replace(found, min_replicas=fewest, max_replicas=most)]


_SINGLE: tuple[tuple[str, Role], ...] = (
    ("prefill_config", "prefill"),
    ("decode_config", "decode"),
    ("llm_config", "data_parallel"),
)


def engine(config: Values, role: Role, place: str, catalog_ids: Mapping[str, str], groups: Mapping[str, str]) -> Engine:
    """One LLMConfig. Bundles are as declared, bundle_per_worker expanded to one for each engine worker."""
    loading = mapping(config.get("model_loading_config"))
    model_id = str(loading.get("model_id", ""))
    source = loading.get("model_source")
    source_text = str(source.get("bucket_uri", "")) if isinstance(source, dict) else str(source or model_id)
    args = _switches(mapping(config.get("engine_kwargs")))
    tensor = max(1, whole(args.get("tensor_parallel_size")) or 1)  # what is no size a rule refuses
    pipeline = max(1, whole(args.get("pipeline_parallel_size")) or 1)
    placement = config.get("placement_group_config")
    bundles, form = _bundles(mapping(placement), tensor * pipeline)
    deployment = mapping(config.get("deployment_config"))
    autoscaling = deployment.get("autoscaling_config")
    auto = deployment.get("num_replicas") == "auto"
    scale = mapping(autoscaling)
    fixed = whole(deployment.get("num_replicas"))
    router = mapping(deployment.get("request_router_config"))
    accelerator = mapping(config.get("accelerator_config"))
    cpu = accelerator.get("kind") == "cpu" or (
        bool(bundles) and not config.get("accelerator_type") and not any((real(b.get("GPU")) or 0) > 0 for b in bundles)
    )
    where = f"{place}: model '{model_id}'"
    return Engine(
        where=where if role in ("serve", "data_parallel") else f"{where}: {role}",
        model_id=model_id,
        source=source_text,
        catalog_id=catalog_ids.get(model_id, source_text),
        role=role,
        device="cpu" if cpu else "gpu",
        engine_args=args,
        accelerator_type=config.get("accelerator_type"),
        tensor=tensor,
        pipeline=pipeline,
        data=max(1, whole(args.get("data_parallel_size")) or 1),
        expert=args.get("enable_expert_parallel") is True,
        bundles=bundles,
        bundles_form=form,
        strategy=mapping(placement).get("strategy"),
        placement_group_config=mapping(placement) if placement is not None else None,
        ray_actor_options=mapping(deployment.get("ray_actor_options")),
        deployment_config=deployment,
        env={str(k): str(v) for k, v in mapping(mapping(config.get("runtime_env")).get("env_vars")).items()},
        min_replicas=pods.ints(scale.get("min_replicas"), 1) if autoscaling is not None or auto else (fixed or 1),
        max_replicas=pods.ints(scale.get("max_replicas"), 100 if auto else 1)
        if autoscaling is not None or auto
        else (fixed or 1),
        autoscaled=autoscaling is not None or auto,
        # num_replicas: auto means target 2 (Serve's default autoscaling config); without it Ray Serve LLM aims at 1e9
        target_ongoing_requests=real(scale.get("target_ongoing_requests")) or (2.0 if auto else None),
        max_ongoing_requests=whole(deployment.get("max_ongoing_requests")),
        upscale_delay_s=real(scale.get("upscale_delay_s")),
        downscale_delay_s=real(scale.get("downscale_delay_s")),
        downscale_to_zero_delay_s=real(scale.get("downscale_to_zero_delay_s")),
        max_replicas_per_node=whole(deployment.get("max_replicas_per_node")),
        router=str(router["request_router_class"]) if router.get("request_router_class") else None,
        router_options=mapping(router.get("request_router_kwargs")),
        kv_transfer=mapping(args["kv_transfer_config"]) if args.get("kv_transfer_config") else None,
        lora=mapping(config["lora_config"]) if config.get("lora_config") else None,
        experimental=mapping(config.get("experimental_configs")),
        llm_config=config,
        groups=(groups[f"{model_id}/{role}"],) if f"{model_id}/{role}" in groups else (),
    )


def _switches(args: Values) -> dict[str, Any]:
    """Switches as vLLM reads them: 1 and "true" are true."""
    return {k: v if k not in SWITCHES or (on := switch(v)) is None else on for k, v in args.items()}


def _bundles(
    placement: Values, world: int
) -> tuple[tuple[Values, ...], Literal["none", "bundles", "bundle_per_worker"]]:
    if isinstance(placement.get("bundle_per_worker"), dict):
        return tuple([mapping(placement["bundle_per_worker"])] * world), "bundle_per_worker"
    if placement.get("bundles"):
        return tuple(mapping(b) for b in items(placement["bundles"])), "bundles"
    return (), "none"
