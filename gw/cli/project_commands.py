"""`gw projects`: list, add, change and delete projects and their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import click

from gw.cli.output import Cell, money
from gw.cli.parsers import USD
from gw.cli.resource import Columns, Resource, named
from gw.types.project import BudgetAction


def _members(tags: tuple[str, ...], **fields: Any) -> dict[str, object]:
    """An empty tag alone takes all tags away."""
    return named(**fields, tags=[tag for tag in tags if tag] if tags else None)


RESOURCE = Resource(noun="project", path="/v1/projects", metavar="PROJECT", members=_members)
OPTIONS = (
    click.option("--name", help="Name shown to people."),
    click.option("--description", help="Description shown to people."),
    click.option("--daily-budget", type=USD, metavar="USD", help="Budget of a UTC day; 0 for none."),
    click.option("--budget-action", type=click.Choice(get_args(BudgetAction)), help="What happens when the budget is used up."),
    click.option("--default-stack", help="Stack for requests that name no model."),
    click.option("--tag", "tags", multiple=True, help="May be given several times; replaces the existing tags."),
    click.option("--accent", metavar="#RRGGBB", help="Colour in the dashboard."),
)


def _with_budget(shown: Any) -> Any:
    return lambda entry: shown(entry) if entry["daily_budget"] else None


COLUMNS: Columns = {
    "project": "id",
    "name": "name",
    "requests_today": "requests_today",
    "cost_today": lambda entry: money(entry["cost_today"]),
    "daily_budget": _with_budget(lambda entry: money(entry["daily_budget"])),
    "action": _with_budget(lambda entry: entry["budget_action"]),
    "stack": "default_stack",
    "source": "source",
}


@click.group()
def projects() -> None:
    """List, add, change or delete projects and their budgets.

    Projects of gw.yaml can be listed here but changed only there. The others are kept in the database; a change takes
    effect at once.
    """


def _entries(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**entry, **answer["stats"][entry["id"]]} for entry in answer["projects"]]


def _facts(answer: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    names = ("id", "name", "description", "budget_action", "budget_status", "default_stack", "accent", "source")
    facts: list[tuple[str, Cell]] = [(name, answer[name]) for name in names]
    facts += [(name, money(answer[name])) for name in ("daily_budget", "today_spend")]
    facts += [("requests_today", answer["today"]["requests_today"]), ("tags", ", ".join(answer["tags"]))]
    return facts + [(f"today {name}", money(row["cost"])) for name, row in answer["costs_today"]["by_model"].items()]


RESOURCE.add_list(projects, "Show every project with its requests and cost of today.", COLUMNS, _entries)
RESOURCE.add_show(projects, "Show one project, its budget and its cost of today.", _facts)
RESOURCE.add_create(
    projects,
    """Add a project.

    \b
    gw projects add shop --daily-budget 5 --budget-action block
    """,
    OPTIONS,
    next_step="gw keys add --project {}",
)
RESOURCE.add_update(projects, "Change a project that was added while running. '' takes a text away.", OPTIONS)
RESOURCE.add_delete(projects, "Delete a project that was added while running, with its keys. Its records are kept.")
