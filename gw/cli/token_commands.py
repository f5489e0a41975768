"""`gw tokens`: service tokens, credentials for programs that use the control plane with a role."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.key_commands import DAY_S, minute
from gw.cli.output import Cell, aside, print_json
from gw.cli.resource import DAYS, Columns, Resource, from_backend, named
from gw.types.roles import ROLES

TOKENS = Resource(noun="token", path="/v1/tokens", metavar="ID")


def projects_of(entry: Mapping[str, Any]) -> str:
    return "all" if entry["projects"] is None else ", ".join(entry["projects"])


COLUMNS: Columns = {
    "id": "token_id", "name": "name", "role": "role", "projects": projects_of,
    "capture": lambda entry: "yes" if entry["capture"] else "", "token": "token_masked",
    "made": lambda entry: minute(entry["created_at"]), "by": "created_by", "expires": lambda entry: minute(entry["expires_at"]),
}  # fmt: skip


def _facts(entry: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, entry[name]) for name in ("token_id", "name", "role")]
    facts += [("projects", projects_of(entry)), ("reads captured content", "yes" if entry["capture"] else "no")]
    facts += [("token", entry["token_masked"]), ("made", minute(entry["created_at"])), ("by", entry["created_by"])]
    return [*facts, ("expires", minute(entry["expires_at"]))]


@click.group()
def tokens() -> None:
    """List, make or revoke service tokens.

    A service token lets a program use the control plane, the reports and the MCP server with a role: viewer, operator or admin, for all
    projects or for some. To call models, an app needs a key (`gw keys`).
    """


TOKENS.add_list(tokens, "Show every service token, masked.", COLUMNS, lambda answer: answer["tokens"])
TOKENS.add_show(tokens, "Show one service token, masked. ID is that of the list.", _facts)


@tokens.command()
@click.option("--name", required=True, help="Its name in the audit log.")
@click.option("--role", required=True, type=click.Choice(ROLES), help="What it may do.")
@click.option("--project", "projects", multiple=True, help="Project it may see; may be given several times.  [default: all]")
@click.option("--capture", is_flag=True, help="It may read captured content.")
@click.option("--expires-days", type=DAYS, help="Days until it expires; without it, it does not.")
@from_backend("The answer as JSON.")
def add(
    name: str, role: str, projects: tuple[str, ...], capture: bool, expires_days: float | None, as_json: bool, backend: Backend
) -> None:
    """Make a service token. It is printed on standard output, once: only its hash is kept.

    \b
    GW_API_KEY=$(gw tokens add --name reports --role viewer --project shop --expires-days 90)
    """
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    body = named(name=name, role=role, projects=list(projects) or None, capture=capture or None, expires_at=expires_at)
    answer = backend.change("POST", TOKENS.path, body)
    if as_json:
        print_json(answer)
        return
    click.echo(answer["token"])
    until = f", good until {minute(answer['expires_at'])} UTC" if answer["expires_at"] else ""
    aside(f"{answer['token_id']} is {answer['role']} of {projects_of(answer)}{until}; it is not shown again")


TOKENS.add_delete(tokens, "Revoke a service token, from the next request on. ID is that of the list.")
