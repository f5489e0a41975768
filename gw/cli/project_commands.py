"""`gw projects`: who spends what, and the budgets of those made while running."""

from __future__ import annotations

import sys
from typing import Any

import click

from gw.admin import projects as admin
from gw.cli.backend import BY, ask, change, done, given, or_nothing, remove
from gw.cli.daemon import Daemon, daemon_options, path_of
from gw.cli.output import Cell, print_json, print_table, usd
from gw.cli.parsers import USD

ACTIONS = click.Choice(["warn", "block"])
PATH = "/v1/projects"


@click.group()
def projects() -> None:
    """List, add, change or delete projects and their budgets.

    Those of gw.yaml can be listed here and changed there; the others lie in the database, and take effect at once.
    """


def _money(amount: float) -> Cell:
    """People read dollars with a sign, programs a number."""
    return usd(amount) if sys.stdout.isatty() else f"{amount:.9f}"


@projects.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def list_(as_json: bool, url: str | None, key: str) -> None:
    """Show every project and its day so far."""
    found = ask(Daemon.at(url, key), lambda d: d.get(PATH), lambda db: db.projects())
    if as_json:
        print_json(found)
        return
    columns = ("project", "name", "requests_today", "cost_today", "daily_budget", "action", "stack", "source")
    print_table(columns, [_row(entry, found["stats"][entry["id"]]) for entry in found["projects"]])


def _row(entry: dict[str, Any], today: dict[str, Any]) -> list[Cell]:
    limit = entry["daily_budget"]
    budget = [_money(limit), entry["budget_action"]] if limit else [None, None]
    spent = [today["requests_today"], _money(today["cost_today"])]
    return [entry["id"], entry["name"], *spent, *budget, entry["default_stack"], entry["source"]]


@projects.command()
@click.argument("project_id", metavar="PROJECT")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def show(project_id: str, as_json: bool, url: str | None, key: str) -> None:
    """Show one project, its budget and what it spent today."""
    found: dict[str, Any] = ask(
        Daemon.at(url, key), lambda d: d.get(path_of(PATH, project_id)), lambda db: db.project(project_id)
    )
    if as_json:
        print_json(found)
        return
    names = ("id", "name", "description", "budget_action", "budget_status", "default_stack", "accent", "source")
    rows: list[list[Cell]] = [[name, found[name]] for name in names]
    rows += [[name, _money(found[name])] for name in ("daily_budget", "today_spend")]
    rows += [["requests_today", found["today"]["requests_today"]], ["tags", ", ".join(found["tags"])]]
    rows += [[f"today {name}", _money(facts["cost"])] for name, facts in found["costs_today"]["by_model"].items()]
    print_table(("what", "value"), rows)


def _project_options(command: Any) -> Any:
    options = (
        click.option("--name", help="For people."),
        click.option("--description", help="For people."),
        click.option("--daily-budget", type=USD, metavar="USD", help="A UTC day; 0 for none."),
        click.option("--budget-action", type=ACTIONS, help="What happens when the budget is used up."),
        click.option("--default-stack", help="Used by requests that name no model."),
        click.option("--tag", "tags", multiple=True, help="Any number of them; replaces those there are."),
        click.option("--accent", metavar="#RRGGBB", help="Its colour in the dashboard."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@projects.command()
@click.argument("project_id", metavar="PROJECT")
@_project_options
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def add(project_id: str, as_json: bool, url: str | None, key: str, tags: tuple[str, ...], **fields: Any) -> None:
    """Add a project.

    \b
    gw projects add shop --daily-budget 5 --budget-action block
    """
    body = {"project_id": project_id} | given(**fields, tags=list(tags) or None)
    answer = change(Daemon.at(url, key), lambda d: d.send("POST", PATH, body), lambda r: admin.create(r, body, BY))
    done(answer, f"added project {project_id}; next: gw keys add --project {project_id}", as_json=as_json)


@projects.command("set")
@click.argument("project_id", metavar="PROJECT")
@_project_options
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def set_(project_id: str, as_json: bool, url: str | None, key: str, tags: tuple[str, ...], **fields: Any) -> None:
    """Change a project that was added while running. '' takes a text away."""
    body = or_nothing(given(**fields, tags=[tag for tag in tags if tag] if tags else None))
    answer = change(
        Daemon.at(url, key),
        lambda d: d.send("PATCH", path_of(PATH, project_id), body),
        lambda r: admin.update(r, project_id, body, BY),
    )
    done(answer, f"changed project {project_id}", as_json=as_json)


@projects.command()
@click.argument("project_id", metavar="PROJECT")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def rm(project_id: str, yes: bool, as_json: bool, url: str | None, key: str) -> None:
    """Delete a project that was added while running, and its keys with it. Its records stay."""
    daemon = Daemon.at(url, key)

    def attempt(confirm: bool) -> Any:
        return change(
            daemon,
            lambda d: d.send("DELETE", path_of(PATH, project_id), confirm="true" if confirm else None),
            lambda r: admin.delete(r, project_id, confirm=confirm, by=BY),
        )

    remove(f"project {project_id}", yes, attempt, as_json=as_json)
