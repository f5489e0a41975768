"""`gw keys`: list, make and revoke the API keys of callers. A key is shown once, when it is made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from gw.cli.backend import Backend, backend_options
from gw.cli.output import Cell, aside, print_json
from gw.cli.parsers import DAYS
from gw.cli.resource import Columns, Resource, json_option, named, print_facts
from gw.errors import UnknownKeyError

RESOURCE = Resource(noun="key", path="/v1/keys", metavar="ID")
DAY_S = 86_400


def _minute(at: float | None) -> str:
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _created(entry: Mapping[str, Any]) -> str:
    return _minute(entry["created_at"])


def _expires(entry: Mapping[str, Any]) -> str:
    return _minute(entry["expires_at"])


COLUMNS: Columns = {
    "id": "key_id", "name": "name", "project": "project", "key": "key_masked", "made": _created, "expires": _expires,
    "source": "source",
}  # fmt: skip


@click.group()
def keys() -> None:
    """List, make or revoke the API keys of callers.

    A key lets its caller use the data plane for one project. Keys of gw.yaml can be listed here but changed only there.
    """


def _facts(entry: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, entry[name]) for name in ("key_id", "name", "project", "key_masked", "source")]
    return [*facts, ("made", _created(entry)), ("expires", _expires(entry))]


RESOURCE.add_list(keys, "Show every key, masked.", COLUMNS, lambda answer: answer["keys"])


@keys.command()
@RESOURCE.argument()
@json_option()
@backend_options
def show(entity_id: str, as_json: bool, backend: Backend) -> None:
    """Show one key, masked. ID is that of the list."""
    entries = backend.read(RESOURCE.path)["keys"]
    entry = next((entry for entry in entries if entry["key_id"] == entity_id), None)
    if entry is None:
        raise UnknownKeyError(name=entity_id, available=tuple(entry["key_id"] for entry in entries))
    print_facts(entry, _facts, as_json=as_json)


@keys.command()
@click.option("--project", help="Project that owns its requests.  [default: default]")
@click.option("--name", help="Name shown to people.")
@click.option("--expires-days", type=DAYS, help="Days until it expires; without it, it does not.")
@json_option("The answer as JSON.")
@backend_options
def add(
    project: str | None, name: str | None, expires_days: float | None, as_json: bool, backend: Backend
) -> None:
    """Make a key. It is printed on standard output, once: only its hash is kept.

    \b
    GW_API_KEY=$(gw keys add --project shop)
    """
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    answer = backend.change("POST", RESOURCE.path, named(project=project, name=name, expires_at=expires_at))
    if as_json:
        print_json(answer)
        return
    click.echo(answer["key"])
    until = f", good until {_minute(answer['expires_at'])} UTC" if answer["expires_at"] else ""
    aside(f"{answer['key_id']} for project {answer['project']}{until}; it is not shown again")


RESOURCE.add_delete(keys, "Revoke a key, from the next request on. ID is that of the list.")
