"""`gw capture`: what was captured of sessions: read it, look for words in it, delete it. Each reading is in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.output import Cell, aside, print_answer, timestamp
from gw.cli.resource import confirm_deletion, from_backend, named, print_change, print_facts
from gw.web.control_api import path_with

PATH = "/v1/capture"
ONE = "/v1/capture/{capture_id}"
COLUMNS = ("time", "request", "role", "text")
_project = click.option("--project", help="Only requests of this project.")


@click.group()
def capture() -> None:
    """Read, search or delete what was captured of sessions.

    A project captures words or sound only where its setting `capture` says so. Each reading is in the audit log.
    """


@capture.command()
@click.argument("capture_id", metavar="SESSION")
@_project
@from_backend("The answer as JSON.")
def show(capture_id: str, project: str | None, as_json: bool, backend: Backend) -> None:
    """Show what was said. SESSION is the id of a session, a turn or a request."""
    answer = backend.change("GET", path_with(ONE, capture_id=capture_id), project=project)
    rows = (
        (timestamp(one["timestamp"]), one["request_id"], said["role"], said["text"])
        for one in answer["requests"]
        for said in one["said"]
    )
    print_answer(answer, COLUMNS, rows, as_json=as_json)
    if answer["more"]:
        aside("there are more requests than one answer has: name a turn or a request")


@capture.command()
@click.argument("text")
@_project
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Places to show.")
@click.option("--before", type=int, help="Go on with what is older: the number that the search before has named.")
@from_backend("The answer as JSON.")
def search(text: str, project: str | None, limit: int, before: int | None, as_json: bool, backend: Backend) -> None:
    """Look for TEXT in what was said, in upper or lower case alike, newest first."""
    answer = backend.change("POST", "/v1/capture-search", named(text=text, project=project, before=before, limit=limit))
    rows = ((timestamp(one["timestamp"]), one["request_id"], one["role"], one["text"]) for one in answer["found"])
    print_answer(answer, COLUMNS, rows, as_json=as_json)
    if answer["next"] is not None:
        aside(f"{answer['searched']} texts were searched; go on with --before {answer['next']}")


@capture.command()
@click.argument("capture_id", metavar="SESSION")
@_project
@click.option("--yes", is_flag=True, help="Do not ask.")
@from_backend("The answer as JSON.")
def forget(capture_id: str, project: str | None, yes: bool, as_json: bool, backend: Backend) -> None:
    """Delete what was captured. SESSION is the id of a session, a turn or a request."""

    def delete(confirm: bool) -> Any:
        return backend.change("DELETE", path_with(ONE, capture_id=capture_id), confirm=confirm, project=project)

    if not yes:
        confirm_deletion(f"what was captured of {capture_id}", delete(False)["would_delete"])
    answer = delete(True)
    print_change(answer, f"deleted {answer['pieces']} pieces of {answer['requests']} requests", as_json=as_json)


@capture.command()
@from_backend("The answer as JSON.")
def stats(as_json: bool, backend: Backend) -> None:
    """Show how much is stored, and what was left out since the gateway started."""
    print_facts(backend.read(PATH), _facts, as_json=as_json)


def _facts(answer: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [("projects", ", ".join(answer["projects"]) or "none")]
    oldest = answer["oldest_at"]
    facts += [("oldest", None if oldest is None else timestamp(oldest))]
    return facts + [(name, value) for name, value in answer.items() if name not in ("projects", "oldest_at")]
