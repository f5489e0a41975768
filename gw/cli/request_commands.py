"""`gw request`, `gw session` and `gw sessions`: one request, all requests of one conversation, or the latest conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.main import CommandFailed
from gw.cli.output import (
    Cell,
    aside,
    duration,
    money,
    ms,
    print_answer,
    print_json,
    print_table,
    timestamp,
    usd,
    with_units,
)
from gw.cli.report_commands import moment, money_of, short_id
from gw.cli.resource import from_backend
from gw.web.control_api import path_with

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
    result = [record["id"] for record in backend.read("/v1/logs", records=True, q=part, limit=3)]
    if not result:
        raise CommandFailed(f"no request has an id that begins or ends with {part!r}")
    if len(result) > 1:
        raise CommandFailed(f"several ids begin or end with {part!r}, such as {' and '.join(result[:2])}: give more of it")
    return str(result[0])


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
        if attempt["route"]:
            detail.append(f"route {attempt['route']}: {attempt['routing']}")
        if attempt["text_characters"] is not None:
            detail.append(f"respelled: the caller's text has {attempt['text_characters']} characters")
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
    whole = backend.read(path_with("/v1/sessions/{}", id_), records=True, project=project)
    for line in _summary(whole):
        aside(line)


def _step(record: Record) -> list[Cell]:
    facts = [timestamp(record["timestamp"]), short_id(record["turn_id"] or ""), record["model_id"], record["status"]]
    times = [duration(record["ttfb_ms"]), duration(record["total_latency_ms"])]
    return [*facts, *times, money_of(record), short_id(record["id"])]


def _summary(session: Record) -> Iterator[str]:
    yield f"{session['requests']} requests, {session['turns']} turns, {session['length_ms'] / 1_000:.1f} s"
    if session["first_audio_p50_ms"] is not None:
        times = (session[f"first_audio_{name}_ms"] for name in ("p50", "p95", "max"))
        yield "first audio p50 {}, p95 {}, longest {}".format(*map(ms, times))
    if session["silence_ms"] is not None:
        yield f"silence {ms(session['silence_ms'])}"
    unpriced = session["unpriced_requests"]
    yield f"cost {usd(session['cost_usd'])}" + (f", and {unpriced} requests without a known price" if unpriced else "")
    if session["wasted_usd"]:
        yield f"of that, {usd(session['wasted_usd'])} was spent on answers that nobody received"
    counts = {name: session[f"{name}s"] for name in ("fallback", "error", "interruption")}
    troubles = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items() if count]
    if troubles:
        yield ", ".join(troubles)
    if session["is_cut"]:
        yield "these are the figures of its first 10,000 requests"


_ORDERS = {
    "length": "length_ms", "turns": "turns", "first-audio": "first_audio_p95_ms", "interruptions": "interruptions",
    "fallbacks": "fallbacks", "errors": "errors", "cost": "cost_usd", "silence": "silence_ms",
}  # fmt: skip


@click.command()
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most this many.")
@click.option("--project", help="Only this project.")
@click.option("--since", metavar="TIME", help="Begun since this time, as 2026-01-31T09:30 (UTC), or for as long: 15m, 2h, 7d.")
@click.option("--until", metavar="TIME", help="Begun before this time.")
@click.option("--trouble", type=click.Choice(["any", "error", "fallback", "interruption"]), help="Only with such a request.")
@click.option("--search", metavar="TEXT", help="Only ids that begin with this.")
@click.option("--sort", type=click.Choice([*_ORDERS]), help="The largest first.  [default: the newest first]")
@from_backend("The sessions as a JSON array.")
def sessions(
    limit: int, project: str | None, since: str | None, until: str | None, trouble: str | None, search: str | None,
    sort: str | None, as_json: bool, backend: Backend,
) -> None:  # fmt: skip
    """Show the latest conversations, and what each cost in all.

    audio p50 and p95 are percentiles of the time to the first audio over a conversation's turns.

    \b
    gw sessions --since 2h --sort first-audio
    gw sessions --trouble interruption --project shop
    """
    times: dict[str, Any] = {"from": since and moment(since), "to": until and moment(until)}
    order = sort and f"-{_ORDERS[sort]}"
    rows = backend.read("/v1/sessions", records=True, limit=limit, project=project, trouble=trouble, q=search, sort=order, **times)
    units = with_units("length", "audio p50", "audio p95")
    columns = ("time", "project", "turns", *units, "interruptions", "fallbacks", "errors", *with_units("silence", "cost"), "session")
    optional = ("project", "interruptions", "fallbacks", *with_units("silence"), "turns")
    print_answer(rows, columns, map(_session_row, rows), as_json=as_json, optional=optional)


def _session_row(session: Record) -> list[Cell]:
    times = [duration(session[name]) for name in ("length_ms", "first_audio_p50_ms", "first_audio_p95_ms")]
    troubles = [session[name] for name in ("interruptions", "fallbacks", "errors")]
    facts = [timestamp(session["timestamp"]), session["project"], session["turns"]]
    return [*facts, *times, *troubles, duration(session["silence_ms"]), money(session["cost_usd"]), session["session_id"]]
