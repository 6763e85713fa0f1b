"""A service: models behind one endpoint, and everything about how it runs that is not about one model."""

from __future__ import annotations

import difflib
from typing import Literal

from pydantic import Field, field_validator, model_validator

from serve_apps import APPS

from .access import ApiKeys, ExternalSecret, GatewayRoute, Ingress, Metrics, NetworkPolicy
from .base import Env, Json, Labels, Name, NonNegative, Positive, PositiveFloat, SecretKey, Strict, Toleration
from .models import Model
from .names import ImageRepository, ImageTag, ObjectName
from .observability import Logs, Tracing
from .scaling import Scaling


class Image(Strict):
    """Image of head and workers."""

    repository: ImageRepository | None = None
    """Repository without tag; the environment's `image` when not given."""
    tag: ImageTag | None = None
    """Tag; derived from the versions and the content of serve_apps/, so that code and image cannot drift apart."""
    digest: str | None = Field(default=None, pattern="^sha256:[0-9a-f]{64}$")
    """Digest, which wins over the tag."""
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    """Kubernetes imagePullPolicy."""
    size_gib: PositiveFloat = 12
    """Unpacked size, for disks and start-up time."""


class PodShape(Strict):
    """CPU, memory and details of a pod."""

    cpu: PositiveFloat | None = None
    """CPU cores (request and limit); derived."""
    memory_gib: PositiveFloat | None = None
    """Memory (GiB, request and limit); derived."""
    cpu_limit: bool = True
    """Set a CPU limit. Without one the pod is not throttled by CFS and may use idle cores."""
    shm_gib: PositiveFloat | None = None
    """/dev/shm (GiB); derived: KubeRay's memory-backed volume for tensor parallel, bounded."""
    ray_start_params: dict[str, str] = {}
    """Parameters of ray start, over the derived ones."""
    resources: dict[str, str] = {}
    """Resources the Ray autoscaler sees in the group, over the derived ones."""
    env: Env = {}
    """Environment of the container. No secrets: they go by reference."""
    labels: Labels = {}
    """Pod labels."""
    annotations: Labels = {}
    """Pod annotations."""
    node_selector: Labels | None = None
    """Node selector; derived from the pool."""
    tolerations: tuple[Toleration, ...] | None = None
    """Tolerations; derived from the pool's taints."""


class Head(PodShape):
    """The Ray head. It runs the control plane, never replicas."""

    pool: Name | None = None
    """Node pool; derived: the smallest CPU pool on which it fits."""
    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the head Service (dashboard, client port): ClusterIP."""


class Worker(PodShape):
    """Shape of the worker pods that carry engines; one worker group for each pool and pod shape."""

    gpus_per_pod: Positive | None = None
    """GPUs of one pod; derived: what one engine needs on one node."""
    hosts: Positive | None = None
    """Pods of one multi-host replica (numOfHosts); derived from pipeline parallel."""
    compute_domain: bool | None = None
    """Claim an IMEX channel, without which NVLink ends at the node; derived: true where a replica spans nodes that NVLink joins (GB200)."""
    min: NonNegative | None = None
    """Fewest pods (minReplicas); derived from the models' replicas."""
    replicas: NonNegative | None = None
    """Pods at creation; derived: min."""
    max: NonNegative | None = None
    """Most pods (maxReplicas); derived from the models' replicas."""


class Autoscaling(Strict):
    """Ray's autoscaler for worker pods."""

    enabled: bool | None = None
    """Derived: whether a model's replicas differ between min and max."""
    version: Literal["v1", "v2"] = "v2"
    """Autoscaler version."""
    idle_timeout_seconds: Positive = 300
    """Seconds before an idle worker pod goes."""
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] = "Default"
    """How fast pods are added."""


class Upgrade(Strict):
    """What happens on a change that needs a new Ray cluster."""

    strategy: Literal["new_cluster", "incremental", "none"] = "new_cluster"
    """new_cluster: a second cluster beside the first (double GPUs, no outage); incremental: step by step through a Gateway; none: never."""
    step_size_percent: int = 25
    """Traffic moved in a step."""
    interval_seconds: int = 60
    """Seconds between steps."""
    max_surge_percent: int = 50
    """Capacity of the new cluster beyond what it serves."""
    gateway_class: str | None = None
    """GatewayClass; derived from the environment's gateway."""


