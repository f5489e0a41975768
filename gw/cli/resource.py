"""The commands that providers, models, projects, keys and fallback chains share, their options and their tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import attrs
import click

from gw.cli.backend import Backend, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import Cell, aside, money, print_answer, print_json
from gw.web.control_api import path_with

Json = Mapping[str, Any]
Option = Callable[[Any], Any]
"""A click option, as a decorator."""
Columns = Mapping[str, str | Callable[[Any], Cell]]
"""Heading → member of an entry, or a function of the entry."""


class Between(click.FloatRange):
    """A number within bounds. NaN is refused too, which passes every comparison."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


SECONDS = Between(0.2, 3_600)  # between two refreshes of a display
USD = Between(0, 1e9)
DAYS = Between(0, 36_500, min_open=True)
PERCENT = Between(0, 1_000_000)
MODALITY = click.Choice(["stt", "llm", "tts"])


def json_option(help_text: str = "As JSON.") -> Option:
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def with_options(options: Sequence[Option]) -> Option:
    """Add several options to a command, in this order."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


def from_backend(help_text: str = "As JSON.") -> Option:
    """Add `--json`, and the options of the backend that answers."""
    return with_options([json_option(help_text), backend_options])


_PERIODS = {
    "daily": "a UTC day", "weekly": "a week from Monday, UTC", "monthly": "a calendar month, UTC", "total": "all time",
}  # fmt: skip
BUDGETS = tuple(
    click.option(f"--{kind}-budget", type=USD, metavar="USD", help=f"Budget of {period}; 0 for none.")
    for kind, period in _PERIODS.items()
)
"""Options for the budgets of a project or a key."""


def budget_facts(uses: Iterable[Json]) -> list[tuple[str, Cell]]:
    """Return a row for each budget that is set: what is spent of it."""
    return [
        (f"spent of {use['period']}", f"{money(use['spent'])} of {money(use['budget'])} ({use['budget_status']})") for use in uses
    ]


def rows_of(columns: Columns, entries: Iterable[Json]) -> Iterator[list[Cell]]:
    """Yield a row for each of `entries`."""
    for entry in entries:
        yield [entry[value] if isinstance(value, str) else value(entry) for value in columns.values()]


def print_entries(answer: Any, entries: Iterable[Json], columns: Columns, *, as_json: bool) -> None:
    """Print a row for each of `entries`; with `as_json` the answer."""
    print_answer(answer, tuple(columns), rows_of(columns, entries), as_json=as_json)


def print_facts(answer: Json, rows: Callable[[Json], Iterable[Sequence[Cell]]], *, as_json: bool) -> None:
    """Print a name and a value in each of the `rows` of an answer; with `as_json` the answer."""
    print_answer(answer, ("what", "value"), rows(answer), as_json=as_json)


def print_change(answer: Json, sentence: str, *, as_json: bool) -> None:
    """Print the answer to a change: JSON for programs, a sentence for people."""
    if as_json:
        print_json(answer)
    else:
        aside(sentence)


def named(**fields: object) -> dict[str, object]:
    """Return the fields that the command line named."""
    return {name: value for name, value in fields.items() if value is not None}


@attrs.frozen(kw_only=True)
class Resource:
    """A kind of entity that the control plane manages below `path`.

    `members` turns the options of `add` and `set` into members of a request body. An empty text takes the value of a
    member away; `clearable` limits that to some members.
    """

    noun: str
    path: str
    metavar: str
    members: Callable[..., dict[str, object]] = named
    clearable: frozenset[str] | None = None

    def path_of(self, entity_id: str) -> str:
        return path_with(self.path + "/{}", entity_id)

    def argument(self) -> Option:
        return click.argument("entity_id", metavar=self.metavar)

    def _command(self, group: click.Group, name: str, help_text: str, *options: Option) -> Option:
        """Return the decorator of a command about one entity, with `--json` and the options of the backend."""
        answer = from_backend("As JSON." if name == "show" else "The answer as JSON.")
        return with_options([group.command(name, help=help_text), self.argument(), *options, answer])

    def add_list(
        self, group: click.Group, help_text: str, columns: Columns, entries: Callable[[Json], Iterable[Json]]
    ) -> None:
        """Add `list`: a row for each of the `entries` of the answer."""

        @group.command("list", help=help_text)
        @from_backend()
        def list_(as_json: bool, backend: Backend) -> None:
            answer = backend.read(self.path)
            print_entries(answer, entries(answer), columns, as_json=as_json)

    def add_show(self, group: click.Group, help_text: str, rows: Callable[[Json], Iterable[Sequence[Cell]]]) -> None:
        """Add `show`: a name and a value in each of the `rows` of the answer."""

        @self._command(group, "show", help_text)
        def show(entity_id: str, as_json: bool, backend: Backend) -> None:
            print_facts(backend.read(self.path_of(entity_id)), rows, as_json=as_json)

    def add_create(self, group: click.Group, help_text: str, options: Iterable[Option], next_step: str) -> None:
        """Add `add`, whose argument is the new entity's id. `next_step` may hold `{}` for the id."""

        @self._command(group, "add", help_text, *options)
        def add(entity_id: str, as_json: bool, backend: Backend, **fields: Any) -> None:
            body = {f"{self.noun}_id": entity_id} | self.members(**fields)
            sentence = f"added {self.noun} {entity_id}; next: {next_step.format(entity_id)}"
            print_change(backend.change("POST", self.path, body), sentence, as_json=as_json)

    def add_update(self, group: click.Group, help_text: str, options: Iterable[Option]) -> None:
        """Add `set`."""

        @self._command(group, "set", help_text, *options)
        def set_(entity_id: str, as_json: bool, backend: Backend, **fields: Any) -> None:
            body = self.members(**fields)
            if not body:
                raise click.UsageError("name something to change, see --help")
            clearable = body if self.clearable is None else self.clearable
            body = {name: None if value == "" and name in clearable else value for name, value in body.items()}
            answer = backend.change("PATCH", self.path_of(entity_id), body)
            print_change(answer, f"changed {self.noun} {entity_id}", as_json=as_json)

    def add_delete(self, group: click.Group, help_text: str, flags: Iterable[Option] = ()) -> None:
        """Add `rm`. `flags` are further fields of the query."""

        @self._command(group, "rm", help_text, *flags, click.option("--yes", is_flag=True, help="Do not ask."))
        def rm(entity_id: str, yes: bool, as_json: bool, backend: Backend, **query: Any) -> None:
            def delete(confirm: bool) -> Json:
                answer: Json = backend.change("DELETE", self.path_of(entity_id), confirm=confirm, **query)
                return answer

            if not yes:
                confirm_deletion(f"{self.noun} {entity_id}", delete(False)["would_delete"])
            print_change(delete(True), f"deleted {self.noun} {entity_id}", as_json=as_json)


def confirm_deletion(name: str, preview: Json) -> None:
    """Show what would be deleted and ask. Raises CommandFailed where no person can answer, Abort when the answer is no."""
    aside(f"would delete {name}" + "".join(f"\n  {member}: {_plain(value)}" for member, value in preview.items()))
    if not sys.stdin.isatty():
        raise CommandFailed("nothing was deleted: there is no terminal to ask on; give --yes")
    click.confirm("Delete?", abort=True, err=True)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
