"""`gw projects`: projects and their budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import click

from gw.cli.output import Cell, money
from gw.cli.resource import BUDGETS, Columns, Resource, budget_facts, named
from gw.types.entities import BudgetAction


def _members(
    tags: tuple[str, ...], regions: tuple[str, ...], capture: str | None, capture_share: float | None, capture_days: int | None,
    capture_names: tuple[str, ...], capture_presidio: str | None, phrase_cache: str | None, phrase_takes: int | None,
    phrase_longest: int | None, phrase_sentences: bool | None, **fields: Any,
) -> dict[str, object]:  # fmt: skip
    """Return the named options as members. An empty tag alone takes all tags away, and an empty region all regions."""
    lists = {name: [text for text in texts if text] if texts else None for name, texts in (("tags", tags), ("regions", regions))}
    members = named(**fields, **lists)
    details = named(share=capture_share, keep_days=capture_days, names=list(capture_names) or None, presidio=capture_presidio)
    if capture is None and details:
        options = "--capture-share, --capture-days, --capture-name and --capture-presidio"
        raise click.UsageError(f"{options} need --capture, which says what to keep")
    if capture is not None:
        kinds = dict.fromkeys(capture.split("+"), True) if capture != "off" else {}
        members["capture"] = {**kinds, **details} if kinds else None
    rules = named(takes=phrase_takes, longest=phrase_longest, sentences=phrase_sentences)
    if phrase_cache != "on" and rules:
        raise click.UsageError("--phrase-takes, --phrase-longest and --phrase-sentences need --phrase-cache on")
    if phrase_cache is not None:
        members["phrase_cache"] = rules if phrase_cache == "on" else None
    return members


PROJECTS = Resource(noun="project", path="/v1/projects", metavar="PROJECT", members=_members)
OPTIONS = (
    click.option("--name", help="Name shown to people."),
    click.option("--description", help="Description shown to people."),
    *BUDGETS,
    click.option("--budget-action", type=click.Choice(get_args(BudgetAction)), help="What happens when a budget is used up."),
    click.option("--default-stack", help="Stack for requests that name no model."),
    click.option(
        "--region", "regions", multiple=True, help="Region whose providers may answer; may be given several times; '' allows all again."
    ),
    click.option("--tag", "tags", multiple=True, help="May be given several times; replaces the existing tags."),
    click.option("--accent", metavar="#RRGGBB", help="Colour in the dashboard."),
    click.option("--phrase-cache", type=click.Choice(("on", "off")), help="Whether speech of texts that are said again is kept."),
    click.option("--phrase-takes", type=click.IntRange(1, 16), help="Recordings of each text, used in turn.  [default: 1]"),
    click.option("--phrase-longest", type=click.IntRange(1, 5_000), help="Characters of the longest text kept.  [default: 300]"),
    click.option(
        "--phrase-sentences/--no-phrase-sentences", default=None, help="Whether sentences within longer speech count.  [default: yes]"
    ),
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
    facts += budget_facts(answer["budgets"])
    if (rules := answer["phrase_cache"]) is not None:
        sentences = "sentences and complete texts" if rules["sentences"] else "complete texts"
        facts += [("phrase_cache", f"{sentences} of up to {rules['longest']} characters, takes: {rules['takes']}")]
    if (capture := answer["capture"]) is not None:
        kinds = "+".join(kind for kind in ("text", "audio") if capture[kind]) or "off"
        facts += [("capture", f"{kinds}, share {capture['share']:g}, {capture['keep_days']} days")]
    facts += [("requests_today", answer["today"]["requests_today"]), ("tags", ", ".join(answer["tags"]))]
    facts += [("regions", ", ".join(answer["regions"]))] if answer["regions"] else []
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
