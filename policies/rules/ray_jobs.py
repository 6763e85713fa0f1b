"""What a RayJob's entrypoint reserves, and fields of a job that its mode does not read.

Not for: what KubeRay's validation refuses (kuberay_objects.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from policies.facts import Stack, Workload
from policies.facts.quantities import mapping, real
from policies.finding import Problem, Rule, error, warning

from ._engines import seats
from ._places import ray_gpus
from ._values import amount

_SUBMITTERS = ("submitterConfig", "submitterPodTemplate")


def entrypoints(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "RayJob" or not workload.spec:
            continue
        spec, where = workload.spec, workload.where
        text = spec.get("entrypointResources")
        if isinstance(text, str) and text.strip() and not _object(text):
            yield error(
                where,
                f"entrypointResources {text!r} is no JSON object of numbers: the job is refused when it is submitted",
                """write '{"name": 1}' in quotes""",
            )
        if spec.get("clusterSelector") and spec.get("rayClusterSpec"):
            yield warning(
                where,
                "it has clusterSelector and rayClusterSpec: the job runs on the cluster that is selected, and the other is never made",
                "leave one of them out",
            )
        if spec.get("clusterSelector") and spec.get("shutdownAfterJobFinishes") is True:
            yield warning(
                where,
                "shutdownAfterJobFinishes is for a cluster that the job makes: the selected one stays",
                "leave it out, or clusterSelector",
            )
        if workload.submission_mode in ("HTTPMode", "InteractiveMode"):
            unread = [name for name in _SUBMITTERS if spec.get(name)]
            if unread:
                yield warning(
                    where,
                    f"{workload.submission_mode} starts no submitter pod, so that nothing reads {', '.join(unread)}",
                    "use K8sJobMode, or take it out",
                )
        yield from _reserved(workload)


def tasks(stack: Stack) -> Iterator[Problem]:
    """The batch app's task against what the model does: its own default is to generate text."""
    for seat in seats(stack):
        args, row = seat.workload.job_args, seat.row
        if args is None or row is None or args.get("task", "generate") != "generate" or row.task == "chat":
            continue
        say = error if row.encoder_only or row.encoder is not None else warning
        kind = {"embed": "makes vectors", "rerank": "scores pairs", "transcribe": "hears speech"}[row.task]
        mend = "set app_args.task: embed" if row.task == "embed" else "take a model that writes text"
        yield say(
            seat.engine.where,
            f"the job's task is generate and {row.name} {kind}: what it writes is {'nothing' if say is error else 'noise'}",
            mend,
        )


def _object(text: str) -> bool:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return False
    return isinstance(value, dict) and all(real(each) is not None for each in value.values())


def _reserved(workload: Workload) -> Iterator[Problem]:
    """The entrypoint is one actor: it runs where one pod has all that it asks for."""
    pods = workload.pod_groups
    if not pods:
        return
    gpus = real(workload.spec.get("entrypointNumGpus")) or 0.0
    most = max(map(ray_gpus, pods))
    if gpus > most + 1e-6:
        yield error(
            workload.where,
            f"entrypointNumGpus is {amount(gpus)} and the largest pod has {amount(most)}: the job stays pending",
            "leave it out where the program asks for its GPUs itself, or ask for at most that",
        )
    cpus = real(workload.spec.get("entrypointNumCpus")) or 0.0
    known = [
        _cpus(pod.ray_start_params.get("num-cpus"), mapping(pod.resources).get("CPU"), pod.cpu_milli) for pod in pods
    ]
    if cpus and None not in known and cpus > max(each for each in known if each is not None) + 1e-6:
        yield error(
            workload.where,
            f"entrypointNumCpus is {amount(cpus)} and the largest pod offers {amount(max(each for each in known if each is not None))}: the job stays pending",
            "ask for less, or leave it out",
        )


def _cpus(param: object, resource: object, milli: int | None) -> float | None:
    for given in (param, resource):
        number = real(given)
        if number is not None:
            return number
    return milli / 1000 if milli is not None else None


RULES: tuple[Rule, ...] = (
    Rule(
        id="ray-job-task",
        title="A batch job asks of its model what it does",
        why="A model made for vectors answers a task of text with noise, or has no head to write with; a job runs to its end before anybody looks.",
        check=tasks,
        sources=("ray#55384",),
    ),
    Rule(
        id="ray-job-entrypoint",
        title="The entrypoint of a job can run, where and as it is said",
        why=(
            "Ray waits without a time-out for a pod that has what the entrypoint reserves, and the cluster is paid for meanwhile. entrypointResources is text to KubeRay and is "
            "parsed by the submitter."
        ),
        check=entrypoints,
        sources=(
            "kuberay#1991",
            "ray 2.60.0: dashboard/modules/job",
            "kuberay v1.7.0: controllers/ray/rayjob_controller.go",
        ),
    ),
)
