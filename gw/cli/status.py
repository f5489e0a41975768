"""`gw status`: does the gateway run, is it well, and what does it hold."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from gw.cli.backend import Backend, DaemonRefused, NoDaemon, backend_options
from gw.cli.main import FAILED
from gw.cli.output import Cell, aside, duration, money, print_json, print_table, usd
from gw.cli.parsers import SECONDS
from gw.cli.resource import json_option

Facts = Mapping[str, Any]


@click.command()
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--watch", type=SECONDS, metavar="SECONDS", help="Repeat at this interval, until Ctrl-C.")
@json_option("As a JSON object.")
@backend_options
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
    if as_json:
        print_json(facts)
    else:
        print_table(("what", "value"), _rows(facts))
    return ready


def _readiness(backend: Backend) -> tuple[bool, str]:
    """Return whether the gateway accepts requests; if not, why."""
    try:
        answer: Facts = backend.get("/ready")
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


def _rows(facts: Facts) -> list[list[Cell]]:
    health, status = facts.get("health") or {}, facts.get("status") or {}
    state = "ready" if facts["ready"] else f"not ready: {facts['why']}" if facts["running"] else "not running"
    rows: list[list[Cell]] = [["gateway", state], ["address", facts["url"]]]
    if health:
        uptime = health["uptime_seconds"]
        rows += [["version", health["version"]], ["uptime", _rounded(uptime) if sys.stdout.isatty() else uptime]]
    if status:
        rows += [["models", status["model_count"]], ["projects", status["project_count"]]]
        for name, entry in status["providers"].items():
            state = "configured" if entry["configured"] else "no key"
            rows.append([f"provider {name}", f"{state} ({entry['type']})"])
    if overview := facts.get("overview"):
        rows += _today(overview)
    return rows


def _today(overview: Facts) -> list[list[Cell]]:
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
