"""What the API server, Kueue, KubeRay and KServe refuse in the words of a workload beyond its schema, as tables.

Source of the rows: kubernetes 1.34 (pkg/apis/{core,apps,batch}/validation), kueue ff69552e (pkg/controller/jobframework),
kuberay feeaf72f (controllers/ray/utils/validation.go), kserve aaac4e29 (pkg/apis/serving/v1beta1). Not for: what pod_template.py,
pod_scheduling.py and pod_resources.py say of pods, or kuberay_objects.py of jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error

from ._refusals import (  # fmt: skip
    Check,
    Rows,
    Values,
    choice,
    filled,
    form,
    known,
    needs,
    one_of,
    refused,
    share,
    together,
    unlike,
    within,
    without,
)

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_FIELDS = r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['.+'\]|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"  # fmt: skip
_APPS = ("DaemonSet", "Deployment", "StatefulSet")


def _hugepages(at: Values) -> tuple[str, str] | None:
    asked = {str(name) for key in ("limits", "requests") for name in mapping(at.get(key))}
    huge = sorted(name for name in asked if name.startswith("hugepages-"))
    return (f"it asks for {huge[0]} and for no CPU or memory", "state memory") if huge and not asked & {"cpu", "memory"} else None  # fmt: skip


def _sidecar(at: Values) -> tuple[str, str] | None:
    probe = next((key for key in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle") if at.get(key)), None)
    if probe and at.get("restartPolicy") != "Always":
        return f"{probe} is for init containers with restartPolicy Always", "leave it out"
    return None


def _domains(at: Values) -> tuple[str, str] | None:
    soft = at.get("whenUnsatisfiable") == "ScheduleAnyway" and at.get("minDomains") is not None
    return ("minDomains is for whenUnsatisfiable: DoNotSchedule", "leave it out") if soft else None


def _number(at: Values) -> tuple[str, str] | None:
    values = items(at.get("values"))
    if at.get("operator") not in ("Gt", "Lt") or (len(values) == 1 and (whole(values[0]) is not None or not known(values[0]))):  # fmt: skip
        return None
    return f"{at.get('key')} {at['operator']} takes one whole number", "give one"


def _subpath(at: Values) -> tuple[str, str] | None:
    path = str(at.get("subPath") or "")
    return (f"subPath is '{path}'", "give a path within the volume") if path.startswith("/") or ".." in path.split("/") else None  # fmt: skip


_CONTAINER: Rows = (
    ("", form("name", _LABEL, "lower-case letters, digits and '-'")),
    ("", unlike("ports", "name", what="port a name of its own and name")),
    ("volumeMounts[]", _subpath),
    ("volumeMounts[]", together("subPath", "subPathExpr")),
    ("env[].valueFrom", one_of("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")),
    ("env[].valueFrom.fieldRef", form("fieldPath", _FIELDS, "a field that variables may have, such as status.podIP")),
    ("resources", _hugepages),
    *((f"{probe}.grpc", within("port", 1, 65535)) for probe in ("livenessProbe", "readinessProbe", "startupProbe")),
    ("securityContext", choice("procMount", "Default", "Unmasked")),
    ("securityContext.seccompProfile", needs("localhostProfile", "type", "Localhost")),
)
_POD: Rows = (
    *((f"{key}[].{path}" if path else f"{key}[]", check) for key in ("containers", "initContainers") for path, check in _CONTAINER),
    ("initContainers[]", _sidecar),
    ("tolerations[]", needs("tolerationSeconds", "effect", "NoExecute")),
    ("", form("hostname", _LABEL, "lower-case letters, digits and '-'")),
    ("", lambda at: ("dnsPolicy is None and dnsConfig names no server", "give dnsConfig.nameservers") if at.get("dnsPolicy") == "None" and not mapping(at.get("dnsConfig")).get("nameservers") else None),
    ("securityContext.seccompProfile", lambda at: ("type is Localhost and it has no localhostProfile", "name the profile") if at.get("type") == "Localhost" and not at.get("localhostProfile") else None),
    ("topologySpreadConstraints[]", _domains),
    ("", unlike("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable")),
    *((f"affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution[]", within("weight", 1, 100)) for kind in ("podAffinity", "podAntiAffinity")),
    ("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[]", _number),
    *((f"volumes[].{kind}", within("defaultMode", 0, 0o777)) for kind in ("configMap", "projected", "secret")),
    ("volumes[].projected.sources[].serviceAccountToken", within("expirationSeconds", 600)),
    ("volumes[].ephemeral", filled("volumeClaimTemplate")),
)  # fmt: skip
_ALWAYS: Rows = (
    ("", within("replicas", 0)),
    ("template.spec", choice("restartPolicy", "Always")),
    ("template.spec", lambda at: ("activeDeadlineSeconds is for jobs", "leave it out") if at.get("activeDeadlineSeconds") is not None else None),
)  # fmt: skip
_SPECS: Mapping[str, tuple[str, Rows]] = {
    "Deployment": ("the API server", (
        *_ALWAYS, ("strategy", without("type", "Recreate", "rollingUpdate")),
        ("strategy.rollingUpdate", share("maxUnavailable")),
    )),
    "StatefulSet": ("the API server", (*_ALWAYS, ("updateStrategy.rollingUpdate", within("partition", 0)), ("volumeClaimTemplates[].spec.resources", filled("requests")))),
    "DaemonSet": ("the API server", _ALWAYS),
    "Job": ("the API server", (
        *(("", within(key, 0)) for key in ("activeDeadlineSeconds", "backoffLimit", "completions", "parallelism", "ttlSecondsAfterFinished")),
        ("", lambda at: ("completionMode is Indexed and it has no completions", "state completions") if at.get("completionMode") == "Indexed" and at.get("completions") is None else None),
        ("", needs("backoffLimitPerIndex", "completionMode", "Indexed")),
        ("", lambda at: ("podFailurePolicy is for pods with restartPolicy Never", "set it") if at.get("podFailurePolicy") and mapping(mapping(at.get("template")).get("spec")).get("restartPolicy") == "OnFailure" else None),
    )),
    "RayJob": ("KubeRay", (
        ("", lambda at: ("SidecarMode takes no submitterPodTemplate or submitterConfig", "leave them out") if at.get("submissionMode") == "SidecarMode" and (at.get("submitterPodTemplate") or at.get("submitterConfig")) else None),
        ("", lambda at: ("shutdownAfterJobFinishes and deletionStrategy.deletionRules exclude each other", "leave shutdownAfterJobFinishes out") if at.get("shutdownAfterJobFinishes") is True and mapping(at.get("deletionStrategy")).get("deletionRules") else None),
        ("deletionStrategy", lambda at: ("onSuccess and onFailure stand beside deletionRules", "keep deletionRules") if at.get("deletionRules") and (at.get("onSuccess") or at.get("onFailure")) else None),
        ("deletionStrategy.deletionRules[].condition", one_of("jobStatus", "jobDeploymentStatus")),
        ("deletionStrategy.deletionRules[].condition", within("ttlSeconds", 0)),
        ("clusterSelector", lambda at: ("ray.io/cluster is empty", "name the cluster") if at.get("ray.io/cluster") == "" else None),
    )),
    "InferenceService": ("KServe's webhook", (
        ("predictor", within("minReplicas", 0)), ("predictor", within("maxReplicas", 0)), ("predictor", within("containerConcurrency", 0)),
        ("predictor", within("canaryTrafficPercent", 0, 100)), ("predictor", choice("scaleMetric", "cpu", "memory", "concurrency", "rps")),
        ("predictor", lambda at: (f"minReplicas {at['minReplicas']} is above maxReplicas {at['maxReplicas']}", "raise maxReplicas") if (whole(at.get("maxReplicas")) or 0) and (whole(at.get("minReplicas")) or 0) > (whole(at["maxReplicas"]) or 0) else None),
        ("predictor", together("huggingface", "model", "onnx", "pytorch", "sklearn", "tensorflow", "triton", "xgboost")),
        ("predictor.model", filled("modelFormat")),
        ("predictor.logger", choice("mode", "all", "request", "response")),
        ("predictor.workerSpec", within("pipelineParallelSize", 1)), ("predictor.workerSpec", within("tensorParallelSize", 1)),
        ("predictor.workerSpec", lambda at: ("it has several containers", "keep one") if len(items(at.get("containers"))) > 1 else None),
        ("predictor", lambda at: (f"workerSpec goes with weights of pvc:// or oci://, and storageUri is {mapping(at.get('model'))['storageUri']}", "put the weights on a volume") if "workerSpec" in at and known(mapping(at.get("model")).get("storageUri")) and not str(mapping(at["model"])["storageUri"]).startswith(("pvc://", "oci://")) else None),
    )),
}  # fmt: skip
_TAS = "kueue.x-k8s.io/podset-"
_SLICE, _SIZE = f"{_TAS}slice-required-topology", f"{_TAS}slice-size"


def _group(at: Values) -> tuple[str, str] | None:
    name, ways = f"{_TAS}group-name", (f"{_TAS}required-topology", f"{_TAS}preferred-topology")
    if at.get(name) and not any(at.get(way) for way in ways):
        return f"{name} goes with {ways[0]} or preferred-topology", "set one of them"
    return together(name, _SIZE)(at)


_ANNOTATIONS: Rows = (
    ("", together(*(f"{_TAS}{way}-topology" for way in ("required", "preferred", "unconstrained")))),
    ("", needs(_SLICE, _SIZE)),
    ("", needs(_SIZE, _SLICE)),
    ("", within(_SIZE, 1)),
    ("", form(_SIZE, r"-?\d+", "a whole number")),
    ("", form(f"{_TAS}unconstrained-topology", "1|0|t|f|T|F|true|false|TRUE|FALSE|True|False", "true or false")),
    ("", _group),
)
_QUEUED = "kueue.x-k8s.io/queue-name"
_SECONDS: Check = within("kueue.x-k8s.io/max-exec-time-seconds", 1)


def workloads(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for message, mend in refused(mapping(group.pod), _POD):
                yield error(group.where, f"{message}: the API server refuses its pods", mend)
        by, rows = _SPECS.get(workload.kind, ("", ()))
        for message, mend in refused(workload.spec, rows):
            yield error(workload.where, f"{message}: {by} refuses it", mend)
        if workload.labels.get(_QUEUED):
            yield from _queued(workload)


def _queued(workload: Workload) -> Iterator[Problem]:
    found = [*refused(workload.labels, (("", _SECONDS), ("", form("kueue.x-k8s.io/max-exec-time-seconds", r"-?\d+", "seconds"))))]  # fmt: skip
    for group in workload.pod_groups:
        if group.annotations:
            found += refused(group.annotations, _ANNOTATIONS)
    if workload.by_kuberay:
        names = [group.name for group in workload.groups]
        if "head" in names:
            found.append(("a worker group is called head", "give it another name"))
    for message, mend in dict.fromkeys(found):
        yield error(workload.where, f"{message}: Kueue's webhook refuses it", mend)


RULES: tuple[Rule, ...] = (
    Rule(
        id="workload-refused",
        title="Workloads and their pods are ones that the API server and the webhooks of their kind take",
        why=(
            "Templates are stored with little checking; conditions between fields are checked when a pod is made, or by the operator of the kind, which then writes an event and does nothing. "
            "A subPath that is absolute, tolerationSeconds without NoExecute, a RayJob with two ways of deletion: no pod is ever made."
        ),
        check=workloads,
        sources=(
            "kubernetes 1.34: pkg/apis/{core,apps,batch}/validation",
            "kueue ff69552e: pkg/controller/jobframework/tas_validation.go",
            "kuberay feeaf72f: controllers/ray/utils/validation.go",
            "kserve aaac4e29: pkg/apis/serving/v1beta1/inference_service_validation.go",
        ),
    ),
)
