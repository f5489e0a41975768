"""`gw logs --follow`: the last requests, then each one as it finishes, from the gateway's live events.

The stream is opened before the log is read, so that no request falls between the two; one that comes from both is shown
once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from gw.cli.backend import Backend, DaemonResponse
from gw.cli.log_row import columns, row_of
from gw.cli.main import CommandFailed
from gw.cli.output import aside, print_row
from gw.wire.sse import SseDecoder

LIVE = "/api/live"
WIDTHS = (14, 12, 8, 28, 9, 8, 8, 10, 8)
"""Widths of the columns on a terminal, since rows to come cannot be measured."""
FILTERED = {"project": "project", "modality": "modality", "model": "model_id", "status": "status"}
"""Filter → member of a record."""


def follow(backend: Backend, filters: Mapping[str, str | None], limit: int, *, as_json: bool) -> None:
    """Print records until Ctrl-C. Raises CommandFailed when the gateway stops, or drops a reader that is too slow."""
    with backend.open("GET", LIVE) as stream:
        latest = backend.get("/v1/logs", limit=limit, **filters)
        if not as_json:
            print_row(columns(), WIDTHS)
        for record in reversed(latest):
            _show(record, as_json)
        shown = {record["id"] for record in latest}
        for record in _finished(stream):
            if record["id"] not in shown and _passes(record, filters):
                _show(record, as_json)
            shown.discard(record["id"])
    raise CommandFailed("the gateway has ended the stream")


def _passes(record: Mapping[str, Any], filters: Mapping[str, str | None]) -> bool:
    return all(filters[name] in (None, record[member]) for name, member in FILTERED.items())


def _finished(stream: DaemonResponse) -> Iterator[Mapping[str, Any]]:
    decoder = SseDecoder()
    for chunk in stream.chunks():
        for event in decoder.feed(chunk):
            if event.event == "finished":
                yield json.loads(event.data)
            elif event.event == "dropped":
                aside(f"too slow: {json.loads(event.data)['missed']} events were missed")


def _show(record: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(record, ensure_ascii=False))
    else:
        print_row(row_of(record), WIDTHS)
    sys.stdout.flush()
