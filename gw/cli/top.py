"""`gw top`: the traffic of the last minute, model by model, refreshed every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from gw.cli.backend import Backend, backend_options
from gw.cli.output import Cell, duration, money, ms, print_json, print_table, table_of, usd
from gw.cli.parsers import SECONDS
from gw.cli.resource import json_option

if TYPE_CHECKING:
    from rich.console import RenderableType

LAST_S = 60
LOG_LIMIT = 1_000
LATEST = 8
"""Number of requests shown below the models."""


@attrs.frozen(kw_only=True)
class ModelRow:
    """One model in the last minute. `ttfb_ms` is the median."""

    model: str
    requests: int
    errors: int
    fallbacks: int
    ttfb_ms: float | None
    cost_usd: float


@attrs.frozen(kw_only=True)
class Snapshot:
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
@click.option("--every", type=SECONDS, default=2.0, show_default=True, metavar="SECONDS", help="Refresh interval.")
@click.option("--once", is_flag=True, help="Print once and exit, as in a pipe.")
@json_option("Print once, as a JSON object.")
@backend_options
def top(every: float, once: bool, as_json: bool, backend: Backend) -> None:
    """Show the traffic of the last minute, model by model.

    Ctrl-C ends it. Needs a running gateway, and its admin token where it has one.
    """
    if as_json:
        print_json(snapshot(backend).as_json())
    elif once or not sys.stdout.isatty():
        print_table(COLUMNS, [_row(model) for model in snapshot(backend).models])
    else:
        _watch(backend, every)


def snapshot(backend: Backend) -> Snapshot:
    records = backend.get("/v1/logs", limit=LOG_LIMIT)
    recent = [record for record in records if record["timestamp"] > time.time() - LAST_S]
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for record in recent:
        by_model.setdefault(record["model_id"], []).append(record)
    busiest_first = sorted(by_model.items(), key=lambda item: (-len(item[1]), item[0]))
    return Snapshot(
        health=backend.get("/health"),
        overview=backend.get("/api/overview"),
        models=tuple(_model_row(model, group) for model, group in busiest_first),
        latest=records[:LATEST],
    )


def _model_row(model: str, records: Sequence[Mapping[str, Any]]) -> ModelRow:
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
    counts = [model.requests, model.errors, model.fallbacks]
    return [model.model, *counts, duration(model.ttfb_ms), money(model.cost_usd)]


def _watch(backend: Backend, every: float) -> None:
    """Refresh until Ctrl-C, then restore the screen."""
    from rich.live import Live

    live = Live(_rendered(snapshot(backend)), screen=True, auto_refresh=False)
    try:
        live.start(refresh=True)  # inside: Ctrl-C may come during the first refresh
        while True:
            time.sleep(every)
            live.update(_rendered(snapshot(backend)), refresh=True)
    finally:
        live.stop()


def _rendered(now: Snapshot) -> RenderableType:
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
