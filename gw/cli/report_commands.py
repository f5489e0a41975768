"""`gw costs`, `gw latency` and `gw logs`: reports of the running gateway, or from the database when none runs.

`gw logs --follow` shows each further request as it finishes, from the gateway's live events. The stream is opened before
the log is read, so that no request falls between the two; one that comes from both is shown once.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, NoReturn

import click

from gw.cli.backend import Backend, DaemonResponse
from gw.cli.main import CommandFailed
from gw.cli.output import (
    Cell,
    aside,
    can_show,
    duration,
    fitting,
    json_text,
    money,
    print_answer,
    print_row,
    timestamp,
    usd,
    with_units,
)
from gw.cli.resource import MODALITY, Option, from_backend
from gw.wire.sse import SseDecoder

PERIODS = ("today", "week", "month", "all")
METER_WIDTH = 10
_DURATION = re.compile(r"(\d{1,6})([smhd])")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SHORT_ID = 6
FOLLOWED = 10  # records shown before those that `--follow` waits for
WIDTHS = (14, 12, 8, 28, 9, 8, 8, 10, 6)  # widths of the columns on a terminal, since rows to come cannot be measured
_OPTIONAL = ("modality", "project", "total")  # columns that a narrow terminal can do without, the first first
_OPTIONAL_NUMBERS = (2, 1, 6)
FILTERED = {
    "project": "project", "modality": "modality", "model": "model_id", "status": "status", "session": "session_id", "turn": "turn_id",
}
"""Filter → member of a record."""


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
@from_backend("The complete report as JSON.")
def costs(period: str, project: str | None, by: str, as_json: bool, backend: Backend) -> None:
    """Show what was spent.

    \b
    gw costs --period month --by project
    gw costs --json | jq .total
    """
    report = backend.read("/v1/costs", records=True, period=period, project=project)
    groups: Mapping[str, Any] = report.get(f"by_{by}") or {}
    rows: list[list[Cell]] = [[name, row["requests"], money(row["cost"])] for name, row in groups.items()]
    if sys.stdout.isatty() and len(rows) > 1:
        rows.append(["total", sum(row["requests"] for row in groups.values()), usd(report["total"])])
    print_answer(report, (by, "requests", "cost"), rows, as_json=as_json)
    if as_json:
        return
    if report.get("wasted"):
        aside(f"of that, {usd(report['wasted'])} was spent on answers that nobody received")
    if report.get("saved"):
        aside(f"{usd(report['saved'])} more was saved by the phrase cache")
    if report.get("unpriced_requests"):
        estimate = f"; budgets count {usd(report['unpriced_estimate'])} for them" if report.get("unpriced_estimate") else ""
        aside(f"{report['unpriced_requests']} requests to models without a known price are not included in the total{estimate}")
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
@from_backend("The complete report as JSON.")
def latency(period: str, project: str | None, as_json: bool, backend: Backend) -> None:
    """Show how fast each model answers: mean and percentiles.

    ttfb is the time to the first byte of content, total the time to the last one. In a pipe all times are milliseconds.

    \b
    gw latency --period week
    """
    report: Mapping[str, Any] = backend.read("/v1/latency", records=True, period=period, project=project)
    names = with_units(*(f"{time} {measure}" for time in ("ttfb", "total") for measure in ("mean", "p50", "p95", "p99")))
    optional = with_units("ttfb mean", "total mean", "total p99", "ttfb p99", "total p50")
    rows = starmap(_latency_row, report.items())
    print_answer(report, ("model", "requests", *names), rows, as_json=as_json, optional=optional)


def _latency_row(model: str, row: Mapping[str, Any]) -> list[Cell]:
    cells: list[Cell] = [model, row["request_count"]]
    for mean, percentiles in (("avg_ttfb_ms", "ttfb_percentiles"), ("avg_latency_ms", "latency_percentiles")):
        cells += map(duration, (row[mean], *(row[percentiles][name] for name in ("p50", "p95", "p99"))))
    return cells


@click.command()
@click.option("-f", "--follow", "following", is_flag=True, help="Continue with each request as it finishes, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1, 1_000), help=f"At most this many.  [default: 100, with --follow {FOLLOWED}]")
@click.option("--project", help="Only this project.")
@click.option("--modality", type=MODALITY, help="Only this modality.")
@click.option("--model", help="Only this model id.")
@click.option("--session", help="Only this session.")
@click.option("--turn", help="Only this turn.")
@click.option("--search", metavar="TEXT", help="Only ids that begin with this; if there are none, those that end with it.")
@click.option("--since", metavar="TIME", help="Since this time, as 2026-01-31T09:30 (UTC), or for as long: 15m, 2h, 7d.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option("--status", type=click.Choice(["success", "error", "fallback", "cancelled"]), help="Only this outcome.")
@from_backend("The records as a JSON array; with --follow one object per line.")
def logs(
    following: bool, limit: int | None, as_json: bool, backend: Backend, since: str | None, until: str | None,
    search: str | None, **filters: Any,
) -> None:
    """Show the latest requests, newest first.

    With --follow the newest comes last and each request is shown as it finishes; that needs a running gateway.

    \b
    gw logs --status error --limit 20
    gw logs --since 2h --model openai/gpt-5-mini
    gw logs --follow --project shop
    """
    times: dict[str, Any] = {"from": since and moment(since), "to": until and moment(until)}
    if following:
        if any((*times.values(), search)):
            raise click.UsageError("--follow shows requests as they finish: it takes no --since, --until or --search")
        _follow(backend, filters, limit or FOLLOWED, as_json)
    records = backend.read("/v1/logs", records=True, limit=limit or 100, q=search, **times, **filters)
    print_answer(records, _columns(), map(_row, records), as_json=as_json, optional=_OPTIONAL)


def moment(text: str) -> str:
    """Return a time for the API: ISO 8601 as it is, a duration (`90s`, `15m`, `2h`, `7d`) before now in Unix seconds."""
    match = _DURATION.fullmatch(text)
    return f"{time.time() - int(match[1]) * _UNITS_S[match[2]]:.3f}" if match else text


def _columns() -> tuple[str, ...]:
    return ("time", "project", "modality", "model", "status", *with_units("ttfb", "total", "cost"), "id")


def _row(record: Mapping[str, Any]) -> list[Cell]:
    facts: list[Cell] = [record[name] for name in ("project", "modality", "model_id", "status")]
    times = [duration(record.get("ttfb_ms")), duration(record["total_latency_ms"])]
    return [timestamp(record["timestamp"]), *facts, *times, money_of(record), short_id(record.get("id", ""))]


def short_id(id_: str) -> str:
    """Return an id for a table: for people its last characters, since ids of the same minute begin alike."""
    return id_[-_SHORT_ID :] if sys.stdout.isatty() else id_


def money_of(record: Mapping[str, Any]) -> Cell:
    """Return what a request cost."""
    return money(record.get("cost_usd"))


def _follow(backend: Backend, filters: Mapping[str, str | None], limit: int, as_json: bool) -> NoReturn:
    """Print records until Ctrl-C. Raises CommandFailed when the gateway stops, or drops a reader that is too slow."""
    with backend.open("GET", "/api/live") as stream:
        latest = backend.get("/v1/logs", limit=limit, **filters)
        kept = fitting(WIDTHS, _OPTIONAL_NUMBERS)
        if not as_json:
            _print_kept(_columns(), kept)
        for record in reversed(latest):
            _show(record, kept, as_json)
        shown = {record["id"] for record in latest}
        for record in _finished(stream):
            passes = all(filters[name] in (None, record.get(member)) for name, member in FILTERED.items())
            if record["id"] not in shown and passes:
                _show(record, kept, as_json)
            shown.discard(record["id"])
    raise CommandFailed("the gateway has ended the stream")


def _finished(stream: DaemonResponse) -> Iterator[Mapping[str, Any]]:
    decoder = SseDecoder()
    for chunk in stream.http.iter_bytes():
        for event in decoder.feed(chunk):
            if event.event == "finished":
                yield json.loads(event.data)
            elif event.event == "dropped":
                aside(f"too slow: {json.loads(event.data)['missed']} events were missed")


def _print_kept(cells: Sequence[Cell], kept: Sequence[int]) -> None:
    print_row([cells[at] for at in kept], [WIDTHS[at] for at in kept])


def _show(record: Mapping[str, Any], kept: Sequence[int], as_json: bool) -> None:
    if as_json:
        click.echo(json_text(record))
    else:
        _print_kept(_row(record), kept)
    sys.stdout.flush()
