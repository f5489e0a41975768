"""`gw projects`: projects and their budgets; `gw keys`: the API keys of their callers, shown once, when they are made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import click

from gw.cli.backend import Backend
from gw.cli.output import Cell, aside, money, print_json
from gw.cli.resource import DAYS, USD, Columns, Resource, from_backend, named, print_facts
from gw.errors import UnknownKeyError
from gw.types.entities import BudgetAction

DAY_S = 86_400


def _members(
    tags: tuple[str, ...], capture: str | None, capture_share: float | None, capture_days: int | None,
    capture_names: tuple[str, ...], capture_presidio: str | None, **fields: Any,
) -> dict[str, object]:  # fmt: skip
    """Return the named options as members. An empty tag alone takes all tags away."""
    members = named(**fields, tags=[tag for tag in tags if tag] if tags else None)
    details = named(share=capture_share, keep_days=capture_days, names=list(capture_names) or None, presidio=capture_presidio)
    if capture is None and details:
        options = "--capture-share, --capture-days, --capture-name and --capture-presidio"
        raise click.UsageError(f"{options} need --capture, which says what to keep")
    if capture is not None:
        kinds = dict.fromkeys(capture.split("+"), True) if capture != "off" else {}
        members["capture"] = {**kinds, **details} if kinds else None
    return members


PROJECTS = Resource(noun="project", path="/v1/projects", metavar="PROJECT", members=_members)
OPTIONS = (
    click.option("--name", help="Name shown to people."),
    click.option("--description", help="Description shown to people."),
    click.option("--daily-budget", type=USD, metavar="USD", help="Budget of a UTC day; 0 for none."),
    click.option("--budget-action", type=click.Choice(get_args(BudgetAction)), help="What happens when the budget is used up."),
    click.option("--default-stack", help="Stack for requests that name no model."),
    click.option("--tag", "tags", multiple=True, help="May be given several times; replaces the existing tags."),
    click.option("--accent", metavar="#RRGGBB", help="Colour in the dashboard."),
    click.option("--capture", type=click.Choice(("off", "text", "audio", "text+audio")), help="What is kept of its sessions."),
    click.option("--capture-share", type=click.FloatRange(0, 1), help="Share of sessions that are kept.  [default: 0.05]"),
    click.option("--capture-days", type=click.IntRange(1, 3_650), help="Days for which it is kept.  [default: 14]"),
    click.option("--capture-name", "capture_names", multiple=True, help="Word to replace; may be given several times."),
    click.option("--capture-presidio", metavar="MODEL", help="spaCy model with which Presidio replaces names and places too."),
)
COLUMNS: Columns = {
    "project": "id", "name": "name", "requests_today": "requests_today",
    "cost_today": lambda entry: money(entry["cost_today"]),
    "daily_budget": lambda entry: money(entry["daily_budget"]) if entry["daily_budget"] else None,
    "action": lambda entry: entry["budget_action"] if entry["daily_budget"] else None,
    "stack": "default_stack", "source": "source",
}  # fmt: skip


@click.group()
def projects() -> None:
    """List, add, change or delete projects and their budgets.

    Projects of gw.yaml can be listed here but changed only there. The others are kept in the database; a change takes
    effect at once.
    """


def _entries(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**entry, **answer["stats"][entry["id"]]} for entry in answer["projects"]]


def _project_facts(answer: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    names = ("id", "name", "description", "budget_action", "budget_status", "default_stack", "accent", "source")
    facts: list[tuple[str, Cell]] = [(name, answer[name]) for name in names]
    facts += [(name, money(answer[name])) for name in ("daily_budget", "today_spend")]
    if (capture := answer["capture"]) is not None:
        kinds = "+".join(kind for kind in ("text", "audio") if capture[kind]) or "off"
        facts += [("capture", f"{kinds}, share {capture['share']:g}, {capture['keep_days']} days")]
    facts += [("requests_today", answer["today"]["requests_today"]), ("tags", ", ".join(answer["tags"]))]
    return facts + [(f"today {name}", money(row["cost"])) for name, row in answer["costs_today"]["by_model"].items()]


PROJECTS.add_list(projects, "Show every project with its requests and cost of today.", COLUMNS, _entries)
PROJECTS.add_show(projects, "Show one project, its budget and its cost of today.", _project_facts)
PROJECTS.add_create(
    projects,
    """Add a project.

    \b
    gw projects add shop --daily-budget 5 --budget-action block
    """,
    OPTIONS,
    next_step="gw keys add --project {}",
)
PROJECTS.add_update(projects, "Change a project that was added while running. '' takes a text away.", OPTIONS)
PROJECTS.add_delete(projects, "Delete a project that was added while running, with its keys. Its records are kept.")

KEYS = Resource(noun="key", path="/v1/keys", metavar="ID")
KEY_COLUMNS: Columns = {
    "id": "key_id", "name": "name", "project": "project", "key": "key_masked",
    "made": lambda entry: _minute(entry["created_at"]), "expires": lambda entry: _minute(entry["expires_at"]),
    "source": "source",
}  # fmt: skip


def _minute(at: float | None) -> str:
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


@click.group()
def keys() -> None:
    """List, make or revoke the API keys of callers.

    A key lets its caller use the data plane for one project. Keys of gw.yaml can be listed here but changed only there.
    """


def _key_facts(entry: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, entry[name]) for name in ("key_id", "name", "project", "key_masked", "source")]
    return [*facts, ("made", _minute(entry["created_at"])), ("expires", _minute(entry["expires_at"]))]


KEYS.add_list(keys, "Show every key, masked.", KEY_COLUMNS, lambda answer: answer["keys"])


@keys.command()
@KEYS.argument()
@from_backend()
def show(entity_id: str, as_json: bool, backend: Backend) -> None:
    """Show one key, masked. ID is that of the list."""
    entries = backend.read(KEYS.path)["keys"]
    entry = next((entry for entry in entries if entry["key_id"] == entity_id), None)
    if entry is None:
        raise UnknownKeyError(name=entity_id, available=tuple(entry["key_id"] for entry in entries))
    print_facts(entry, _key_facts, as_json=as_json)


@keys.command()
@click.option("--project", help="Project that owns its requests.  [default: default]")
@click.option("--name", help="Name shown to people.")
@click.option("--expires-days", type=DAYS, help="Days until it expires; without it, it does not.")
@from_backend("The answer as JSON.")
def add(project: str | None, name: str | None, expires_days: float | None, as_json: bool, backend: Backend) -> None:
    """Make a key. It is printed on standard output, once: only its hash is kept.

    \b
    GW_API_KEY=$(gw keys add --project shop)
    """
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    answer = backend.change("POST", KEYS.path, named(project=project, name=name, expires_at=expires_at))
    if as_json:
        print_json(answer)
        return
    click.echo(answer["key"])
    until = f", good until {_minute(answer['expires_at'])} UTC" if answer["expires_at"] else ""
    aside(f"{answer['key_id']} for project {answer['project']}{until}; it is not shown again")


KEYS.add_delete(keys, "Revoke a key, from the next request on. ID is that of the list.")
