"""`gw status`: does the gateway run, is it well, and what does it hold."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from gw.cli.daemon import Daemon, DaemonRefused, NoDaemon, daemon_options
from gw.cli.main import FAILED
from gw.cli.output import Cell, aside, ms, print_json, print_table, usd
from gw.cli.parsers import SECONDS

Facts = Mapping[str, Any]


@click.command()
@click.option("-q", "--quiet", is_flag=True, help="Say nothing: the exit code tells.")
@click.option("--watch", type=SECONDS, metavar="SECONDS", help="Again and again, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="As a JSON object.")
@daemon_options
@click.pass_context
def status(ctx: click.Context, quiet: bool, watch: float | None, as_json: bool, url: str | None, key: str) -> None:
    """Show whether the gateway runs, and what it holds.

    Exit code 0: it runs and takes requests; 1: it does not. Without a gateway, what is configured is shown. Good as the
    health check of a container: `gw status --quiet`.

    \b
    gw status
    gw status --watch 5
    """
    daemon = Daemon.at(url, key)
    while True:
        ready = _once(daemon, quiet=quiet, as_json=as_json)
        if watch is None:
            ctx.exit(0 if ready else FAILED)
        sys.stdout.flush()
        time.sleep(watch)


def _once(daemon: Daemon, *, quiet: bool, as_json: bool) -> bool:
    """Show it; whether it takes requests."""
    try:
        ready, why = _ready(daemon)
        if quiet:
            return ready
        facts = {"running": True, "ready": ready, "url": daemon.url, "why": why, **_running(daemon)}
    except NoDaemon as gone:
        if quiet:
            return False
        from gw.admin import listings
        from gw.cli.offline import Database  # most of gw, for when it does not run

        database = Database.configured(gone, records=False)
        aside(f"no gateway answers at {gone.url}; read from {database.origin}")
        ready = False
        facts = {"running": False, "ready": False, "url": gone.url, "status": database.listed(listings.status)}
    if as_json:
        print_json(facts)
    else:
        print_table(("what", "value"), _rows(facts))
    return ready


def _ready(daemon: Daemon) -> tuple[bool, str]:
    """Whether it takes requests; if not, why."""
    try:
        answer: Facts = daemon.get("/ready")
    except DaemonRefused as refused:
        if refused.http_status != 503:
            raise
        return False, "it drains, or its records could be lost (see its log)"
    return answer["status"] == "ready", ""


def _running(daemon: Daemon) -> dict[str, Any]:
    """As far as this credential may see; health needs none."""
    found: dict[str, Any] = {"health": daemon.get("/health")}
    try:
        found["status"] = daemon.get("/v1/status")
        found["overview"] = daemon.get("/api/overview")
    except DaemonRefused as refused:
        if refused.http_status not in (401, 403):
            raise
        aside(f"the rest needs the admin token: {refused.message}")
    return found


def _rows(facts: Facts) -> list[list[Cell]]:
    health, held = facts.get("health") or {}, facts.get("status") or {}
    state = "ready" if facts["ready"] else f"not ready: {facts['why']}" if facts["running"] else "not running"
    rows: list[list[Cell]] = [["gateway", state], ["address", facts["url"]]]
    if health:
        uptime = health["uptime_seconds"]
        rows += [["version", health["version"]], ["uptime", _long(uptime) if sys.stdout.isatty() else uptime]]
    if held:
        rows += [["models", held["model_count"]], ["projects", held["project_count"]]]
        for name, entry in held["providers"].items():
            state = "configured" if entry["configured"] else "no key"
            rows.append([f"provider {name}", f"{state} ({entry['type']})"])
    if overview := facts.get("overview"):
        rows += _today(overview)
    return rows


def _today(overview: Facts) -> list[list[Cell]]:
    today = overview["today"]
    p50 = today["ttfb"]["p50"]
    for_people = sys.stdout.isatty()
    rows: list[list[Cell]] = [
        ["running now", overview["active_requests"]],
        ["requests today", today["requests"]],
        ["errors today", today["errors"]],
        ["cost today", usd(today["cost"]) if for_people else f"{today['cost']:.9f}"],
        ["ttfb p50 today", None if p50 is None else ms(p50) if for_people else p50],
    ]
    for budget in overview["budgets"]:
        if budget["daily_budget"]:
            share = f"{budget['share']:.0%} of {usd(budget['daily_budget'])}, {budget['budget_status']}"
            rows.append([f"budget {budget['project']}", share])
    return rows


def _long(seconds: float) -> str:
    """`3 d 4 h`, `12 min`, `40 s`."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3_600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
