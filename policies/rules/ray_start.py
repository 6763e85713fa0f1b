"""Parameters of `ray start` in head and worker groups: options that exist, and numbers that the pod has.

Not for: what KubeRay refuses (kuberay_cluster.py), or what the head must say about GPUs (head_pod.py).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from policies.catalog.lookup import closest_names
from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import quantity, real
from policies.finding import Problem, Rule, error, warning

from ._values import LOOPBACK, amount, gib, literal, version
from .kuberay_cluster import ray_workloads

# ray 2.60.0: scripts/scripts.py, options of `ray start`; KubeRay makes --<key>=<value> of every parameter.
_READ_IN = (2, 60)
_OPTIONS = (
    "address",
    "autoscaling-config",
    "block",
    "cgroup-path",
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "dashboard-host",
    "dashboard-port",
    "disable-usage-stats",
    "enable-object-reconstruction",
    "enable-resource-isolation",
    "head",
    "include-dashboard",
    "include-log-monitor",
    "labels",
    "labels-file",
    "log-color",
    "log-style",
    "max-worker-port",
    "memory",
    "metrics-export-port",
    "min-worker-port",
    "no-monitor",
    "no-redirect-output",
    "node-ip-address",
    "node-manager-port",
    "node-name",
    "num-cpus",
    "num-gpus",
    "object-manager-port",
    "object-spilling-directory",
    "object-store-memory",
    "plasma-directory",
    "port",
    "proxy-server-url",
    "ray-client-server-port",
    "ray-debugger-external",
    "redis-password",
    "redis-shard-ports",
    "redis-username",
    "resources",
    "runtime-env-agent-port",
    "system-config",
    "system-reserved-cpu",
    "system-reserved-memory",
    "temp-dir",
    "tracing-startup-hook",
    "verbose",
    "worker-port-list",
)
_NUMBERS = ("num-cpus", "num-gpus", "memory", "object-store-memory")
# ray 2.60.0: _private/ray_constants.py OBJECT_STORE_MINIMUM_MEMORY_BYTES, REQUIRE_SHM_SIZE_THRESHOLD.
_LEAST_STORE, _NEEDS_SHM = 75 * 2**20, 10**10


def parameters(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        for group in workload.pod_groups:
            for name, value in group.ray_start_params.items():
                yield from _parameter(workload, group, str(name), value)
            yield from _gpus(group)
            yield from _group_resources(workload, group)
            yield from _store(group)


def _parameter(workload: Workload, group: PodGroup, name: str, value: object) -> Iterator[Problem]:
    if name not in _OPTIONS:
        if str(value).lower() == "false":
            return  # KubeRay leaves a switch that is off out
        near = closest_names(name.lower().replace("_", "-"), _OPTIONS, 1)
        same = (version(workload.ray_version) or ())[:2] == _READ_IN
        yield (error if same else warning)(
            group.where,
            f"rayStartParams has '{name}', and `ray start` has no option --{name}: the container ends at once",
            f"did you mean '{near[0]}'?" if near else "take it out",
        )
        return
    if not isinstance(value, str):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield error(
            group.where,
            f"rayStartParams {name} is {value!r}, not text: the API server refuses the object",
            f'write "{text}" in quotes',
        )
    number = real(value)
    if name in _NUMBERS and "$" not in str(value) and (number is None or number < 0 or not number.is_integer()):
        unit = " of bytes" if name in ("memory", "object-store-memory") else ""
        yield error(
            group.where,
            f"rayStartParams {name} is {value!r}; allowed: a whole number{unit}",
            "correct it, or leave it out",
        )
    if name == "resources":
        yield from _resources(group, str(value))
    if name == "dashboard-host" and group.head and str(value) in LOOPBACK:
        yield error(
            group.where,
            f"dashboard-host is {value}: KubeRay configures Serve through the dashboard from outside the pod and never reaches it",
            'leave it out (KubeRay sets "0.0.0.0")',
        )


def _resources(group: PodGroup, text: str) -> Iterator[Problem]:
    """The value goes through a shell: '"{\\"NPU\\": 1}"' or "'{\"NPU\": 1}'" reaches Ray as JSON, '{"NPU": 1}' falls apart."""
    try:
        words = shlex.split(text)
        found = json.loads(words[0]) if len(words) == 1 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        yield error(
            group.where,
            f"rayStartParams resources is {text}: after the shell has read it, it is no JSON, and `ray start` ends at once",
            'use the group\'s field `resources`, or quote the JSON for the shell: "\'{\\"NPU\\": 1}\'"',
        )


def _group_resources(workload: Workload, group: PodGroup) -> Iterator[Problem]:
    for name, value in group.resources.items():
        number = quantity(value)
        if number is None or number < 0:
            yield error(group.where, f"resources {name} is '{value}', no amount", "give a whole number, as text")
        elif not number.is_integer() and (workload.autoscaling or name not in ("CPU", "GPU", "memory")):
            yield error(
                group.where,
                f"resources {name} is {value}: Ray's autoscaler takes whole numbers of a pod's resources",
                "give a whole number; a part of a GPU is asked for by the engine's bundle (gpu.share)",
            )


def _gpus(group: PodGroup) -> Iterator[Problem]:
    stated = real(group.ray_start_params.get("num-gpus"))
    stated = quantity(group.resources.get("GPU")) if stated is None else stated
    if stated is None or not group.gpus or stated == group.gpus:
        return
    counts = f"Ray is told of {amount(stated)} GPUs and the container gets {amount(group.gpus)}"
    if stated > group.gpus:
        yield error(
            group.where,
            f"{counts}: engines are placed on GPUs that are not there",
            "leave num-gpus out: KubeRay takes it from the limits",
        )
    elif stated:
        yield warning(group.where, f"{counts}: the rest is never used", "leave num-gpus out, or ask for fewer GPUs")


def _store(group: PodGroup) -> Iterator[Problem]:
    store = real(group.ray_start_params.get("object-store-memory"))
    if store is None or "plasma-directory" in group.ray_start_params:
        return
    if store < _LEAST_STORE:
        yield error(
            group.where,
            f"object-store-memory is {amount(store)} bytes; `ray start` takes {_LEAST_STORE} and more",
            "leave it out: Ray takes 30 % of the memory",
        )
    if not group.memory_mib:
        return
    shm = group.shm_mib if group.shm_mib is not None else group.memory_mib
    if store > group.memory_mib * 2**20:
        yield error(
            group.where,
            f"object-store-memory is {gib(store / 2**20)} and the container has {gib(group.memory_mib)}: `ray start` refuses it",
            "leave it out, or give the pod more memory",
        )
    elif store > shm * 2**20 and literal(group.env, "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE") is None:
        say = error if store > _NEEDS_SHM else warning
        yield say(
            group.where,
            f"object-store-memory is {gib(store / 2**20)} and /dev/shm {gib(shm)}"
            + (": `ray start` refuses it" if store > _NEEDS_SHM else ": objects go to disk"),
            "raise shm_gib, or leave object-store-memory out",
        )


def address(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        for group in workload.pod_groups:
            given = literal(group.env, "RAY_ADDRESS")
            if given is not None and given.startswith("ray://"):
                yield error(
                    group.where,
                    f"RAY_ADDRESS is '{given}', an address of Ray Client: processes inside the cluster connect to it as a driver from outside",
                    "take it out: KubeRay sets the address of the head",
                )
            elif given is not None:
                yield warning(
                    group.where,
                    f"RAY_ADDRESS is fixed to '{given}': KubeRay leaves it as it is, also in the second cluster of an upgrade",
                    "take it out: KubeRay sets the address of the head",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="ray-start-parameters",
        title="Parameters of ray start exist and say what the pod has",
        why=(
            "KubeRay makes --key=value of each parameter. An unknown one ends the container before Ray starts; more GPUs or more object store than the container has "
            "are believed by Ray, or refused by it, and a dashboard on localhost is one that KubeRay cannot reach."
        ),
        check=parameters,
        sources=(
            "ray 2.60.0: scripts/scripts.py, _private/services.py",
            "kuberay v1.7.0: controllers/ray/common/pod.go",
            "kuberay#1984",
            "kuberay#4447",
        ),
    ),
    Rule(
        id="ray-address",
        title="Pods find their own head",
        why="KubeRay sets RAY_ADDRESS in every Ray container unless it is there already. A fixed one leads elsewhere after an upgrade, which makes a second cluster.",
        check=address,
        sources=("kuberay v1.7.0: controllers/ray/common/pod.go",),
    ),
)
