"""`gw top`: the traffic of the last minute, model by model, refreshed every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import click

from gw.cli.backend import Backend, backend_options
from gw.cli.output import duration, money, ms, table_of, usd
from gw.cli.parsers import SECONDS
from gw.cli.resource import Columns, Json, json_option, print_entries, rows_of

if TYPE_CHECKING:
    from rich.console import RenderableType

LAST_S = 60
LOG_LIMIT = 1_000
LATEST = 8
"""Number of requests shown below the models."""


COLUMNS: Columns = {
    "model": "model", "requests": "requests", "errors": "errors", "fallbacks": "fallbacks",
    "ttfb": lambda row: duration(row["ttfb_ms"]), "cost": lambda row: money(row["cost_usd"]),
}  # fmt: skip


@attrs.frozen(kw_only=True)
class Snapshot:
    """`models`: a row for each model of the last minute, the busiest first. `latest`: the newest requests."""

    health: Json
    overview: Json
    models: Sequence[Json]
    latest: Sequence[Json]

    def as_json(self) -> Json:
        today = self.overview["today"]
        return {
            "uptime_seconds": self.health["uptime_seconds"],
            "running": self.overview["active_requests"],
            "requests_today": today["requests"],
            "errors_today": today["errors"],
            "cost_today": today["cost"],
            "last_minute": self.models,
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
    if as_json or once or not sys.stdout.isatty():
        now = snapshot(backend)
        print_entries(now.as_json(), now.models, COLUMNS, as_json=as_json)
    else:
        _watch(backend, every)


def snapshot(backend: Backend) -> Snapshot:
    records = backend.get("/v1/logs", limit=LOG_LIMIT)
    by_model: dict[str, list[Json]] = {}
    for record in records:
        if record["timestamp"] > time.time() - LAST_S:
            by_model.setdefault(record["model_id"], []).append(record)
    busiest_first = sorted(by_model.items(), key=lambda item: (-len(item[1]), item[0]))
    return Snapshot(
        health=backend.get("/health"),
        overview=backend.get("/api/overview"),
        models=[_model_row(model, group) for model, group in busiest_first],
        latest=records[:LATEST],
    )


def _model_row(model: str, records: Sequence[Json]) -> Json:
    """Return one model in the last minute. `ttfb_ms` is the median."""
    times = sorted(record["ttfb_ms"] for record in records if record.get("ttfb_ms") is not None)
    return {
        "model": model,
        "requests": len(records),
        "errors": sum(record["status"] == "error" for record in records),
        "fallbacks": sum(record["status"] == "fallback" for record in records),
        "ttfb_ms": times[len(times) // 2] if times else None,
        "cost_usd": sum(record.get("cost_usd") or 0 for record in records),
    }


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
        table_of(tuple(COLUMNS), rows_of(COLUMNS, now.models)),
        Text(""),
        table_of(("latest", "status", "total"), latest),
    )