class FaultTolerance(Strict):
    """GCS fault tolerance: the service goes on when the head dies."""

    backend: Literal["none", "redis", "rocksdb"] = "none"
    """none: a lost head means a new cluster; redis; rocksdb (alpha gate)."""
    redis_address: str | None = None
    """host:port or redis://..."""
    redis_password: SecretKey | None = None
    """Password, by reference."""
    storage_gib: Positive = 10
    """Volume of the rocksdb backend."""


class Auth(Strict):
    """Ray token authentication for the dashboard, jobs and client ports."""

    mode: Literal["token", "disabled"] | None = None
    """Derived: token, where Ray has it (>= 2.52)."""
    secret: str | None = None
    """Secret with key auth_token; KubeRay makes one when not given."""
    kubernetes_tokens: bool = False
    """Kubernetes token auth (not for RayService and RayJob)."""


class Expose(Strict):
    """How clients reach the endpoint."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the Serve Service."""
    internal: bool = True
    """LoadBalancer: internal to the VPC."""
    port: int = Field(default=8000, ge=1, le=65535)
    """Port of the endpoint."""
    proxy: Literal["haproxy", "python"] | None = None
    """What listens on the port in a Ray pod; derived: haproxy where Ray brings it (>= 2.57)."""
    direct_streaming: bool | None = None
    """Requests go from the proxy straight to the engine's server; derived: for a service of one model without adapters, router or scale to zero. Set false where a second model
    shall join without a new cluster."""
    ingress: Ingress | None = None
    """An Ingress with TLS in front of the Service."""
    gateway: GatewayRoute | None = None
    """A Gateway with TLS and a route to the Service."""


class Job(Strict):
    """A batch job (kind ray_job)."""

    entrypoint: str | None = None
    """Command that the job runs; derived where `app` is a job of serve_apps/, such as batch."""
    submission_mode: Literal["K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"] = "HTTPMode"
    """Who submits; K8sJobMode cannot be used with KAI."""
    shutdown_after_finish: bool = True
    """Delete the Ray cluster when the job ends."""
    ttl_seconds: NonNegative = 300
    """Seconds between the end and the deletion."""
    backoff_limit: NonNegative = 2
    """Retries, each on a fresh cluster."""
    active_deadline_seconds: Positive | None = None
    """Most seconds a job may run."""


class Volume(Strict):
    """A volume of every container of a service: weights, inputs and results of a job. Give one source."""

    mount_path: str = Field(pattern="^/")
    """Where it lies in the containers."""
    read_only: bool = True
    """Mounted without the right to write."""
    claim: str | None = None
    """PersistentVolumeClaim, e.g. of EFS or FSx."""
    config_map: str | None = None
    """ConfigMap."""
    secret: str | None = None
    """Secret."""
    host_path: str | None = None
    """Folder of the node, e.g. its NVMe cache."""
    source: Json = {}
    """Any other Kubernetes volume source as it stands, e.g. {csi: {driver: s3.csi.aws.com, ...}}."""

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        given = [name for name in ("claim", "config_map", "secret", "host_path", "source") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of claim, config_map, secret, host_path, source; given: {', '.join(given) or 'none'}"
            )
        return self


