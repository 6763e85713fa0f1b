"""`python -m local`: the commands behind the Makefile's targets.

Each command is a few calls; what they do is in the modules. `up` is a list of named steps: to add one, write a
function of a Run and put it into STEPS.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from local import arrival, builds, cache, cluster, gobuild, preflight, progress, stack, tools
from local.errors import LocalError
from local.settings import Settings, from_environment

if TYPE_CHECKING:
    from local.ask import Answer

app = typer.Typer(help="A one-node Kubernetes on this machine and the stack `local` on it.", no_args_is_help=True)
KubeconfigOption = Annotated[Path | None, typer.Option(help="Use this cluster instead of one of our own.")]


@dataclass
class Run:
    """One run of `up`: what is given, and what the steps found so far."""

    settings: Settings
    kubeconfig: Path | None = None
    """A cluster that was given; None for our own."""
    cluster: cluster.Cluster | None = None
    """Our own cluster, once it is up."""
    builds: gobuild.Builds | None = None
    """What is being built."""
    answer: Answer | None = None
    """What the model said to the first request."""


def check(run: Run) -> None:
    """Everything that can stop the rest, before anything starts."""
    preflight.check(run.settings, run.kubeconfig)


def get_tools(run: Run) -> None:
    """The programs of the node of a cluster of our own, while the others are built as well; kubectl for one that was given."""
    if run.kubeconfig is None:
        from local.images import serve

        fetched = progress.Beside(serve.made)  # gigabytes to fetch, while the compiler has the processors
        run.builds = gobuild.Builds(tools.to_build(own_cluster=True))
        run.builds.wait(*builds.NODE)
        tools.node_programs()
        fetched.finish()
    else:
        tools.ensure()
    tools.remember_kubeconfig(run.kubeconfig)


def start_cluster(run: Run) -> None:
    """Our own cluster, unless one was given."""
    if run.kubeconfig is None:
        if not run.settings.etcd.exists():
            tools.forget_stack(stack.STACK)  # of a cluster that was deleted by hand
        run.cluster = cluster.up(run.settings)
        return
    answer = subprocess.run(
        ["kubectl", "version", "--request-timeout=10s"],
        env=tools.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise LocalError(
            f"the cluster of {run.kubeconfig} does not answer: {answer.stderr.strip()}",
            fix=f"make `kubectl --kubeconfig {run.kubeconfig} version` work first",
        )


def make_images(run: Run) -> None:
    """The operator's and the engine's image, in the node's containerd."""
    if run.cluster is not None:
        from local import images  # heavy, and only a cluster of our own needs it

        images.ensure_images(run.cluster)


def get_pulumi(run: Run) -> None:
    """kubectl and Pulumi: the last of their builds may go on while the cluster starts and takes its images."""
    if run.builds is not None:
        run.builds.wait()
        tools.ensure()


def bring_stack_up(run: Run) -> None:
    """The stack, by the real Pulumi engine, and what changed of its services."""
    before = arrival.generations()
    stack.up()
    arrival.wait(before)


def send_one_request(run: Run) -> None:
    """One chat request through the endpoint."""
    from local import ask  # loads the client, which the other commands do without

    run.answer = ask.ask()


STEPS: tuple[tuple[str, Callable[[Run], None]], ...] = (
    ("preflight", check),
    ("tools", get_tools),
    ("cluster", start_cluster),
    ("images", make_images),
    ("pulumi", get_pulumi),
    ("stack", bring_stack_up),
    ("first request", send_one_request),
)


@app.command()
def up(kubeconfig: KubeconfigOption = None, until: Annotated[str, typer.Option(help="Last step to run.")] = "") -> None:
    """Bring everything up; a second time only what changed."""
    names = [name for name, _ in STEPS]
    if until and until not in names:
        raise LocalError(f"there is no step '{until}'", fix=f"give one of: {', '.join(names)}")
    run = Run(settings=from_environment(), kubeconfig=kubeconfig)
    times: list[tuple[str, float]] = []
    for name, step in STEPS:
        progress.console.print(f"[bold]{name}[/bold]")
        clock = progress.Step(name)
        try:
            step(run)
        except BaseException as error:
            if run.builds is not None:
                run.builds.stop()
            if not isinstance(error, KeyboardInterrupt):
                raise
            progress.console.print(f"interrupted in step '{name}'; the same command goes on from here")
            raise typer.Exit(130) from None
        times.append((name, clock.elapsed))
        if name == until:
            break
    table = Table("step", "time")
    for name, seconds in times:
        table.add_row(name, progress.clock(seconds))
    table.add_row("all", progress.clock(sum(seconds for _, seconds in times)), style="bold")
    progress.console.print(table)
    if run.answer is not None:
        from local import ask

        ask.show(run.answer)
    tools.trim()


@app.command()
def down(
    everything: Annotated[bool, typer.Option("--all", help="Delete images and the cache of builds as well.")] = False,
) -> None:
    """Take the local cluster down with all that is in it; leaves nothing running or mounted."""
    settings = from_environment()
    if tools.given_kubeconfig():
        stack.destroy()
        tools.remember_kubeconfig(None)
    if settings.state.exists():
        if os.geteuid() != 0:
            raise LocalError("taking the local cluster down needs root", fix="sudo make down")
        cluster.down(settings, images=everything)
        tools.forget_stack(stack.STACK)
    if everything:
        cache.remove_all()


@app.command()
def status() -> None:
    """The node's services, and the Pods of the cluster."""
    services = cluster.status(from_environment())
    if not services and tools.given_kubeconfig() is None:
        raise LocalError("the local cluster is not up", fix="make up")
    table = Table("service", "pid in the node", "restarts", "last exit")
    for name, entry in services.items():
        last = "" if entry["last_exit"] is None else str(entry["last_exit"])
        table.add_row(name, str(entry["pid"] or "not running"), str(entry["restarts"]), last)
    if services:
        progress.console.print(table)
    for kinds in ("nodes,pods", "rayservices"):
        # No RayService kind before the stack is up: that is no error here.
        subprocess.run(["kubectl", "get", kinds, "-A"], env=tools.environment(), stderr=subprocess.DEVNULL, check=False)


@app.command(name="preflight")
def preflight_command(kubeconfig: KubeconfigOption = None) -> None:
    """Say what would stop `up`; start nothing."""
    preflight.check(from_environment(), kubeconfig)
    progress.console.print("nothing is in the way")


@app.command()
def env() -> None:
    """Print the `export` lines with which plain pulumi and kubectl work: eval "$(python -m local env)"."""
    for name, value in sorted(tools.changed_environment().items()):
        print(f"export {name}={shlex.quote(value)}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def kubectl(context: typer.Context) -> None:
    """Run kubectl on the local cluster."""
    environment = tools.environment()
    os.execvpe("kubectl", ["kubectl", *context.args], environment)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def ctr(context: typer.Context) -> None:
    """Run containerd's client on the node's images and containers."""
    command = cluster.current(from_environment()).ctr(*context.args)
    os.execv(command[0], command)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def inside(context: typer.Context) -> None:
    """Run a command in the node's namespaces, for instance `inside iptables-save`."""
    command = cluster.current(from_environment()).inside(*context.args)
    os.execvp(command[0], command)


def main() -> None:
    """Run a command; an obstacle is told in a sentence and ends with exit code 1."""
    try:
        app()
    except LocalError as error:
        progress.console.print(f"[red]error[/red]: {error.problem}", soft_wrap=True)
        progress.console.print(f"  to fix: {error.fix}", markup=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
