"""Helm: pinned charts, hooks that run, releases that recover, values that contradict, and operators for what is declared.

Not for: secrets in values (secrets.py), or the GPU Operator's values against nodes (gpu_operator.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Release, Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig, true

# What a chart's hooks do, where that is known; helm.v3 and helm.v4 Chart render templates and run none.
HOOKS = {
    "kai-scheduler": "upgrade its CRDs and apply its Config",
    "volcano": "make the certificate of its admission webhook",
    "gpu-operator": "upgrade its CRDs and clean up",
    "kube-prometheus-stack": "make the certificates of its admission webhook",
    "cert-manager": "wait for its API",
    "ingress-nginx": "make the certificate of its admission webhook",
}
# Charts whose stored manifests cannot be played back, so that the rollback of an atomic upgrade fails as well
# (KAI-Scheduler: docs/migrationguides/README.md).
NO_ROLLBACK = frozenset({"kai-scheduler"})
_LEAST_SECONDS = 120
_EXACT = re.compile(r"v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?")


def _local(release: Release) -> bool:
    chart = str(release.chart or "")
    return chart.startswith((".", "/", "file://", "~")) or chart.endswith((".tgz", ".tar.gz"))


def pinned(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        if _local(release) or (release.kind == "manifests" and release.version is None):
            continue
        given = str(release.version or "").strip()
        if not given:
            yield error(
                release.where,
                f"chart {chart_name(release)} has no version: each update takes whatever is newest then",
                "pin the version",
            )
        elif not _EXACT.fullmatch(given):
            yield error(
                release.where,
                f"version '{given}' of chart {chart_name(release)} is a range, not a version",
                "pin one version, e.g. 1.2.3",
            )


def names(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        if release.kind == "release" and len(release.name) > 53:
            yield error(
                release.where,
                f"release name '{release.name}' has {len(release.name)} characters and Helm allows 53",
                f"shorten it by {len(release.name) - 53}",
            )


def hooks(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        name = chart_name(release)
        if release.kind != "chart" or name not in HOOKS:
            continue
        if name == "kai-scheduler" and true(dig(release.values, "kaiConfig", "render"), False):
            continue
        yield warning(
            release.where,
            f"{name} uses Helm hooks to {HOOKS[name]}, and a Chart resource runs none",
            "use helm.v3.Release for it",
        )


def recovery(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        if release.kind != "release":
            continue
        if chart_name(release) in NO_ROLLBACK:
            if release.atomic is True:
                yield warning(
                    release.where,
                    f"it is atomic and {chart_name(release)} has no rollback: a failed update leaves its objects between two versions",
                    "set atomic: false, and update again after a failure",
                )
            continue
        if release.atomic is not True:
            yield warning(
                release.where,
                "it is not atomic: an update that is interrupted leaves the release pending, and the next one fails with 'another operation is in progress'",
                "set atomic and a timeout (or, once it has happened: helm rollback)",
            )
        elif release.timeout_seconds is not None and release.timeout_seconds < _LEAST_SECONDS:
            yield warning(
                release.where,
                f"it is atomic with a timeout of {release.timeout_seconds} s: images are not pulled by then on new nodes, and Helm takes everything back",
                f"set a timeout of at least {_LEAST_SECONDS} s; 900 is a good one",
            )
        elif release.timeout_seconds is None:
            yield warning(release.where, "it is atomic and has Helm's default timeout of 5 minutes", "set a timeout")


def replicas_owned(stack: Stack) -> Iterator[Problem]:
    """Two writers of one number: this program and an autoscaler."""
    scaled = set()
    for item in stack.of_kind("HorizontalPodAutoscaler", "ScaledObject"):
        scaled.add((item.namespace, str(mapping(item.spec.get("scaleTargetRef")).get("name", ""))))
    for workload in stack.workloads:
        if (
            workload.kind == "Deployment"
            and (workload.namespace, workload.name) in scaled
            and "replicas" in workload.spec
        ):
            yield warning(
                workload.where,
                "spec.replicas is set and an autoscaler writes it too: each update sets the number of pods back",
                "leave replicas out",
            )
        if workload.kind == "RayCluster" and workload.autoscaling and stack.batch_scheduler != "kai":
            stated = [g.name for g in workload.groups if g.replicas is not None and g.replicas != (g.min or 0)]
            if stated:
                yield warning(
                    workload.where,
                    f"replicas of {', '.join(stated)} are set and Ray's autoscaler writes them too: each update sets the number of pods back",
                    "leave worker.replicas out, so that only minReplicas and maxReplicas are stated",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="helm-version",
        title="Charts are pinned",
        why="Without a version, or with a range, the same program installs something else tomorrow, CRDs included.",
        check=pinned,
        sources=("pulumi-policy#352",),
    ),
    Rule(
        id="helm-name",
        title="Release names are short",
        why="Helm keeps ten characters of a 63-character label for what it adds, and refuses longer release names.",
        check=names,
        sources=("https://helm.sh/docs/chart_template_guide/getting_started/",),
    ),
    Rule(
        id="helm-hooks",
        title="Charts with hooks are releases",
        why=(
            "helm.v3.Chart and helm.v4.Chart render templates and apply them; hooks are dropped. KAI's Config, Volcano's webhook certificate and CRD upgrades "
            "are made by hooks, so the operator runs and does nothing."
        ),
        check=hooks,
        sources=("pulumi-kubernetes#555", "pulumi-kubernetes#1335", "pulumi-kubernetes#2674"),
    ),
    Rule(
        id="helm-recovery",
        title="Releases roll back by themselves",
        why=(
            "A Helm operation that is cut off stays in state pending-upgrade, and every later one is refused. atomic rolls back; the timeout must cover image "
            "pulls and drivers."
        ),
        check=recovery,
        sources=("pulumi-kubernetes#2054",),
    ),
    Rule(
        id="replicas-one-owner",
        title="One writer for each number of pods",
        why=(
            "With server-side apply two managers of one field fight, or the program sets back what an autoscaler chose. Ray's autoscaler writes replicas of a "
            "RayCluster; a RayService is left alone."
        ),
        check=replicas_owned,
        sources=("pulumi-kubernetes#2491", "pulumi-kubernetes#3312", "pulumi-kubernetes#2215"),
    ),
)
