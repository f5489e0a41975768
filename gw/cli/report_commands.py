"""`gw costs`, `gw latency` and `gw logs`: asked of the running gateway, or read from the database when none runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from gw.cli import log_tail
from gw.cli.backend import ask
from gw.cli.daemon import Daemon, daemon_options
from gw.cli.log_row import columns, row_of
from gw.cli.output import Cell, aside, can_show, ms, print_json, print_table, usd

PERIODS = click.Choice(["today", "week", "month", "all"])
LATENCY_PERIODS = click.Choice(["today", "week", "month"])
GROUPS = click.Choice(["provider", "model", "project"])
MODALITIES = click.Choice(["stt", "llm", "tts"])
STATUSES = click.Choice(["success", "error", "fallback", "cancelled"])
METER_WIDTH = 10
FOLLOWED = 10
"""Records shown before those that `--follow` waits for."""


@click.command()
@click.option("--period", type=PERIODS, default="today", show_default=True, help="UTC days: 1, the last 7, the last 30.")
@click.option("--project", help="Only this project.")
@click.option("--by", type=GROUPS, default="provider", show_default=True, help="What a row stands for.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
@daemon_options
def costs(period: str, project: str | None, by: str, as_json: bool, url: str | None, key: str) -> None:
    """Show what was spent.

    \b
    gw costs --period month --by project
    gw costs --json | jq .total
    """
    query = {"period": period, "project": project}
    daemon = Daemon.at(url, key)
    report = ask(daemon, lambda d: d.get("/v1/costs", **query), lambda db: db.costs(**query), records=True)
    if as_json:
        print_json(report)
        return
    groups: Mapping[str, Any] = report.get(f"by_{by}") or {}
    rows: list[list[Cell]] = [[name, row["requests"], _amount(row["cost"])] for name, row in groups.items()]
    if sys.stdout.isatty() and len(rows) > 1:
        rows.append(["total", sum(row["requests"] for row in groups.values()), usd(report["total"])])
    print_table((by, "requests", "cost"), rows)
    if report.get("wasted"):
        aside(f"of that {usd(report['wasted'])} for what nobody heard or read")
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
@click.option("--period", type=LATENCY_PERIODS, default="today", show_default=True, help="UTC days: 1, the last 7, the last 30.")
@click.option("--project", help="Only this project.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
@daemon_options
def latency(period: str, project: str | None, as_json: bool, url: str | None, key: str) -> None:
    """Show how fast each model answers: mean and percentiles.

    ttfb is the time to the first byte of content, total the time to the last one. In a pipe all times are milliseconds.

    \b
    gw latency --period week
    """
    query = {"period": period, "project": project}
    report: Mapping[str, Any] = ask(
        Daemon.at(url, key), lambda d: d.get("/v1/latency", **query), lambda db: db.latency(**query), records=True
    )
    if as_json:
        print_json(report)
        return
    names = [f"{what} {which}" for what in ("ttfb", "total") for which in ("mean", "p50", "p95", "p99")]
    if not sys.stdout.isatty():
        names = [name.replace(" ", "_") + "_ms" for name in names]
    print_table(("model", "requests", *names), [_latency_row(model, facts) for model, facts in report.items()])


def _latency_row(model: str, facts: Mapping[str, Any]) -> list[Cell]:
    times = []
    for mean, spread in (("avg_ttfb_ms", "ttfb_percentiles"), ("avg_latency_ms", "latency_percentiles")):
        times += [facts[mean], *(facts[spread][which] for which in ("p50", "p95", "p99"))]
    if sys.stdout.isatty():
        times = [None if value is None else ms(value) for value in times]
    return [model, facts["request_count"], *times]


@click.command()
@click.option("-f", "--follow", "following", is_flag=True, help="Go on with each request as it finishes, until Ctrl-C.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), help=f"At most this many.  [default: 100, with --follow {FOLLOWED}]"
)
@click.option("--project", help="Only this project.")
@click.option("--modality", type=MODALITIES, help="Only this modality.")
@click.option("--model", help="Only this model id.")
@click.option("--status", type=STATUSES, help="Only this outcome.")
@click.option("--json", "as_json", is_flag=True, help="The records as a JSON array; with --follow one object a line.")
@daemon_options
def logs(
    following: bool,
    limit: int | None,
    project: str | None,
    modality: str | None,
    model: str | None,
    status: str | None,
    as_json: bool,
    url: str | None,
    key: str,
) -> None:
    """Show the latest requests, newest first.

    With --follow the newest comes last, and each request is shown as it finishes; that takes a running gateway.

    \b
    gw logs --status error --limit 20
    gw logs --follow --project shop
    """
    filters = {"project": project, "modality": modality, "model": model, "status": status}
    daemon = Daemon.at(url, key)
    if following:
        log_tail.follow(daemon, filters, limit or FOLLOWED, as_json=as_json)
        return
    query = {"limit": limit or 100, **filters}
    records = ask(daemon, lambda d: d.get("/v1/logs", **query), lambda db: db.logs(**query), records=True)
    if as_json:
        print_json(records)
        return
    print_table(columns(), [row_of(record) for record in records])