class Service(Strict):
    """Models behind one endpoint."""

    kind: Literal["ray_service", "ray_cluster", "ray_job", "vllm"] = "ray_service"
    """ray_service; ray_cluster (shared, apps deployed by others); ray_job (batch); vllm (plain Deployment, no Ray)."""
    app: str = "openai_chat"
    """App in serve_apps/: a serve app, or for kind ray_job a job."""
    app_args: Json = {}
    """Further arguments of the app, checked by its own types."""
    namespace: str = "default"
    """Namespace; it must exist."""
    create_namespace: bool = False
    """Make the namespace."""
    models: dict[Name, Model] = {}
    """Models, by the name clients use."""
    pool: Name | None = None
    """Node pool of the workers; derived: the only GPU pool, for engines on CPU the only one without GPUs."""
    image: Image = Image.model_construct()
    """Image of head and workers."""
    head: Head = Head.model_construct()
    """Ray head."""
    worker: Worker = Worker.model_construct()
    """Worker pods."""
    autoscaling: Autoscaling = Autoscaling.model_construct()
    """Ray autoscaler."""
    scaling: Scaling = Scaling.model_construct()
    """Scaling of kind vllm."""
    upgrade: Upgrade = Upgrade.model_construct()
    """Upgrade strategy."""
    fault_tolerance: FaultTolerance = FaultTolerance.model_construct()
    """GCS fault tolerance."""
    auth: Auth = Auth.model_construct()
    """Ray authentication."""
    expose: Expose = Expose.model_construct()
    """Endpoint."""
    api_keys: ApiKeys = ApiKeys.model_construct()
    """API keys of the endpoint, by reference."""
    network: NetworkPolicy = NetworkPolicy.model_construct()
    """Network policy."""
    metrics: Metrics = Metrics.model_construct()
    """Scraping of metrics."""
    logs: Logs = Logs.model_construct()
    """Logs."""
    tracing: Tracing = Tracing.model_construct()
    """Traces."""
    disruption_budget: bool = True
    """PodDisruptionBudgets, so that a drain takes one replica at a time."""
    job: Job | None = None
    """The job of kind ray_job."""
    ray_version: str | None = None
    """rayVersion; derived from the versions of the environment."""
    queue: Name | None = None
    """Queue of the batch scheduler."""
    priority_class: str | None = None
    """Priority class; derived under KAI: inference for services, train for jobs."""
    huggingface_token: SecretKey | None = None
    """Token for gated models, by reference."""
    secret_env: dict[str, SecretKey] = {}
    """Further environment from Secrets, by reference."""
    secrets: dict[ObjectName, ExternalSecret] = {}
    """Secrets of the namespace that the External Secrets Operator fetches, by name."""
    service_account: ObjectName | None = None
    """Service account of the pods (S3 access by Pod Identity)."""
    create_service_account: bool = True
    """Make the service account; false where it is there already."""
    env: Env = {}
    """Environment of every Ray container. No secrets: they go by reference."""
    volumes: dict[Name, Volume] = {}
    """Volumes of every container, by name."""
    labels: Labels = {}
    """Labels of the custom resource (copied to its clusters and pods by KubeRay where it says so)."""
    annotations: Labels = {}
    """Annotations of the custom resource."""
    ready_timeout_seconds: Positive | None = None
    """How long the deployment waits for Ready; derived from download and load time."""
    patch: Json = {}
    """Merged over the custom resource at the end; the result is judged like everything else."""

    @model_validator(mode="after")
    def _keys_are_asked_for_where_they_are_given(self) -> Service:
        if self.api_keys.engine is not None and self.kind != "vllm":
            raise ValueError(
                f"api_keys.engine is for kind vllm and kind is {self.kind}: Ray Serve LLM asks nobody for a key; "
                "give api_keys.teams with expose.gateway, which checks them in front of it"
            )
        if self.api_keys.teams and self.expose.gateway is None:
            raise ValueError("api_keys.teams are checked by a Gateway and there is none; give expose.gateway")
        return self

    @field_validator("app")
    @classmethod
    def _known_app(cls, app: str) -> str:
        if app not in APPS:
            close = difflib.get_close_matches(app, APPS, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise ValueError(f"no such app in serve_apps/; {hint}allowed: {', '.join(sorted(APPS))}")
        return app

    @model_validator(mode="after")
    def _job_apps_run_in_jobs(self) -> Service:
        if APPS[self.app].kind == "job" and self.kind != "ray_job":
            raise ValueError(
                f"app '{self.app}' is a job and kind is {self.kind}; give kind: ray_job, or an app that serves"
            )
        return self
