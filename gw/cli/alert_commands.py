"""`gw alerts`: what is wrong now and was lately, a test of the receivers, and mutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.main import CommandFailed
from gw.cli.output import Cell, aside, print_answer, timestamp
from gw.cli.resource import Between, from_backend, named, print_change
from gw.web.control_api import path_with

PATH = "/v1/alerts"
COLUMNS = ("state", "severity", "rule", "subject", "since", "until", "text")
_HOURS = Between(0, 720, min_open=True)


@click.group()
def alerts() -> None:
    """Show, test or mute alerts.

    gw sends them once alerts.receivers of gw.yaml has a receiver.
    """


@alerts.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=10, show_default=True, help="Incidents that are over, at most.")
@from_backend("The answer as JSON.")
def list_(limit: int, as_json: bool, backend: Backend) -> None:
    """Show the open incidents, and then the latest that are over."""
    answer = backend.read(PATH, limit=limit)
    print_answer(answer, COLUMNS, _rows(answer), as_json=as_json)
    if as_json:
        return
    if not answer["receivers"]:
        aside("no receiver is configured, so nothing is evaluated: see alerts.receivers in docs/alerts.md")
    for receiver in answer["receivers"]:
        if receiver["waiting"]:
            why = f" ({receiver['last_error']}, {receiver['tries']} tries)" if receiver["last_error"] else ""
            aside(f"{receiver['receiver']} has not accepted {receiver['waiting']} messages{why}")
    for rule in answer["rules"]:
        if rule["muted_until"] is not None:
            aside(f"{rule['rule']} is muted until {timestamp(rule['muted_until'])}")


def _rows(answer: Mapping[str, Any]) -> Iterator[list[Cell]]:
    for state, incidents in (("open", answer["open"]), ("over", answer["recent"])):
        for one in incidents:
            until = "" if one["closed_at"] is None else timestamp(one["closed_at"])
            yield [state, one["severity"], one["rule"], one["subject"], timestamp(one["opened_at"]), until, one["text"]]


@alerts.command()
@click.argument("receiver", required=False)
@from_backend("The answer as JSON.")
def test(receiver: str | None, as_json: bool, backend: Backend) -> None:
    """Send a test message to RECEIVER, or to all, and say what becomes of it."""
    answer = backend.change("POST", f"{PATH}/test", named(receiver=receiver))
    outcomes = answer["receivers"]
    rows = ((one["receiver"], one["status"], one["took_ms"], one["error"]) for one in outcomes)
    print_answer(answer, ("receiver", "status", "took_ms", "error"), rows, as_json=as_json)
    if any(one["status"] == "failed" for one in outcomes):
        raise CommandFailed("a receiver did not accept the message")


@alerts.command()
@click.argument("rule")
@click.option("--hours", type=_HOURS, default=1.0, show_default=True, help="For how long.")
@from_backend("The answer as JSON.")
def mute(rule: str, hours: float, as_json: bool, backend: Backend) -> None:
    """Send nothing about RULE for some hours. Its incidents are still recorded, and sent then if they are still open."""
    answer = backend.change("POST", path_with(f"{PATH}/{{rule}}/mute", rule=rule), {"hours": hours})
    print_change(answer, f"{rule} is muted until {timestamp(answer['muted_until'])}", as_json=as_json)


@alerts.command()
@click.argument("rule")
@from_backend("The answer as JSON.")
def unmute(rule: str, as_json: bool, backend: Backend) -> None:
    """Send messages about RULE again."""
    answer = backend.change("POST", path_with(f"{PATH}/{{rule}}/unmute", rule=rule))
    print_change(answer, f"{rule} is not muted", as_json=as_json)
