"""Fields of the NodeConfig that nodes of Amazon Linux 2023 start by, and of the kubelet's configuration inside it.

For: user data of nodes (rules/user_data.py). Not for: settings of Bottlerocket.
Sources: awslabs/amazon-eks-ami, nodeadm/internal/api/types.go; Kubernetes, staging/src/k8s.io/kubelet/config/v1beta1/types.go (1.36, with
fields of older releases); read 2026-11-30. nodeadm decodes without strictness, and a kubelet that finds an unknown field reads the rest.
"""

from __future__ import annotations

from .pod_schema import NUMBER, SWITCH, TEXT, WHOLE, Shape

API_VERSION = "node.eks.aws/v1alpha1"
_MARK: Shape = {"?": ()}  # names that are not in the shape are ignored without a word
_ANY = (
    "apiVersion", "authentication", "authorization", "crashLoopBackOff", "kind", "logging", "memorySwap", "registerWithTaints",
    "reservedMemory", "shutdownGracePeriodByPodPriority", "staticPodURLHeader", "tracing", "userNamespaces",
)  # fmt: skip
_SWITCHES = (
    "cgroupsPerQOS", "cpuCFSQuota", "enableContentionProfiling", "enableControllerAttachDetach", "enableDebugFlagsHandler",
    "enableDebuggingHandlers", "enableProfilingHandler", "enableServer", "enableSystemLogHandler", "enableSystemLogQuery", "failCgroupV1",
    "failSwapOn", "kernelMemcgNotification", "localStorageCapacityIsolation", "makeIPTablesUtilChains", "mergeDefaultEvictionSettings",
    "protectKernelDefaults", "registerNode", "rotateCertificates", "runOnce", "seccompDefault", "serializeImagePulls", "serverTLSBootstrap",
    "singleProcessOOMKill",
)  # fmt: skip
_NUMBERS = (
    "containerLogMaxFiles", "containerLogMaxWorkers", "eventBurst", "eventRecordQPS", "evictionMaxPodGracePeriod", "healthzPort",
    "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "iptablesDropBit", "iptablesMasqueradeBit", "kubeAPIBurst", "kubeAPIQPS",
    "maxOpenFiles", "maxParallelImagePulls", "maxPods", "nodeLeaseDurationSeconds", "nodeStatusMaxImages", "oomScoreAdj", "podPidsLimit",
    "podsPerCore", "port", "readOnlyPort", "registryBurst", "registryPullQPS",
)  # fmt: skip
_TEXTS = (
    "address", "cgroupDriver", "cgroupRoot", "clusterDomain", "configMapAndSecretChangeDetectionStrategy", "containerLogMaxSize",
    "containerLogMonitorInterval", "containerRuntimeEndpoint", "contentType", "cpuCFSQuotaPeriod", "cpuManagerPolicy",
    "cpuManagerReconcilePeriod", "draManagerReconcilePeriod", "evictionPressureTransitionPeriod", "fileCheckFrequency", "hairpinMode",
    "healthzBindAddress", "httpCheckFrequency", "imageMaximumGCAge", "imageMinimumGCAge", "imagePullCredentialsVerificationPolicy",
    "imageServiceEndpoint", "kubeReservedCgroup", "kubeletCgroups", "memoryManagerPolicy", "memoryReservationPolicy",
    "nodeStatusReportFrequency", "nodeStatusUpdateFrequency", "podCIDR", "podLogsDir", "providerID", "reservedSystemCPUs", "resolvConf",
    "runtimeRequestTimeout", "showHiddenMetricsForVersion", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "staticPodPath",
    "staticPodURL", "streamingConnectionIdleTimeout", "syncFrequency", "systemCgroups", "systemReservedCgroup", "tlsCertFile",
    "tlsMinVersion", "tlsPrivateKeyFile", "topologyManagerPolicy", "topologyManagerScope", "volumePluginDir", "volumeStatsAggPeriod",
)  # fmt: skip
_LISTS = (
    "allowedUnsafeSysctls", "clusterDNS", "enforceNodeAllocatable", "preloadedImagesVerificationAllowlist", "tlsCipherSuites",
)  # fmt: skip
_MAPS = (
    "cpuManagerPolicyOptions", "evictionHard", "evictionMinimumReclaim", "evictionSoft", "evictionSoftGracePeriod", "kubeReserved",
    "qosReserved", "systemReserved", "topologyManagerPolicyOptions",
)  # fmt: skip
KUBELET: Shape = {
    **_MARK,
    **dict.fromkeys((*_ANY, "tlsCurvePreferences")),
    **dict.fromkeys(_SWITCHES, SWITCH),
    **dict.fromkeys(_NUMBERS, WHOLE),
    **dict.fromkeys(_TEXTS, TEXT),
    **{name: {"[]": TEXT} for name in _LISTS},
    **{name: {"{}": TEXT} for name in _MAPS},
    "featureGates": {"{}": SWITCH},
    "memoryThrottlingFactor": NUMBER,
}
SPEC: Shape = {
    **_MARK,
    "cluster": {
        **_MARK,
        **dict.fromkeys(("apiServerEndpoint", "certificateAuthority", "cidr", "id", "name"), TEXT),
        "enableOutpost": SWITCH,
    },
    "containerd": {**_MARK, "baseRuntimeSpec": None, "config": TEXT},
    "featureGates": {"{}": SWITCH},
    "instance": {
        **_MARK,
        "environment": {"{}": {"{}": TEXT}},
        "localStorage": {
            **_MARK,
            "disabledMounts": {"[]": ("Containerd", "PodLogs", "SOCI")},
            "mountPath": TEXT,
            "strategy": ("RAID0", "RAID10", "Mount"),
        },
        "network": {**_MARK, "domains": {"[]": TEXT}, "nameservers": {"[]": TEXT}},
        "storage": {
            **_MARK,
            "volumes": {
                "[]": {
                    **_MARK,
                    "!": ("device", "mountTargets"),
                    "device": TEXT,
                    "fsType": TEXT,
                    "mountTargets": {"[]": TEXT},
                }
            },
        },
    },
    "kubelet": {**_MARK, "config": KUBELET, "flags": {"[]": TEXT}, "maxPodsExpression": TEXT},
}
