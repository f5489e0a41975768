"""`gw people`: who has signed in to the dashboard with an OpenID provider, and the sessions of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.key_commands import minute
from gw.cli.resource import Columns, Resource, from_backend, print_change, print_entries
from gw.cli.token_commands import projects_of
from gw.web.control_api import path_with

SESSIONS = Resource(noun="session", path="/v1/logins", metavar="ID")
_PEOPLE: Columns = {
    "id": "person_id", "name": "name", "role": lambda entry: entry["role"] or "none",
    "projects": lambda entry: projects_of(entry) if entry["role"] else "",
    "capture": lambda entry: "yes" if entry["capture"] else "", "sessions": "sessions",
    "signed_in": lambda entry: minute(entry["signed_in_at"]), "blocked": lambda entry: "yes" if entry["blocked"] else "",
}  # fmt: skip
_SESSIONS: Columns = {
    "id": "login_id", "name": "name", "began": lambda entry: minute(entry["created_at"]), "used": lambda entry: minute(entry["seen_at"]),
    "ends": lambda entry: minute(entry["expires_at"]), "address": "address", "browser": "agent",
}  # fmt: skip


@click.group()
def people() -> None:
    """List people who have signed in, block one, or list and end sessions of the dashboard.

    Who may sign in, and with which role, is decided by auth.oidc.roles in gw.yaml.
    """


@people.command("list")
@from_backend()
def list_(as_json: bool, backend: Backend) -> None:
    """Show everybody who has signed in with the OpenID provider."""
    answer = backend.read("/v1/people")
    print_entries(answer, answer["people"], _PEOPLE, as_json=as_json)


def _update(backend: Backend, person_id: str, blocked: bool) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = backend.change("PATCH", path_with("/v1/people/{}", person_id), {"blocked": blocked})
    return answer


@people.command()
@click.argument("person_id", metavar="ID")
@from_backend("The answer as JSON.")
def block(person_id: str, as_json: bool, backend: Backend) -> None:
    """End a person's sessions, and let them begin no other. ID is that of the list."""
    print_change(_update(backend, person_id, True), f"blocked {person_id}", as_json=as_json)


@people.command()
@click.argument("person_id", metavar="ID")
@from_backend("The answer as JSON.")
def unblock(person_id: str, as_json: bool, backend: Backend) -> None:
    """Let a person sign in again. ID is that of the list."""
    print_change(_update(backend, person_id, False), f"unblocked {person_id}", as_json=as_json)


@people.group()
def sessions() -> None:
    """List or end sessions of the dashboard, of people and of service tokens.

    Sessions made with the admin token are not among them: another admin token ends those.
    """


SESSIONS.add_list(sessions, "Show the sessions, the newest first.", _SESSIONS, lambda answer: answer["logins"])
SESSIONS.add_delete(sessions, "End a session, from the next request on. ID is that of the list.")
