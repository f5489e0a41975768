"""`gw keys`: the credentials of callers. A key is shown once, when it is made."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import click

from gw.admin import keys as admin
from gw.cli.backend import BY, ask, change, given, remove
from gw.cli.daemon import Daemon, daemon_options, path_of
from gw.cli.output import Cell, aside, print_json, print_table
from gw.cli.parsers import DAYS
from gw.errors import UnknownKeyError

PATH = "/v1/keys"
DAY_S = 86_400


@click.group()
def keys() -> None:
    """List, make or revoke the keys that callers show.

    A key opens the data plane for one project. Those of gw.yaml can be listed here and changed there.
    """


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def list_(as_json: bool, url: str | None, key: str) -> None:
    """Show every key; of the keys themselves only their ends."""
    found = ask(Daemon.at(url, key), lambda d: d.get(PATH), lambda db: db.keys())
    if as_json:
        print_json(found)
        return
    columns = ("id", "name", "project", "key", "made", "expires", "source")
    print_table(columns, [_row(entry) for entry in found["keys"]])


def _row(entry: dict[str, Any]) -> list[Cell]:
    facts = [entry[name] for name in ("key_id", "name", "project", "key_masked")]
    return [*facts, _day(entry["created_at"]), _day(entry["expires_at"]), entry["source"]]


def _day(at: float | None) -> str:
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


@keys.command()
@click.argument("key_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def show(key_id: str, as_json: bool, url: str | None, key: str) -> None:
    """Show one key; of the key itself only its ends. ID is that of the list."""
    found = ask(Daemon.at(url, key), lambda d: d.get(PATH), lambda db: db.keys())
    entry: dict[str, Any] | None = next((e for e in found["keys"] if e["key_id"] == key_id), None)
    if entry is None:
        raise UnknownKeyError(name=key_id, available=tuple(e["key_id"] for e in found["keys"]))
    if as_json:
        print_json(entry)
        return
    facts: list[list[Cell]] = [[name, entry[name]] for name in ("key_id", "name", "project", "key_masked", "source")]
    facts += [["made", _day(entry["created_at"])], ["expires", _day(entry["expires_at"])]]
    print_table(("what", "value"), facts)


@keys.command()
@click.option("--project", help="Whose requests it makes.  [default: default]")
@click.option("--name", help="For people.")
@click.option("--expires-days", type=DAYS, help="Days it is good for; else it does not end.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def add(
    project: str | None, name: str | None, expires_days: float | None, as_json: bool, url: str | None, key: str
) -> None:
    """Make a key. It is printed on standard output, once: only its hash is kept.

    \b
    GW_API_KEY=$(gw keys add --project shop)
    """
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    body = given(project=project, name=name, expires_at=expires_at)
    answer = change(Daemon.at(url, key), lambda d: d.send("POST", PATH, body), lambda r: admin.create(r, body, BY))
    if as_json:
        print_json(answer)
        return
    click.echo(answer["key"])
    until = f", good until {_day(answer['expires_at'])} UTC" if answer["expires_at"] else ""
    aside(f"{answer['key_id']} for project {answer['project']}{until}; it is not shown again")


@keys.command()
@click.argument("key_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def rm(key_id: str, yes: bool, as_json: bool, url: str | None, key: str) -> None:
    """Revoke a key, from the next request on. ID is that of the list."""
    daemon = Daemon.at(url, key)

    def attempt(confirm: bool) -> Any:
        return change(
            daemon,
            lambda d: d.send("DELETE", path_of(PATH, key_id), confirm="true" if confirm else None),
            lambda r: admin.revoke(r, key_id, confirm=confirm, by=BY),
        )

    remove(f"key {key_id}", yes, attempt, as_json=as_json)
