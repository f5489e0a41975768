"""`gw status`: whether the gateway runs and what it holds; `gw top`: its traffic of the last minute, model by model."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from gw.cli.backend import Backend, DaemonRefused, NoDaemon
from gw.cli.main import FAILED
from gw.cli.output import Cell, aside, duration, money, ms, print_answer, table_of, usd
from gw.cli.resource import SECONDS, Columns, Json, from_backend, print_entries, rows_of

if TYPE_CHECKING:
    from rich.console import RenderableType

LAST_S = 60
LOG_LIMIT = 1_000
_EDITIONS = {"compiled": ", compiled", "python": ", pure Python"}
LATEST = 8  # number of requests that `gw top` shows below the models


@click.command()
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--watch", type=SECONDS, metavar="SECONDS", help="Repeat at this interval, until Ctrl-C.")
@from_backend("As a JSON object.")
@click.pass_context
def status(ctx: click.Context, quiet: bool, watch: float | None, as_json: bool, backend: Backend) -> None:
    """Show whether the gateway runs, and what it holds.

    Exit code 0: it runs and accepts requests; 1: it does not. Without a gateway, the configuration is shown. Suits the
    health check of a container: `gw status --quiet`.

    \b
    gw status
    gw status --watch 5
    """
    while True:
        ready = _show(backend, quiet=quiet, as_json=as_json)
        if watch is None:
            ctx.exit(0 if ready else FAILED)
        sys.stdout.flush()
        time.sleep(watch)


def _show(backend: Backend, *, quiet: bool, as_json: bool) -> bool:
    """Show the gateway once. Returns whether it accepts requests."""
    ready = False
    try:
        ready, reason = _readiness(backend)
        if quiet:
            return ready
        facts = {"running": True, "ready": ready, "url": backend.url, "why": reason, **_facts(backend)}
    except NoDaemon as missing:
        if quiet:
            return False
        status = backend.read("/v1/status")
        facts = {"running": False, "ready": False, "url": missing.url, "status": status}
    print_answer(facts, ("what", "value"), _rows(facts), as_json=as_json)
    return ready


def _readiness(backend: Backend) -> tuple[bool, str]:
    """Return whether the gateway accepts requests; if not, why."""
    try:
        answer: Json = backend.get("/ready")
    except DaemonRefused as refused:
        if refused.http_status != 503:
            raise
        return False, "it drains, or its records could be lost (see its log)"
    return answer["status"] == "ready", ""


def _facts(backend: Backend) -> dict[str, Any]:
    """Return as much as this credential may see; health needs none."""
    facts: dict[str, Any] = {"health": backend.get("/health")}
    try:
        facts["status"] = backend.get("/v1/status")
        facts["overview"] = backend.get("/api/overview")
    except DaemonRefused as refused:
        if refused.http_status not in (401, 403):
            raise
        aside(f"more needs the admin token: {refused.message}")
    return facts


def _rows(facts: Json) -> list[list[Cell]]:
    health, status = facts.get("health") or {}, facts.get("status") or {}
    state = "ready" if facts["ready"] else f"not ready: {facts['why']}" if facts["running"] else "not running"
    rows: list[list[Cell]] = [["gateway", state], ["address", facts["url"]]]
    if health:
        uptime = health["uptime_seconds"]
        version = health["version"] + _EDITIONS.get(str(health.get("edition")), "")
        rows += [["version", version], ["uptime", _rounded(uptime) if sys.stdout.isatty() else uptime]]
    if status:
        if facts["running"]:
            rows.append(["journal", _journal(status["journal"])])
        rows += [["models", status["model_count"]], ["projects", status["project_count"]]]
        for name, entry in status["providers"].items():
            state = "configured" if entry["configured"] else "no key"
            rows.append([f"provider {name}", f"{state} ({entry['type']})"])
        rows += [[f"worker {worker['worker']}", _worker(worker)] for worker in status.get("workers") or ()]
    if overview := facts.get("overview"):
        rows += _today(overview)
    return rows


def _journal(journal: Json) -> str:
    """Say how many records wait for the database, and how much room is left for them."""
    used, limit = journal["bytes"] / 1e6, journal["limit_bytes"] / 1e6
    full = "" if journal["keeps_records"] else "; records could be lost"
    return f"{journal['records_waiting']} records wait, {used:.1f} of {limit:.0f} MB{full}"


def _worker(worker: Json) -> str:
    starts = "" if worker["starts"] == 1 else f", started {worker['starts']} times"
    trouble = f"; {worker['trouble']}" if worker["trouble"] else ""
    return f"{worker['state']} (process {worker['pid']}), {worker['in_flight']} running, {worker['requests']} finished{starts}{trouble}"


def _today(overview: Json) -> list[list[Cell]]:
    today = overview["today"]
    rows: list[list[Cell]] = [
        ["running now", overview["active_requests"]],
        ["requests today", today["requests"]],
        ["errors today", today["errors"]],
        ["cost today", money(today["cost"])],
        ["ttfb p50 today", duration(today["ttfb"]["p50"])],
    ]
    for budget in overview["budgets"]:
        if budget["daily_budget"]:
            share = f"{budget['share']:.0%} of {usd(budget['daily_budget'])}, {budget['budget_status']}"
            rows.append([f"budget {budget['project']}", share])
    return rows


def _rounded(seconds: float) -> str:
    """Return `3 d 4 h`, `5 h 12 min`, `12 min` or `40 s`."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3_600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"


