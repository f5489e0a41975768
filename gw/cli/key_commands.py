"""`gw keys`: the API keys of callers and their limits. A key is shown once, when it is made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.output import Cell, aside, money, print_json
from gw.cli.resource import (
    BUDGETS,
    DAYS,
    Between,
    Columns,
    Resource,
    budget_facts,
    from_backend,
    named,
    with_options,
)
from gw.types.ids import MODALITIES

DAY_S = 86_400

COUNT = click.IntRange(min=0)
_LISTS = ("models", "modalities", "regions")
MORE_DAYS = Between(0, 36_500)


def _members(
    models: tuple[str, ...], modalities: tuple[str, ...], regions: tuple[str, ...], expires_days: float | None,
    requests_per_minute: int | None, max_concurrent: int | None, **fields: Any,
) -> dict[str, object]:  # fmt: skip
    """Return the named options as members of a body. 0 takes a limit away, and an empty text alone a list."""
    members = named(
        **fields,
        models=[name for name in models if name] if models else None,
        modalities=[name for name in modalities if name != "all"] if modalities else None,
        regions=[name for name in regions if name] if regions else None,
    )
    numbers = {"requests_per_minute": requests_per_minute, "max_concurrent": max_concurrent}
    members |= {name: number or None for name, number in numbers.items() if number is not None}
    if expires_days is not None:
        members["expires_at"] = time.time() + expires_days * DAY_S if expires_days else None
    return members


KEYS = Resource(noun="key", path="/v1/keys", metavar="ID", members=_members)
NAME = click.option("--name", help="Name shown to people.")
LIMITS = (
    *BUDGETS,
    click.option("--model", "models", multiple=True, help="Model it may use, or <provider>/*; may be given several times."),
    click.option(
        "--modality", "modalities", multiple=True, type=click.Choice((*MODALITIES, "all")),
        help="What it may use; may be given several times.",
    ),
    click.option(
        "--region", "regions", multiple=True, help="Region whose providers may answer; may be given several times; '' allows all again."
    ),
    click.option("--requests-per-minute", type=COUNT, help="Requests a minute; 0 for any number."),
    click.option("--max-concurrent", type=COUNT, help="Requests and live sessions at once; 0 for any number."),
)
KEY_COLUMNS: Columns = {
    "id": "key_id", "name": "name", "project": "project", "key": "key_masked",
    "made": lambda entry: minute(entry["created_at"]), "expires": lambda entry: minute(entry["expires_at"]),
    "spent_today": lambda entry: money(entry["spent_today"]), "spent_total": lambda entry: money(entry["spent_total"]),
    "limits": lambda entry: "; ".join(f"{name} {value}" for name, value in _limits(entry)),
    "source": "source",
}  # fmt: skip


def minute(at: float | None) -> str:
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


@click.group()
def keys() -> None:
    """List, make, change or revoke the API keys of callers.

    A key lets its caller use the data plane for one project, up to its limits. Keys of gw.yaml can be listed here but changed only there.
    """


def _limits(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the limits that are set, with how much of each budget is spent."""
    limits = [(use["period"], f"{money(use['spent'])} of {money(use['budget'])}") for use in entry["budgets"]]
    limits += [(name, ", ".join(entry[name])) for name in _LISTS if entry[name]]
    names = ("requests_per_minute", "max_concurrent")
    return limits + [(name, str(entry[name])) for name in names if entry[name] is not None]


def _key_facts(entry: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, entry[name]) for name in ("key_id", "name", "project", "key_masked", "source")]
    facts += [("made", minute(entry["created_at"])), ("expires", minute(entry["expires_at"]))]
    facts += [(name, money(entry[name])) for name in ("spent_today", "spent_total")] + budget_facts(entry["budgets"])
    facts += [(name, ", ".join(entry[name]) or "all") for name in _LISTS]
    return facts + [(name, entry[name] or "unlimited") for name in ("requests_per_minute", "max_concurrent")]


KEYS.add_list(keys, "Show every key, masked.", KEY_COLUMNS, lambda answer: answer["keys"])


KEYS.add_show(keys, "Show one key, masked, with its limits and what it has spent. ID is that of the list.", _key_facts)


@keys.command()
@click.option("--project", help="Project that owns its requests.  [default: default]")
@with_options([NAME, click.option("--expires-days", type=DAYS, help="Days until it expires; without it, it does not."), *LIMITS])
@from_backend("The answer as JSON.")
def add(project: str | None, as_json: bool, backend: Backend, **fields: Any) -> None:
    """Make a key. It is printed on standard output, once: only its hash is kept.

    \b
    GW_API_KEY=$(gw keys add --project shop)
    gw keys add --project shop --name till --monthly-budget 20 --model sim/* --requests-per-minute 60
    """
    answer = backend.change("POST", KEYS.path, named(project=project) | _members(**fields))
    if as_json:
        print_json(answer)
        return
    click.echo(answer["key"])
    until = f", good until {minute(answer['expires_at'])} UTC" if answer["expires_at"] else ""
    aside(f"{answer['key_id']} for project {answer['project']}{until}; it is not shown again")


KEYS.add_update(
    keys,
    """Change the name, the expiry or the limits of a key that was made while running; 0 takes a limit away.

    \b
    gw keys set key_0c3f5d1e2b4a --monthly-budget 50 --model sim/* --model openai/gpt-4o-mini
    """,
    [NAME, click.option("--expires-days", type=MORE_DAYS, help="Days from now until it expires; 0: it does not."), *LIMITS],
)
KEYS.add_delete(keys, "Revoke a key, from the next request on. ID is that of the list.")
