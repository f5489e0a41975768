"""`gw request` and `gw session`: one request, or all requests of one conversation, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.main import CommandFailed
from gw.cli.output import Cell, aside, duration, ms, print_answer, print_json, print_table, timestamp, usd, with_units
from gw.cli.report_commands import money_of, short_id
from gw.cli.resource import from_backend

_ID_CHARACTERS = 32
_MOST = 1_000

Record = Mapping[str, Any]


@click.command()
@click.argument("id_", metavar="ID")
@from_backend("The complete record as JSON.")
def request(id_: str, as_json: bool, backend: Backend) -> None:
    """Show one request: its outcome, times and cost, and each attempt.

    ID is a request's id, as in X-Request-Id, or as much of its beginning or end as no other id has. `gw logs` shows the end.

    \b
    gw request 861b9c
    """
    record = backend.read(f"/v1/requests/{_whole_id(backend, id_)}", records=True)
    if as_json:
        print_json(record)
        return
    print_table(("what", "value"), [row for row in _facts(record) if row[1] not in (None, "")])
    click.echo()
    print_table(("attempt", "outcome", *with_units("start", "ttfb", "total"), "detail"), [*_attempts(record)])


def _whole_id(backend: Backend, part: str) -> str:
    if len(part) >= _ID_CHARACTERS:
        return part
    found = [record["id"] for record in backend.read("/v1/logs", records=True, q=part, limit=3)]
    if not found:
        raise CommandFailed(f"no request has an id that begins or ends with {part!r}")
    if len(found) > 1:
        raise CommandFailed(f"several ids begin or end with {part!r}, such as {' and '.join(found[:2])}: give more of it")
    return str(found[0])


def _facts(record: Record) -> Iterator[tuple[str, Cell]]:
    usage = record["usage"]
    yield "id", record["id"]
    yield "time", timestamp(record["timestamp"])
    yield "project", record["project"]
    yield "endpoint", record["endpoint"]
    yield "requested", record["requested_model"]
    yield "answered by", record["model_id"]
    yield "status", record["status"]
    yield "error", record["error_code"]
    yield "session", record["session_id"]
    yield "turn", record["turn_id"]
    yield "first content", None if record["ttfb_ms"] is None else ms(record["ttfb_ms"])
    yield "whole answer", ms(record["total_latency_ms"])
    yield "of it in gw", None if record["gateway_ms"] is None else ms(record["gateway_ms"])
    yield "units", f"{record['input_units']:g} in, {record['output_units']:g} out ({record['unit']}, {usage['source']})"
    yield "cost", f"{usd(record['cost_usd'])} ({record['pricing_source'] or 'no price'})"
    if record["wasted_usd"]:
        yield "wasted", f"{usd(record['wasted_usd'])} for what reached nobody"


def _attempts(record: Record) -> Iterator[Sequence[Cell]]:
    for attempt in record["attempts"]:
        detail = [text for text in (attempt["error_code"], attempt["detail"]) if text]
        if attempt["upstream_status"]:
            detail.append(f"HTTP {attempt['upstream_status']}")
        if attempt["ignored_settings"]:
            detail.append(f"without {', '.join(attempt['ignored_settings'])}")
        if attempt["lost_s"]:
            detail.append(f"{attempt['lost_s']:g} s of speech lost")
        times = (attempt["started_ms"], attempt["ttfb_ms"], attempt["duration_ms"])
        yield (attempt["model_id"], attempt["outcome"], *map(duration, times), "; ".join(detail))


@click.command()
@click.argument("id_", metavar="ID")
@click.option("--project", help="Only this project, where several have a session with this id.")
@from_backend("The records as a JSON array, the oldest first.")
def session(id_: str, project: str | None, as_json: bool, backend: Backend) -> None:
    """Show the requests of one conversation in order, and what it cost in all.

    \b
    gw session call-4711
    """
    records = backend.read("/v1/logs", records=True, session=id_, project=project, limit=_MOST)[::-1]
    if not records:
        raise CommandFailed(f"no request has the session {id_!r}; `gw logs` shows the latest requests")
    columns = ("time", "turn", "model", "status", *with_units("ttfb", "total", "cost"), "id")
    print_answer(records, columns, map(_step, records), as_json=as_json, optional=("turn",))
    if as_json:
        return
    if len(records) == _MOST:
        aside(f"only the newest {_MOST} requests are shown")
    for line in _summary(records):
        aside(line)


def _step(record: Record) -> list[Cell]:
    facts = [timestamp(record["timestamp"]), short_id(record["turn_id"] or ""), record["model_id"], record["status"]]
    times = [duration(record["ttfb_ms"]), duration(record["total_latency_ms"])]
    return [*facts, *times, money_of(record), short_id(record["id"])]


def _summary(records: Sequence[Record]) -> Iterator[str]:
    turns = {record["turn_id"] for record in records if record["turn_id"]}
    last = records[-1]
    lasted_s = last["timestamp"] + last["total_latency_ms"] / 1_000 - records[0]["timestamp"]
    yield f"{len(records)} requests, {len(turns)} turns, {lasted_s:.1f} s"
    unpriced = sum(record["cost_usd"] is None for record in records)
    known = usd(sum(record["cost_usd"] or 0 for record in records))
    yield f"cost {known}" + (f", and {unpriced} requests without a known price" if unpriced else "")
    if wasted := sum(record["wasted_usd"] or 0 for record in records):
        yield f"of that, {usd(wasted)} was spent on answers that nobody received"
    troubles = {name: sum(record["status"] == name for record in records) for name in ("fallback", "error", "cancelled")}
    if any(troubles.values()):
        yield ", ".join(f"{count} {name}" for name, count in troubles.items() if count)
