"""`gw logs`: the latest requests; with `--follow` also each further one as it finishes, from the gateway's live events.

The stream is opened before the log is read, so that no request falls between the two; one that comes from both is shown
once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import click

from gw.cli.backend import Backend, DaemonResponse, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import Cell, aside, duration, money, print_answer, print_row, timestamp, with_units
from gw.cli.resource import MODALITY, json_option
from gw.wire.sse import SseDecoder

FOLLOWED = 10
"""Records shown before those that `--follow` waits for."""
WIDTHS = (14, 12, 8, 28, 9, 8, 8, 10, 8)
"""Widths of the columns on a terminal, since rows to come cannot be measured."""
FILTERED = {"project": "project", "modality": "modality", "model": "model_id", "status": "status"}
"""Filter → member of a record."""


@click.command()
@click.option("-f", "--follow", "following", is_flag=True, help="Continue with each request as it finishes, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1, 1_000), help=f"At most this many.  [default: 100, with --follow {FOLLOWED}]")
@click.option("--project", help="Only this project.")
@click.option("--modality", type=MODALITY, help="Only this modality.")
@click.option("--model", help="Only this model id.")
@click.option("--status", type=click.Choice(["success", "error", "fallback", "cancelled"]), help="Only this outcome.")
@json_option("The records as a JSON array; with --follow one object per line.")
@backend_options
def logs(following: bool, limit: int | None, as_json: bool, backend: Backend, **filters: Any) -> None:
    """Show the latest requests, newest first.

    With --follow the newest comes last and each request is shown as it finishes; that needs a running gateway.

    \b
    gw logs --status error --limit 20
    gw logs --follow --project shop
    """
    if following:
        _follow(backend, filters, limit or FOLLOWED, as_json)
    records = backend.read("/v1/logs", records=True, limit=limit or 100, **filters)
    print_answer(records, _columns(), map(_row, records), as_json=as_json)


def _columns() -> tuple[str, ...]:
    return ("time", "project", "modality", "model", "status", *with_units("ttfb", "total", "cost"), "id")


def _row(record: Mapping[str, Any]) -> list[Cell]:
    facts: list[Cell] = [record[name] for name in ("project", "modality", "model_id", "status")]
    times = [duration(record.get("ttfb_ms")), duration(record["total_latency_ms"])]
    id_ = record.get("id", "")[: 8 if sys.stdout.isatty() else None]
    return [timestamp(record["timestamp"]), *facts, *times, money(record.get("cost_usd")), id_]


def _follow(backend: Backend, filters: Mapping[str, str | None], limit: int, as_json: bool) -> NoReturn:
    """Print records until Ctrl-C. Raises CommandFailed when the gateway stops, or drops a reader that is too slow."""
    with backend.open("GET", "/api/live") as stream:
        latest = backend.get("/v1/logs", limit=limit, **filters)
        if not as_json:
            print_row(_columns(), WIDTHS)
        for record in reversed(latest):
            _show(record, as_json)
        shown = {record["id"] for record in latest}
        for record in _finished(stream):
            passes = all(filters[name] in (None, record[member]) for name, member in FILTERED.items())
            if record["id"] not in shown and passes:
                _show(record, as_json)
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


def _show(record: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(record, ensure_ascii=False))
    else:
        print_row(_row(record), WIDTHS)
    sys.stdout.flush()
