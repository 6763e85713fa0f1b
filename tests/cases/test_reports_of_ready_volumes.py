"""Public reports about volumes that are there already, and what Kueue admits beside a cluster: each broken, and mended."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from policies.facts.wire import Resource, manifests

from .resources import case, objects, said, twins
from .test_reports_of_objects import ENGINE
from .test_reports_of_other_kinds import KUEUE
from .test_reports_of_ray_objects import job

_POD = "      enableServiceLinks: false\n"
S3 = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: s3}
spec:
  capacity: {storage: 1200Gi}
  accessModes: [ReadOnlyMany]
  storageClassName: ""
  claimRef: {namespace: serving, name: s3}
  mountOptions: [allow-other, uid=2000, region us-east-1, prefix models/]
  csi: {driver: s3.csi.aws.com, volumeHandle: s3-models, volumeAttributes: {bucketName: team-models, authenticationSource: pod}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: s3, namespace: serving}
spec: {accessModes: [ReadOnlyMany], storageClassName: "", volumeName: s3, resources: {requests: {storage: 1200Gi}}}
"""
LUSTRE = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: fsx}
spec:
  capacity: {storage: 1200Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  mountOptions: [flock]
  csi: {driver: fsx.csi.aws.com, volumeHandle: fs-0a1b2c3d, volumeAttributes: {dnsname: fs-0a1b2c3d.fsx.us-east-1.amazonaws.com, mountname: abcdef}}
"""
EFS = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: efs}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  csi: {driver: efs.csi.aws.com, volumeHandle: "fs-0a1b2c3d::fsap-0a1b2c3d", volumeAttributes: {encryptInTransit: "true"}}
"""
READER = ENGINE.replace("--model, Qwen/Qwen2.5-7B-Instruct", "--model, /models/qwen").replace(
    "        startupProbe",
    "        env: [{name: HOME, value: /tmp}, {name: USER, value: vllm}]\n        volumeMounts: [{name: models, mountPath: /models, readOnly: true}]\n        startupProbe",
).replace(
    _POD,
    _POD + "      securityContext: {runAsUser: 2000, runAsGroup: 2000}\n      volumes: [{name: models, persistentVolumeClaim: {claimName: s3}}]\n",
) + S3  # fmt: skip
PAIRS = (
    case("awslabs/mountpoint-s3-csi-driver#118", "volume-readers", READER, ("allow-other, uid=2000, ", ""), severity="warning"),
    case("awslabs/mountpoint-s3-csi-driver#132", "volume-static", S3, ("authenticationSource: pod", "bucketprefix: models/"), severity="warning"),
    case("awslabs/mountpoint-s3#162", "volume-static", S3, ("prefix models/", "prefix models")),
    case("a volume for one node", "volume-static", S3, ("accessModes: [ReadOnlyMany]\n", "accessModes: [ReadWriteOnce]\n")),
    case("a bucket in other letters", "volume-static", S3, ("bucketName", "bucketname")),
    case("an option with underscores", "volume-static", S3, ("allow-other", "allow_other")),
    case("kubernetes-sigs/aws-fsx-csi-driver#164", "volume-static", LUSTRE, ("[ReadWriteMany]", "[ReadOnlyMany]")),
    case("kubernetes-sigs/aws-fsx-csi-driver#35", "volume-static", LUSTRE, (", mountname: abcdef", ""), severity="warning"),
    case("an attribute in other letters", "volume-static", LUSTRE, ("dnsname", "dnsName")),
    case("kubernetes-sigs/aws-efs-csi-driver#1409", "volume-static", EFS, ("[ReadWriteMany]", "[ReadOnlyMany]")),
    case("an access point alone", "volume-static", EFS, ("fs-0a1b2c3d::fsap", "fsap")),
    case("an attribute of EFS's class", "volume-static", EFS, ("encryptInTransit", "provisioningMode")),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), PAIRS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(S3.replace("allow-other, uid=2000, region us-east-1", "--region=us-east-1, -d"), id="options with dashes"),
        pytest.param(S3.replace("authenticationSource: pod", "mountpointEnv.NO_PROXY: localhost").replace("allow-other", "otlp-endpoint=http://collector:4318, allow-other"), id="a proxy and a collector"),
        pytest.param(EFS.replace("fs-0a1b2c3d::fsap-0a1b2c3d", "efs:[Filesystem ID]"), id="a handle to be filled in"),
        pytest.param(LUSTRE.replace("mountname: abcdef", "mountname: abcdef, storage.kubernetes.io/csiProvisionerIdentity: '1-fsx'"), id="what a provisioner wrote"),
        pytest.param(EFS.replace("encryptInTransit", "encryptintransit"), id="EFS reads any case"),
        pytest.param(EFS.replace("efs.csi.aws.com", "nfs.csi.k8s.io").replace("encryptInTransit", "server"), id="another driver"),
        pytest.param(READER.replace("allow-other, uid=2000, ", "").replace("runAsGroup: 2000", "runAsGroup: 2000, fsGroup: 2000"), id="newer drivers mount for the group"),
    ],
)  # fmt: skip
def test_volumes_that_their_driver_mounts_are_fine(given: str) -> None:
    assert {rule for rule, _ in said(*objects(given))} & {"volume-static", "volume-readers"} == set()


RESEARCH = [{"key": "team", "operator": "Equal", "value": "research", "effect": "NoSchedule"}]


def queued(mode: str = "K8sJobMode", **submitter: Any) -> list[Resource]:
    """A RayJob in a queue whose one flavor is tainted; head and workers tolerate it."""
    made = copy.deepcopy(job(labels={"kueue.x-k8s.io/queue-name": "gpus"}, submissionMode=mode, suspend=True))
    spec = made["spec"]["rayClusterSpec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["tolerations"] = RESEARCH
    if submitter:
        image = spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
        pod = {"restartPolicy": "Never", "containers": [{"name": "ray-job-submitter", "image": image}], **submitter}
        made["spec"]["submitterPodTemplate"] = {"spec": pod}
    return [*objects(KUEUE.rpartition("---")[0]), *manifests([made], "job.yaml")]


def test_the_pod_that_submits_a_job_is_admitted_as_well() -> None:
    """kubernetes-sigs/kueue#5711: KubeRay's own template tolerates nothing."""
    twins("kueue-queue", "error", queued(), queued(tolerations=RESEARCH))
    assert "kueue-queue" not in {rule for rule, _ in said(*queued("HTTPMode"))}
