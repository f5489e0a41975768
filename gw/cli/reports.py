"""`gw costs` and `gw logs`: asked of the running gateway, or read from the database when none runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from gw.cli.daemon import Daemon, NoDaemon, daemon_options
from gw.cli.offline import Database
from gw.cli.output import Cell, aside, can_show, ms, print_json, print_table, usd

PERIODS = click.Choice(["today", "week", "month", "all"])
GROUPS = click.Choice(["provider", "model", "project"])
MODALITIES = click.Choice(["stt", "llm", "tts"])
STATUSES = click.Choice(["success", "error", "fallback", "cancelled"])
METER_WIDTH = 10
T = TypeVar("T")


def _ask(daemon: Daemon, online: Callable[[Daemon], T], offline: Callable[[Database], T]) -> T:
    """The answer of the running gateway; without one, what the database holds, which is said on stderr."""
    try:
        return online(daemon)
    except NoDaemon as gone:
        database = Database.configured(gone)
        answer = offline(database)
        aside(f"no gateway answers at {gone.url}; read from {database.path}")
        return answer


@click.command()
@click.option("--period", type=PERIODS, default="today", show_default=True, help="UTC days: 1, the last 7, the last 30.")
@click.option("--project", help="Only this project.")
@click.option("--by", type=GROUPS, default="provider", show_default=True, help="What a row stands for.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
@daemon_options
def costs(period: str, project: str | None, by: str, as_json: bool, url: str | None, key: str) -> None:
    """Show what was spent."""
    query = {"period": period, "project": project}
    daemon = Daemon.at(url, key)
    report = _ask(daemon, lambda d: d.get("/v1/costs", **query), lambda db: db.costs(**query))
    if as_json:
        print_json(report)
        return
    groups: Mapping[str, Any] = report.get(f"by_{by}") or {}
    rows: list[list[Cell]] = [[name, row["requests"], _amount(row["cost"])] for name, row in groups.items()]
    if sys.stdout.isatty() and len(rows) > 1:
        rows.append(["total", sum(row["requests"] for row in groups.values()), usd(report["total"])])
    print_table((by, "requests", "cost"), rows)
    if report.get("unpriced_requests"):
        aside(f"{report['unpriced_requests']} requests to models without a known price are not in this sum")
    if period == "today" and sys.stderr.isatty():
        _show_budgets(daemon, project)


def _amount(cost: float) -> Cell:
    """People read dollars with a sign, programs a number."""
    return usd(cost) if sys.stdout.isatty() else f"{cost:.9f}"


def _show_budgets(daemon: Daemon, only: str | None) -> None:
    """A meter per project with a daily budget, as far as this credential may see them."""
    try:
        listed = daemon.get("/v1/projects")
    except click.ClickException:
        return
    full, empty = ("▓", "░") if can_show(sys.stderr, "▓░") else ("#", "-")
    for project in listed["projects"]:
        budget = project.get("daily_budget") or 0
        if not budget or only not in (None, project["id"]):
            continue
        spent = listed["stats"].get(project["id"], {}).get("cost_today", 0)
        filled = min(METER_WIDTH, round(spent / budget * METER_WIDTH))
        meter = full * filled + empty * (METER_WIDTH - filled)
        aside(f"budget {project['id']}: {usd(spent)} of {usd(budget)}  {meter} {spent / budget:.0%}")


@click.command()
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, help="At most this many.")
@click.option("--project", help="Only this project.")
@click.option("--modality", type=MODALITIES, help="Only this modality.")
@click.option("--status", type=STATUSES, help="Only this outcome.")
@click.option("--json", "as_json", is_flag=True, help="The records as a JSON array.")
@daemon_options
def logs(
    limit: int, project: str | None, modality: str | None, status: str | None, as_json: bool, url: str | None, key: str
) -> None:
    """Show the latest requests, newest first."""
    query = {"limit": limit, "project": project, "modality": modality, "status": status}
    records = _ask(Daemon.at(url, key), lambda d: d.get("/v1/logs", **query), lambda db: db.logs(**query))
    if as_json:
        print_json(records)
        return
    measures = ("ttfb", "total", "cost") if sys.stdout.isatty() else ("ttfb_ms", "total_ms", "cost_usd")
    columns = ("time", "project", "modality", "model", "status", *measures, "id")
    print_table(columns, [_log_row(record) for record in records])


def _log_row(record: Mapping[str, Any]) -> list[Cell]:
    """Times on a terminal carry their unit; in a pipe they are milliseconds, and costs are dollars."""
    at = datetime.fromtimestamp(record["timestamp"], UTC)
    facts: list[Cell] = [record["project"], record["modality"], record["model_id"], record["status"]]
    first, total, cost = record.get("ttfb_ms"), record["total_latency_ms"], record.get("cost_usd")
    if sys.stdout.isatty():
        measures: list[Cell] = ["" if first is None else ms(first), ms(total), usd(cost)]
        return [f"{at:%m-%d %H:%M:%S}", *facts, *measures, record.get("id", "")[:8]]
    exact = None if cost is None else f"{cost:.9f}"
    return [at.isoformat(timespec="milliseconds"), *facts, first, total, exact, record.get("id", "")]
