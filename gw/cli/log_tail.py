"""`gw logs --follow`: the last requests, then each one as it finishes, from the gateway's live events.

The stream is opened before the past is read, so that nothing falls between the two; what both tell is shown once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from gw.cli.daemon import Daemon, DaemonResponse
from gw.cli.log_row import columns, row_of
from gw.cli.main import CommandFailed
from gw.cli.output import aside, print_row
from gw.wire.sse import SseDecoder

LIVE = "/api/live"
WIDTHS = (14, 12, 8, 28, 9, 8, 8, 10, 8)
"""Of the columns on a terminal, where rows that are still to come cannot be measured."""
FILTERED = {"project": "project", "modality": "modality", "model": "model_id", "status": "status"}
"""Filter → member of a record."""


def follow(daemon: Daemon, filters: Mapping[str, str | None], limit: int, *, as_json: bool) -> None:
    """Until Ctrl-C. Raises Failed when the gateway stops, or drops a reader that is too slow."""
    with daemon.open("GET", LIVE) as stream:
        past = daemon.get("/v1/logs", limit=limit, **filters)
        if not as_json:
            print_row(columns(), WIDTHS)
        for record in reversed(past):
            _show(record, as_json)
        shown = {record["id"] for record in past}
        for record in _finished(stream):
            if record["id"] not in shown and all(_passes(record, name, filters[name]) for name in FILTERED):
                _show(record, as_json)
            shown.discard(record["id"])
    raise CommandFailed("the gateway has ended the stream")


def _passes(record: Mapping[str, Any], name: str, wanted: str | None) -> bool:
    return wanted is None or record[FILTERED[name]] == wanted


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
