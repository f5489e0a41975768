"""`gw costs` and `gw latency`: reports of the running gateway, or from the database when none runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import starmap
from typing import Any

import click

from gw.cli.backend import Backend, backend_options
from gw.cli.output import Cell, aside, can_show, duration, money, print_answer, print_json, print_table, usd, with_units
from gw.cli.resource import Option, json_option

PERIODS = ("today", "week", "month", "all")
METER_WIDTH = 10


def _period_option(*periods: str) -> Option:
    help_text = "UTC days: today, the last 7, the last 30."
    return click.option("--period", type=click.Choice(periods), default="today", show_default=True, help=help_text)


@click.command()
@_period_option(*PERIODS)
@click.option("--project", help="Only this project.")
@click.option(
    "--by", type=click.Choice(["provider", "model", "project"]), default="provider", show_default=True,
    help="One row for each of these.",
)  # fmt: skip
@json_option("The complete report as JSON.")
@backend_options
def costs(period: str, project: str | None, by: str, as_json: bool, backend: Backend) -> None:
    """Show what was spent.

    \b
    gw costs --period month --by project
    gw costs --json | jq .total
    """
    report = backend.read("/v1/costs", records=True, period=period, project=project)
    if as_json:
        print_json(report)
        return
    groups: Mapping[str, Any] = report.get(f"by_{by}") or {}
    rows: list[list[Cell]] = [[name, row["requests"], money(row["cost"])] for name, row in groups.items()]
    if sys.stdout.isatty() and len(rows) > 1:
        rows.append(["total", sum(row["requests"] for row in groups.values()), usd(report["total"])])
    print_table((by, "requests", "cost"), rows)
    if report.get("wasted"):
        aside(f"of that, {usd(report['wasted'])} was spent on answers that nobody received")
    if report.get("unpriced_requests"):
        aside(f"{report['unpriced_requests']} requests to models without a known price are not included in the total")
    if period == "today" and sys.stderr.isatty():
        _show_budgets(backend, project)


def _show_budgets(backend: Backend, only: str | None) -> None:
    """Show a meter for each project with a daily budget, as far as this credential may see them."""
    try:
        answer = backend.get("/v1/projects")
    except click.ClickException:
        return
    full, empty = ("▓", "░") if can_show(sys.stderr, "▓░") else ("#", "-")
    for project in answer["projects"]:
        budget = project.get("daily_budget") or 0
        if not budget or only not in (None, project["id"]):
            continue
        spent = answer["stats"].get(project["id"], {}).get("cost_today", 0)
        filled = min(METER_WIDTH, round(spent / budget * METER_WIDTH))
        meter = full * filled + empty * (METER_WIDTH - filled)
        aside(f"budget {project['id']}: {usd(spent)} of {usd(budget)}  {meter} {spent / budget:.0%}")


@click.command()
@_period_option(*PERIODS[:-1])
@click.option("--project", help="Only this project.")
@json_option("The complete report as JSON.")
@backend_options
def latency(period: str, project: str | None, as_json: bool, backend: Backend) -> None:
    """Show how fast each model answers: mean and percentiles.

    ttfb is the time to the first byte of content, total the time to the last one. In a pipe all times are milliseconds.

    \b
    gw latency --period week
    """
    report: Mapping[str, Any] = backend.read("/v1/latency", records=True, period=period, project=project)
    names = with_units(*(f"{time} {measure}" for time in ("ttfb", "total") for measure in ("mean", "p50", "p95", "p99")))
    print_answer(report, ("model", "requests", *names), starmap(_latency_row, report.items()), as_json=as_json)


def _latency_row(model: str, row: Mapping[str, Any]) -> list[Cell]:
    cells: list[Cell] = [model, row["request_count"]]
    for mean, percentiles in (("avg_ttfb_ms", "ttfb_percentiles"), ("avg_latency_ms", "latency_percentiles")):
        cells += map(duration, (row[mean], *(row[percentiles][name] for name in ("p50", "p95", "p99"))))
    return cells
