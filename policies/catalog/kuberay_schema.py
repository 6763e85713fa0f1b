"""Fields of KubeRay's custom resources: the names a schema has at each place, and the choices of those that have few.

For: misspelt fields and values, before the API server drops or refuses them. Not for: their pods (pod_schema.py), or
which KubeRay brought a field (versions.py).
Source: CRDs of KubeRay v1.7.0 (helm-chart/kuberay-operator/crds), which embed the PodSpec of Kubernetes 1.35; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Mapping

from .pod_schema import NUMBER as _NUMBER
from .pod_schema import SWITCH as _SWITCH
from .pod_schema import TEMPLATE as _TEMPLATE
from .pod_schema import TEXT as _TEXT
from .pod_schema import WHOLE as _WHOLE
from .pod_schema import Shape

NEWEST = "1.7"
_MANAGERS = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")
_DELETION = ("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")

HEAD: Shape = {
    "!": ("template",),
    "enableIngress": _SWITCH,
    "headService": None,
    "ingressOptions": None,
    "labels": None,
    "rayStartParams": None,
    "resources": None,
    "serviceType": ("ClusterIP", "NodePort", "LoadBalancer"),
    "template": _TEMPLATE,
}
WORKER: Shape = {
    "!": ("groupName", "template"),
    "groupName": _TEXT,
    "idleTimeoutSeconds": _WHOLE,
    "labels": None,
    "maxReplicas": _WHOLE,
    "minReplicas": _WHOLE,
    "numOfHosts": _WHOLE,
    "priority": _WHOLE,
    "rayStartParams": None,
    "replicas": _WHOLE,
    "resources": None,
    "scaleStrategy": {"workersToDelete": None},
    "suspend": _SWITCH,
    "template": _TEMPLATE,
}
CLUSTER: Shape = {
    "!": ("headGroupSpec",),
    "authOptions": {"enableK8sTokenAuth": _SWITCH, "mode": ("disabled", "token"), "secretName": _TEXT},
    "autoscalerOptions": {
        "args": None,
        "command": None,
        "env": None,
        "envFrom": None,
        "idleTimeoutSeconds": _WHOLE,
        "image": _TEXT,
        "imagePullPolicy": None,
        "resources": None,
        "securityContext": None,
        "upscalingMode": ("Default", "Aggressive", "Conservative"),
        "version": ("v1", "v2"),
        "volumeMounts": None,
    },
    "enableInTreeAutoscaling": _SWITCH,
    "gcsFaultToleranceOptions": {
        "backend": ("redis", "rocksdb"),
        "externalStorageNamespace": _TEXT,
        "redisAddress": _TEXT,
        "redisPassword": None,
        "redisUsername": None,
        "storage": None,
    },
    "headGroupSpec": HEAD,
    "headServiceAnnotations": None,
    "historyServerOptions": None,
    "managedBy": _MANAGERS,
    "networkPolicy": None,
    "rayVersion": _TEXT,
    "suspend": _SWITCH,
    "tlsOptions": None,
    "upgradeStrategy": {"type": ("Recreate", "None")},
    "workerGroupSpecs": {"[]": WORKER},
}
SERVICE: Shape = {
    "deploymentUnhealthySecondThreshold": _WHOLE,
    "excludeHeadPodFromServeSvc": _SWITCH,
    "managedBy": _MANAGERS,
    "rayClusterConfig": CLUSTER,
    "rayClusterDeletionDelaySeconds": _WHOLE,
    "serveConfigV2": _TEXT,
    "serveService": None,
    "serviceUnhealthySecondThreshold": _WHOLE,
    "suspend": _SWITCH,
    "upgradeStrategy": {
        "clusterUpgradeOptions": {
            "gatewayClassName": _TEXT,
            "intervalSeconds": _WHOLE,
            "maxSurgePercent": _WHOLE,
            "stepSizePercent": _WHOLE,
        },
        "type": _TEXT,  # its choices are the operator's: rule upgrade-strategy
    },
}
JOB: Shape = {
    "activeDeadlineSeconds": _WHOLE,
    "backoffLimit": _WHOLE,
    "clusterSelector": None,
    "deletionStrategy": {
        "deletionRules": None,
        "onFailure": {"policy": _DELETION},
        "onSuccess": {"policy": _DELETION},
    },
    "entrypoint": _TEXT,
    "entrypointNumCpus": _NUMBER,
    "entrypointNumGpus": _NUMBER,
    "entrypointResources": _TEXT,
    "jobId": _TEXT,
    "managedBy": _MANAGERS,
    "metadata": None,
    "preRunningDeadlineSeconds": _WHOLE,
    "rayClusterSpec": CLUSTER,
    "runtimeEnvYAML": _TEXT,
    "shutdownAfterJobFinishes": _SWITCH,
    "submissionMode": ("HTTPMode", "InteractiveMode", "K8sJobMode", "SidecarMode"),
    "submitterConfig": {"backoffLimit": _WHOLE},
    "submitterPodTemplate": _TEMPLATE,
    "suspend": _SWITCH,
    "ttlSecondsAfterFinished": _WHOLE,
}
KINDS: Mapping[str, Shape] = {"RayCluster": CLUSTER, "RayJob": JOB, "RayService": SERVICE}
