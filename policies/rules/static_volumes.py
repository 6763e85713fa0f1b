"""Volumes that are there already, written for the driver that mounts them: S3, FSx for Lustre, EFS.

The API server takes any PersistentVolume of CSI; the driver answers when the node is up and the pod waits in ContainerCreating. Not for:
volumes that a class makes (storage_classes.py), handles that are the same (storage_drivers.py), or the owner of a fresh disk (volume_owner.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Object, PodGroup, Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import listed

_S3, _FSX, _EFS = "s3.csi.aws.com", "fsx.csi.aws.com", "efs.csi.aws.com"
_ENVIRONMENT = "mountpointEnv."  # of S3's driver: variables of the process that mounts
# kubelet asks for the first mode of a volume; these are what each driver mounts.
_MODES: Mapping[str, tuple[str, ...]] = {
    _S3: ("ReadWriteMany", "ReadOnlyMany"),
    _FSX: ("ReadWriteMany", "ReadWriteOnce"),
    _EFS: ("ReadWriteMany", "ReadWriteOnce"),
}
# volumeAttributes that a driver reads, in its own letters; those that it must have come first.
_ATTRIBUTES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    _S3: (
        ("bucketName",),
        (
            "authenticationSource", "cache", "cacheEmptyDirMedium", "cacheEmptyDirSizeLimit", "cacheEphemeralStorageClassName",
            "cacheEphemeralStorageResourceRequest", "mountpointContainerResourcesLimitsCpu", "mountpointContainerResourcesLimitsMemory", "mountpointContainerResourcesRequestsCpu",
            "mountpointContainerResourcesRequestsMemory", "mountpointPodServiceAccountName", "stsRegion",
        ),
    ),
    _FSX: (("dnsname",), ("mountname", "skipFinalBackup")),
    _EFS: ((), ("crossaccount", "encryptInTransit", "mounttargetip", "mounttargetipmap", "path")),
}  # fmt: skip
_MOUNT_S3 = (
    "allow-delete", "allow-other", "allow-overwrite", "allow-root", "auto-unmount", "aws-max-attempts", "bind", "bucket-type", "cache",
    "ca-bundle", "cache-block-size", "cache-xz", "debug", "debug-crt", "dir-mode", "dual-stack", "endpoint-url", "expected-bucket-owner", "file-mode",
    "force-path-style", "foreground", "gid", "incremental-upload", "infer-content-type", "log-directory", "log-metrics", "max-cache-size", "max-memory-target", "memory-target",
    "max-threads", "maximum-throughput-gbps", "metadata-ttl", "negative-metadata-ttl", "no-log", "no-sign-request", "otlp-endpoint", "otlp-export-interval", "part-size", "prefix",
    "profile", "read-only", "read-part-size", "region", "requester-pays", "sse", "sse-kms-key-id", "storage-class",
    "transfer-acceleration", "uid", "upload-checksums", "user-agent-prefix", "write-part-size",
)  # fmt: skip


def volumes(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("PersistentVolume"):
        csi = mapping(item.spec.get("csi"))
        driver = str(csi.get("driver") or "")
        modes = [str(mode) for mode in items(item.spec.get("accessModes"))]
        if modes and driver in _MODES and modes[0] not in _MODES[driver]:
            yield error(
                item.where,
                f"its first access mode is {modes[0]}, which {driver} does not mount (Volume capability not supported)",
                f"write {' or '.join(_MODES[driver])}",
            )
        yield from _attributes(item.where, driver, mapping(csi.get("volumeAttributes")))
        if driver == _S3:
            yield from _options(item)
        handle = str(csi.get("volumeHandle") or "")
        if driver == _EFS and re.fullmatch(r"[\w.:/-]+", handle) and "fs-" not in handle:  # others are placeholders
            yield error(
                item.where,
                f"its volumeHandle is '{handle}', and {driver} reads the file system from it",
                "write fs-..., fs-...:/path or fs-...::fsap-...",
            )


def _attributes(where: str, driver: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    needed, others = _ATTRIBUTES.get(driver, ((), ()))
    known = (*needed, *others)
    for name in map(str, given) if known else ():
        # Names with a slash are those of Kubernetes; EFS alone reads letters of any case, and refuses what it does not know.
        if (
            "/" in name
            or name in known
            or name.startswith(_ENVIRONMENT)
            or (driver == _EFS and name.lower() in map(str.lower, known))
        ):
            continue
        near = closest_names(name, [each for each in known if each not in given], 1)
        folder = driver == _S3 and "prefix" in name.lower()
        mend = f"write {near[0]}" if near else f"take it out; it reads {', '.join(known)}"
        yield (error if near or driver == _EFS else warning)(
            where,
            f"{driver} has no volumeAttributes.{name}: it {'refuses to mount' if driver == _EFS else 'is ignored without a word'}",
            "name the folder in mountOptions: [prefix models/]" if folder else mend,
        )
    lacks = [name for name in needed if not given.get(name)]
    if lacks:
        yield error(
            where, f"it has no volumeAttributes.{lacks[0]}, and {driver} refuses to mount it", f"give {lacks[0]}"
        )
    if driver == _FSX and given.get("dnsname") and not given.get("mountname"):
        yield warning(
            where,
            "it has no volumeAttributes.mountname, and its driver takes 'fsx' then: newer file systems have names of their own (mount: No such file or directory)",
            "give the file system's mount name",
        )


def _parsed(item: Object) -> dict[str, str]:
    """Options of mount-s3: the driver takes 'region x', 'region=x' and '--region x' for one."""
    pairs = [
        re.split(r"[ =]+", str(option).strip().lstrip("-"), maxsplit=1)
        for option in items(item.spec.get("mountOptions"))
    ]
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def _options(item: Object) -> Iterator[Problem]:
    options = _parsed(item)
    for name in options:
        near = closest_names(name, _MOUNT_S3, 1) if name not in _MOUNT_S3 and len(name) > 1 else ()
        if near:  # a newer one may be like an older
            yield (error if name.lower().replace("_", "-") == near[0] else warning)(
                item.where,
                f"mount-s3 has no option '{name}' and ends: nothing is mounted",
                f"did you mean '{near[0]}'?",
            )
    prefix = options.get("prefix")
    if prefix and not prefix.endswith("/"):
        yield error(
            item.where,
            f"its option prefix is '{prefix}', and mount-s3 takes one that ends in / alone: nothing is mounted",
            f"write prefix {prefix}/",
        )
    if "allow-other" in options and "allow-root" in options:
        yield error(item.where, "it has allow-other and allow-root, of which mount-s3 takes one", "keep allow-other")


def readers(stack: Stack) -> Iterator[Problem]:
    """Buckets that root alone may read, and pods of another user."""
    closed = {
        item.name: item
        for item in stack.of_kind("PersistentVolume")
        if mapping(item.spec.get("csi")).get("driver") == _S3 and "allow-other" not in _parsed(item)
    }
    claims = {
        (str(ref.get("namespace") or "default"), str(ref.get("name"))): item
        for item in closed.values()
        if (ref := mapping(item.spec.get("claimRef")))
    }
    for claim in stack.of_kind("PersistentVolumeClaim"):
        if claim.spec.get("volumeName") in closed:
            claims[claim.namespace, claim.name] = closed[str(claim.spec["volumeName"])]
    for workload in stack.workloads if claims else ():
        for group in workload.pod_groups:
            context = mapping(group.pod.get("securityContext"))
            user = whole(
                mapping(group.main_container.get("securityContext")).get("runAsUser", context.get("runAsUser"))
            )
            found = sorted(name for name in _mounted(group) if (workload.namespace, name) in claims)
            if found and user and context.get("fsGroup") is None:
                volume = claims[workload.namespace, found[0]]
                yield warning(
                    group.where,
                    f"it runs as user {user} and reads claim '{found[0]}', whose bucket is mounted for one user alone ({volume.where} has no allow-other): permission denied",
                    f"add allow-other and uid={user} to mountOptions of {listed([volume.name])}",
                )


def _mounted(group: PodGroup) -> Iterator[str]:
    """Claims that the first container mounts."""
    names = {mapping(each).get("name") for each in items(group.main_container.get("volumeMounts"))}
    for volume in map(mapping, items(group.pod.get("volumes"))):
        claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
        if claim and volume.get("name") in names:
            yield str(claim)


RULES: tuple[Rule, ...] = (
    Rule(
        id="volume-static",
        title="Ready volumes say what their driver needs",
        why="Attributes and options of a volume are read by its driver alone, on the node, in the driver's own letters. An access mode that it does not have, an option that it does not know, or a name in other letters leaves the pod in ContainerCreating.",
        check=volumes,
        sources=(
            "awslabs/mountpoint-s3-csi-driver#132",
            "awslabs/mountpoint-s3#162",
            "kubernetes-sigs/aws-fsx-csi-driver#35",
            "kubernetes-sigs/aws-fsx-csi-driver#164",
            "kubernetes-sigs/aws-efs-csi-driver#1409",
            "mountpoint-s3-csi-driver: pkg/driver/node/node.go",
            "mountpoint-s3: mountpoint-s3/src/cli.rs",
            "aws-fsx-csi-driver, aws-efs-csi-driver: pkg/driver/node.go",
        ),
    ),
    Rule(
        id="volume-readers",
        title="A bucket is mounted for the user that reads it",
        why="Mountpoint lets the user that mounts a bucket read it and nobody else, unless allow-other is stated. A pod with a user of its own sees a folder of question marks.",
        check=readers,
        sources=(
            "awslabs/mountpoint-s3-csi-driver#118",
            "awslabs/mountpoint-s3-csi-driver#134",
            "mountpoint-s3: doc/CONFIGURATION.md",
        ),
    ),
)
