"""`gw top`: what goes through the gateway just now, drawn anew every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from gw.cli.daemon import Daemon, daemon_options
from gw.cli.output import Cell, ms, print_json, print_table, table_of, usd
from gw.cli.parsers import SECONDS

if TYPE_CHECKING:
    from rich.console import RenderableType

LAST_S = 60
LOG_LIMIT = 1_000
LATEST = 8
"""Requests shown below the models."""


@attrs.frozen(kw_only=True)
class ModelRow:
    """What one model did in the last minute. `ttfb_ms` is the median."""

    model: str
    requests: int
    errors: int
    fallbacks: int
    ttfb_ms: float | None
    cost_usd: float


@attrs.frozen(kw_only=True)
class Now:
    health: Mapping[str, Any]
    overview: Mapping[str, Any]
    models: tuple[ModelRow, ...]
    latest: Sequence[Mapping[str, Any]]

    def as_json(self) -> dict[str, Any]:
        today, health = self.overview["today"], self.health
        return {
            "uptime_seconds": health["uptime_seconds"],
            "running": self.overview["active_requests"],
            "requests_today": today["requests"],
            "errors_today": today["errors"],
            "cost_today": today["cost"],
            "last_minute": [attrs.asdict(model) for model in self.models],
        }


@click.command()
@click.option("--every", type=SECONDS, default=2.0, show_default=True, metavar="SECONDS", help="Between two looks.")
@click.option("--once", is_flag=True, help="One look, then end; so it is in a pipe.")
@click.option("--json", "as_json", is_flag=True, help="One look as a JSON object.")
@daemon_options
def top(every: float, once: bool, as_json: bool, url: str | None, key: str) -> None:
    """Show what goes through the gateway just now, model by model.

    The rows are the last minute; Ctrl-C ends it. It takes a running gateway, and the admin token where there is one.
    """
    daemon = Daemon.at(url, key)
    if as_json:
        print_json(look(daemon).as_json())
    elif once or not sys.stdout.isatty():
        print_table(COLUMNS, [_row(model) for model in look(daemon).models])
    else:
        _watch(daemon, every)


def look(daemon: Daemon) -> Now:
    records = daemon.get("/v1/logs", limit=LOG_LIMIT)
    recent = [record for record in records if record["timestamp"] > time.time() - LAST_S]
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for record in recent:
        by_model.setdefault(record["model_id"], []).append(record)
    busiest_first = sorted(by_model.items(), key=lambda item: (-len(item[1]), item[0]))
    return Now(
        health=daemon.get("/health"),
        overview=daemon.get("/api/overview"),
        models=tuple(_summed(model, found) for model, found in busiest_first),
        latest=records[:LATEST],
    )


def _summed(model: str, records: Sequence[Mapping[str, Any]]) -> ModelRow:
    firsts = sorted(record["ttfb_ms"] for record in records if record.get("ttfb_ms") is not None)
    return ModelRow(
        model=model,
        requests=len(records),
        errors=sum(record["status"] == "error" for record in records),
        fallbacks=sum(record["status"] == "fallback" for record in records),
        ttfb_ms=firsts[len(firsts) // 2] if firsts else None,
        cost_usd=sum(record.get("cost_usd") or 0 for record in records),
    )


COLUMNS = ("model", "requests", "errors", "fallbacks", "ttfb", "cost")


def _row(model: ModelRow) -> list[Cell]:
    first, counts = model.ttfb_ms, [model.requests, model.errors, model.fallbacks]
    if sys.stdout.isatty():
        return [model.model, *counts, None if first is None else ms(first), usd(model.cost_usd)]
    return [model.model, *counts, first, f"{model.cost_usd:.9f}"]


def _watch(daemon: Daemon, every: float) -> None:
    """Until Ctrl-C; the screen is as it was before."""
    from rich.live import Live

    live = Live(_drawn(look(daemon)), screen=True, auto_refresh=False)
    try:
        live.start(refresh=True)  # inside: Ctrl-C may come while it draws for the first time
        while True:
            time.sleep(every)
            live.update(_drawn(look(daemon)), refresh=True)
    finally:
        live.stop()


def _drawn(now: Now) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    today = now.overview["today"]
    head = (
        f"gw {now.health['version']}   running {now.overview['active_requests']}   "
        f"today {today['requests']} requests, {today['errors']} errors, {usd(today['cost'])}"
    )
    latest = [[record["model_id"], record["status"], ms(record["total_latency_ms"])] for record in now.latest]
    return Group(
        Text(head),
        Text(""),
        table_of(COLUMNS, [_row(model) for model in now.models]),
        Text(""),
        table_of(("latest", "status", "total"), latest),
    )
