"""Fields of pods and of the objects that make them: the names a schema has at each place, their types, and choices of those with few.

For: misspelt fields and values of another type, before the API server drops or refuses them. Not for: Ray's objects
(kuberay_schema.py), or values that depend on others (rules/pod_template.py).
Source: Kubernetes 1.35, core/v1 PodSpec and apps/v1, as KubeRay v1.7.0's CRDs embed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

# A field -> None (not judged), its type, its choices, or the shape inside it. "[]" is the shape or type of a list's items, "{}" the
# type of a mapping's values, "!" names what must be there.
Shape: TypeAlias = Mapping[str, Any]

TEXT, WHOLE, SWITCH, NUMBER = str, int, bool, float
_PROBE: Shape = {
    **dict.fromkeys(("exec",)),
    **dict.fromkeys(
        ("failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "terminationGracePeriodSeconds", "timeoutSeconds"), WHOLE
    ),
    "grpc": {"!": ("port",), "port": WHOLE, "service": TEXT},
    "httpGet": {"!": ("port",), "host": None, "httpHeaders": None, "path": TEXT, "port": None, "scheme": ("HTTP", "HTTPS")},
    "tcpSocket": {"!": ("port",), "host": None, "port": None},
}  # fmt: skip
_SECURITY: Shape = {
    **dict.fromkeys(
        ("appArmorProfile", "capabilities", "procMount", "seLinuxOptions", "seccompProfile", "windowsOptions")
    ),
    **dict.fromkeys(("allowPrivilegeEscalation", "privileged", "readOnlyRootFilesystem", "runAsNonRoot"), SWITCH),
    **dict.fromkeys(("runAsGroup", "runAsUser"), WHOLE),
}
_POD_SECURITY: Shape = {
    **dict.fromkeys(
        (
            "appArmorProfile", "fsGroupChangePolicy", "seLinuxChangePolicy", "seLinuxOptions", "seccompProfile", "supplementalGroupsPolicy",
            "sysctls", "windowsOptions",
        )
    ),
    **dict.fromkeys(("fsGroup", "runAsGroup", "runAsUser"), WHOLE),
    "runAsNonRoot": SWITCH,
    "supplementalGroups": {"[]": WHOLE},
}  # fmt: skip
CONTAINER: Shape = dict.fromkeys(
    (
        "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "name", "resizePolicy", "restartPolicy", "restartPolicyRules",
        "terminationMessagePath", "terminationMessagePolicy", "volumeDevices", "workingDir",
    )
) | {
    "!": ("name",),
    "args": {"[]": TEXT},
    "command": {"[]": TEXT},
    "livenessProbe": _PROBE,
    "ports": {"[]": {"containerPort": WHOLE, "hostIP": TEXT, "hostPort": WHOLE, "name": TEXT, "protocol": ("TCP", "UDP", "SCTP")}},
    "readinessProbe": _PROBE,
    "resources": dict.fromkeys(("claims", "limits", "requests")),
    "securityContext": _SECURITY,
    "startupProbe": _PROBE,
    "stdin": SWITCH,
    "stdinOnce": SWITCH,
    "tty": SWITCH,
    "volumeMounts": {
        "[]": {
            "!": ("mountPath", "name"),
            **dict.fromkeys(("mountPath", "mountPropagation", "name", "recursiveReadOnly", "subPath", "subPathExpr"), TEXT),
            "readOnly": SWITCH,
        }
    },
}  # fmt: skip
POD: Shape = {
    **dict.fromkeys(
        (
            "affinity", "dnsConfig", "dnsPolicy", "ephemeralContainers", "hostAliases", "hostname", "hostnameOverride", "imagePullSecrets",
            "nodeName", "os", "overhead", "preemptionPolicy", "priorityClassName", "readinessGates", "resourceClaims", "resources",
            "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "schedulingGroup", "serviceAccount",
            "serviceAccountName", "subdomain", "topologySpreadConstraints", "volumes",
        )
    ),
    **dict.fromkeys(("activeDeadlineSeconds", "priority", "terminationGracePeriodSeconds"), WHOLE),
    **dict.fromkeys(
        (
            "automountServiceAccountToken", "enableServiceLinks", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "setHostnameAsFQDN",
            "shareProcessNamespace",
        ),
        SWITCH,
    ),
    "containers": {"[]": CONTAINER},
    "initContainers": {"[]": CONTAINER},
    "nodeSelector": {"{}": TEXT},
    "securityContext": _POD_SECURITY,
    "tolerations": {"[]": {**dict.fromkeys(("effect", "key", "operator", "value"), TEXT), "tolerationSeconds": WHOLE}},
}  # fmt: skip
TEMPLATE: Shape = {"metadata": None, "spec": POD}
WORKLOADS: dict[str, Shape] = {
    "Deployment": {
        **dict.fromkeys(("minReadySeconds", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit"), WHOLE),
        "paused": SWITCH,
        "selector": None,
        "strategy": {"rollingUpdate": dict.fromkeys(("maxSurge", "maxUnavailable")), "type": ("RollingUpdate", "Recreate")},
        "template": TEMPLATE,
    },
    "StatefulSet": {
        **dict.fromkeys(("minReadySeconds", "replicas", "revisionHistoryLimit"), WHOLE),
        **dict.fromkeys(("ordinals", "persistentVolumeClaimRetentionPolicy", "selector", "volumeClaimTemplates")),
        "podManagementPolicy": ("OrderedReady", "Parallel"),
        "serviceName": TEXT,
        "template": TEMPLATE,
        "updateStrategy": {"rollingUpdate": dict.fromkeys(("maxUnavailable", "partition")), "type": ("RollingUpdate", "OnDelete")},
    },
}  # fmt: skip