COLUMNS: Columns = {
    "model": "model", "requests": "requests", "errors": "errors", "fallbacks": "fallbacks",
    "ttfb": lambda row: duration(row["ttfb_ms"]), "cost": lambda row: money(row["cost_usd"]),
}  # fmt: skip


WORKER_COLUMNS: Columns = {
    "worker": "worker", "state": "state", "process": "pid", "starts": "starts", "running": "in_flight", "connections": "connections",
    "finished": "requests", "cpu": lambda row: f"{row['cpu_s']:.0f} s",
}  # fmt: skip


SLOT_COLUMNS: Columns = {
    "vendor slots": "provider", "model": "model", "in use": "in_use", "of": "most", "known from": "source",
    "age": lambda row: f"{row['age_s']:.0f} s",
}  # fmt: skip


@attrs.frozen
class Snapshot:
    """`summary` has a row for each model of the last minute, the busiest first. `latest`: the newest requests."""

    version: str
    summary: Json
    latest: Sequence[Json]


@click.command()
@click.option("--every", type=SECONDS, default=2.0, show_default=True, metavar="SECONDS", help="Refresh interval.")
@click.option("--once", is_flag=True, help="Print once and exit, as in a pipe.")
@from_backend("Print once, as a JSON object.")
def top(every: float, once: bool, as_json: bool, backend: Backend) -> None:
    """Show the traffic of the last minute, the workers, and the vendors' slots.

    Workers and slots are shown where there are some.

    Ctrl-C ends it. Needs a running gateway, and its admin token where it has one.
    """
    if as_json or once or not sys.stdout.isatty():
        summary = snapshot(backend).summary
        print_entries(summary, summary["last_minute"], COLUMNS, as_json=as_json)
    else:
        _watch(backend, every)


def snapshot(backend: Backend) -> Snapshot:
    records = backend.get("/v1/logs", limit=LOG_LIMIT)
    by_model: dict[str, list[Json]] = {}
    for record in records:
        if record["timestamp"] > time.time() - LAST_S:
            by_model.setdefault(record["model_id"], []).append(record)
    busiest_first = sorted(by_model.items(), key=lambda item: (-len(item[1]), item[0]))
    health, overview, now = backend.get("/health"), backend.get("/api/overview"), backend.get("/v1/status")
    summary = {
        "uptime_seconds": health["uptime_seconds"],
        "running": overview["active_requests"],
        "requests_today": overview["today"]["requests"],
        "errors_today": overview["today"]["errors"],
        "cost_today": overview["today"]["cost"],
        "workers": now["workers"],
        "slots": now["slots"],
        "last_minute": [_model_row(model, group) for model, group in busiest_first],
    }
    return Snapshot(health["version"], summary, records[:LATEST])


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

    head = (
        f"gw {now.version}   running {now.summary['running']}   today {now.summary['requests_today']} requests, "
        f"{now.summary['errors_today']} errors, {usd(now.summary['cost_today'])}"
    )
    models = table_of(tuple(COLUMNS), [*rows_of(COLUMNS, now.summary["last_minute"])])
    latest = [[record["model_id"], record["status"], ms(record["total_latency_ms"])] for record in now.latest]
    parts: list[RenderableType] = [Text(head), "", models]
    if now.summary["workers"]:
        parts += ["", table_of(tuple(WORKER_COLUMNS), [*rows_of(WORKER_COLUMNS, now.summary["workers"])])]
    if now.summary["slots"]:
        parts += ["", table_of(tuple(SLOT_COLUMNS), [*rows_of(SLOT_COLUMNS, now.summary["slots"])])]
    return Group(*parts, "", table_of(("latest", "status", "total"), latest))
