"""Endpoints under the same load in turn: bare vLLM, the stack, or others. The numbers, their ratios to the first, a table and a plot.

In turn, and several times, so that what else the machine does falls on both alike; a ratio is of the medians of the rounds.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from local.bench import load
from local.bench.load import Round

DISTURBED = 0.1
"""Share of a round that the client may wait for a CPU. A client that waited 0.8 of the time saw all tokens of an even stream at once."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What is measured."""

    name: str
    url: str
    """http://host:port"""
    model: str


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One endpoint at one concurrency: medians over the rounds, times in milliseconds."""

    requests_per_second: float
    tokens_per_second: float
    first_p50: float
    first_p95: float
    gap_p50: float
    gap_p95: float
    rounds: int
    """Rounds that were counted."""
    client_waited: float
    """Share of the time (0 to 1) in which the client itself got no CPU: above DISTURBED the figures are the machine's, not the server's."""


def disturbed(result: Mapping[int, Mapping[str, Figures]]) -> str:
    """Which measurements say nothing about the servers, in a sentence; "" when all hold."""
    found = [
        f"{name} at concurrency {concurrency} ({one.client_waited:.0%})"
        for concurrency, by_name in result.items()
        for name, one in by_name.items()
        if one.client_waited > DISTURBED
    ]
    return f"not a result: the client got no CPU for part of the time: {', '.join(found)}" if found else ""


def figures(rounds: Sequence[Round]) -> Figures:
    """The medians of rounds."""

    def median(values: Sequence[float]) -> float:
        return statistics.median(values)

    def times(share: float, kind: str) -> float:
        each = []
        for one in rounds:
            values = (
                [reply.first for reply in one.replies]
                if kind == "first"
                else [gap for reply in one.replies for gap in reply.gaps]
            )
            each.append(load.percentile(values, share) * 1000)
        return median(each)

    return Figures(
        requests_per_second=median([one.requests_per_second for one in rounds]),
        tokens_per_second=median([one.tokens_per_second for one in rounds]),
        first_p50=times(0.5, "first"),
        first_p95=times(0.95, "first"),
        gap_p50=times(0.5, "gap"),
        gap_p95=times(0.95, "gap"),
        rounds=len(rounds),
        client_waited=median([one.waited / one.seconds for one in rounds]),
    )


def measure(
    endpoints: Sequence[Endpoint], *, concurrencies: Sequence[int], rounds: int, requests: int, tokens: int
) -> dict[int, dict[str, Figures]]:
    """Figures by concurrency and endpoint name. `requests` a round at concurrency 8; a quarter at 1, double at 32."""
    for endpoint in endpoints:  # warm: the first requests pay for caches and connections
        asyncio.run(load.run(endpoint.url, endpoint.model, concurrency=4, requests=8, tokens=tokens))
    result: dict[int, dict[str, Figures]] = {}
    for concurrency in concurrencies:
        count = max(concurrency, requests // 4) if concurrency == 1 else max(requests, 2 * concurrency)
        seen: dict[str, list[Round]] = {endpoint.name: [] for endpoint in endpoints}
        for number in range(rounds):
            # The other end first each time: none always follows the same one's load.
            for endpoint in endpoints if number % 2 == 0 else reversed(endpoints):
                one = asyncio.run(
                    load.run(endpoint.url, endpoint.model, concurrency=concurrency, requests=count, tokens=tokens)
                )
                seen[endpoint.name].append(one)
        result[concurrency] = {name: figures(found) for name, found in seen.items()}
    return result


def table(result: Mapping[int, Mapping[str, Figures]], names: Sequence[str]) -> Table:
    """A row for each endpoint and concurrency, and the ratio of each to the first."""
    made = Table(title="Streamed chat requests, in turn", title_justify="left")
    for column in (
        "concurrency",
        "endpoint",
        "requests/s",
        "tokens/s",
        "first token p50 / p95 (ms)",
        "between tokens p50 / p95 (ms)",
    ):
        made.add_column(column, justify="left" if column == "endpoint" else "right")
    for concurrency, found in result.items():
        for name in names:
            one = found[name]
            made.add_row(
                str(concurrency),
                name,
                f"{one.requests_per_second:.2f}",
                f"{one.tokens_per_second:.0f}",
                f"{one.first_p50:.0f} / {one.first_p95:.0f}",
                f"{one.gap_p50:.1f} / {one.gap_p95:.1f}",
            )
        base = found[names[0]]
        for name in names[1:]:
            other = found[name]
            made.add_row(
                "",
                f"[bold]{name} to {names[0]}[/bold]",
                f"[bold]{other.requests_per_second / base.requests_per_second:.2f}[/bold]",
                f"{other.tokens_per_second / base.tokens_per_second:.2f}",
                f"{other.first_p50 - base.first_p50:+.0f} / {other.first_p95 - base.first_p95:+.0f}",
                f"{other.gap_p50 / base.gap_p50:.2f} / {other.gap_p95 / base.gap_p95:.2f}",
                end_section=name == names[-1],
            )
    return made


def save(result: Mapping[int, Mapping[str, Figures]], path: Path) -> None:
    """The figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        str(concurrency): {name: asdict(one) for name, one in found.items()} for concurrency, found in result.items()
    }
    path.write_text(json.dumps(data, indent=1) + "\n")


def plot(result: Mapping[int, Mapping[str, Figures]], names: Sequence[str], path: Path) -> None:
    """Throughput, time to the first token and time between tokens by concurrency, as a picture file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    panels = (
        ("requests_per_second", None, "requests per second"),
        ("first_p50", "first_p95", "time to first token, ms (p50, line to p95)"),
        ("gap_p50", "gap_p95", "time between tokens, ms (p50, line to p95)"),
    )
    positions = range(len(result))
    for axis, (field, upper, title) in zip(axes, panels, strict=True):
        for number, name in enumerate(names):
            values = [getattr(found[name], field) for found in result.values()]
            width = 0.76 / len(names)
            offset = (number - (len(names) - 1) / 2) * width
            errors = None
            if upper:
                highest = [getattr(found[name], upper) for found in result.values()]
                errors = (
                    [0.0] * len(values),
                    [max(0.0, high - value) for high, value in zip(highest, values, strict=True)],
                )
            axis.bar(
                [position + offset for position in positions],
                values,
                width=width * 0.95,
                label=name,
                yerr=errors,
                capsize=3,
            )
        axis.set_title(title, fontsize=10)
        axis.set_xticks(list(positions), [str(concurrency) for concurrency in result])
        axis.set_xlabel("concurrent requests")
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
