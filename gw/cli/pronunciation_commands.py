"""`gw pronunciations`: how a project's words are spoken, as a table that spreadsheets edit."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

import click
import msgspec

from gw.cli.backend import Backend
from gw.cli.main import CommandFailed
from gw.cli.output import print_answer
from gw.cli.resource import from_backend, print_change
from gw.cli.text_files import decode_text
from gw.types.pronunciation import MOST_PRONUNCIATIONS, Pronunciation, problems_of

COLUMNS = ("word", "say", "ipa", "language", "match_case")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that spreadsheets run as formulas: such a cell gets a quote in front, which is taken off again."""
_TRUTH = {"": False, "false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
_MOST_SHOWN = 20
_project = click.option("--project", default="default", show_default=True, help="Project whose words they are.")


@click.group()
def pronunciations() -> None:
    """List, import or export how a project's words are spoken.

    A project in gw.yaml has its table there; those of other projects are changed here.
    """


@pronunciations.command("list")
@_project
@from_backend("The answer as JSON.")
def list_(project: str, as_json: bool, backend: Backend) -> None:
    """List the words of a project, and how they are spoken."""
    answer = backend.read(_path(project))
    print_answer(answer, COLUMNS, map(_row, answer["pronunciations"]), as_json=as_json, optional=("ipa", "language", "match_case"))


@pronunciations.command("export")
@_project
@click.option("--output", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="File to write; default: standard output.")
@from_backend("The answer as JSON.")
def export(project: str, output: TextIO, as_json: bool, backend: Backend) -> None:
    """Write the table of a project as CSV, which `import` reads."""
    answer = backend.read(_path(project))
    if as_json:
        output.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")
        return
    rows = csv.writer(output, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([_safe(cell) for cell in _row(entry)] for entry in answer["pronunciations"])


@pronunciations.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@_project
@from_backend("The answer as JSON.")
def import_(file: Path, project: str, as_json: bool, backend: Backend) -> None:
    """Put the table of a CSV file in place of that of a project.

    The first line names the columns: word and say, and if you like ipa, language and match_case. Nothing is changed if a line is wrong.

    \b
    gw pronunciations import names.csv --project clinic
    """
    with click.open_file(str(file), "rb") as opened:
        entries = read_table(decode_text(opened.read(), str(file)), str(file))
    answer = backend.change("PUT", _path(project), {"pronunciations": [msgspec.structs.asdict(entry) for entry in entries]})
    print_change(answer, f"{project} has {len(entries)} pronunciations now", as_json=as_json)


def read_table(text: str, name: str) -> list[Pronunciation]:
    """Return the entries of a CSV file. Raises CommandFailed with every line at fault."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    lines, entries, problems = list[int](), list[Pronunciation](), list[str]()
    try:
        if unknown := [column for column in rows.fieldnames or () if column not in COLUMNS]:
            raise CommandFailed(f"{name} line 1: unknown column {unknown[0]!r}; columns are {', '.join(COLUMNS)}")
        if missing := {"word", "say"} - {*(rows.fieldnames or ())}:
            raise CommandFailed(f"{name} line 1: the column {min(missing)!r} is missing; the first line names the columns")
        for row in rows:
            try:
                entries.append(_entry(row))
                lines.append(rows.line_num)
            except ValueError as error:
                problems.append(f"line {rows.line_num}: {error}")
    except csv.Error as error:
        raise CommandFailed(f"{name} line {rows.line_num}: this is not CSV: {error}") from None
    problems += [f"line {lines[number]}: {problem}" for number, problem in problems_of(entries)]
    if len(entries) > MOST_PRONUNCIATIONS:
        problems.append(f"a project has at most {MOST_PRONUNCIATIONS} pronunciations, not {len(entries)}")
    if problems:
        raise CommandFailed("\n".join([f"{name} was not imported:", *_first(problems)]))
    return entries


def _first(problems: Sequence[str]) -> Iterator[str]:
    yield from problems[:_MOST_SHOWN]
    if len(problems) > _MOST_SHOWN:
        yield f"and {len(problems) - _MOST_SHOWN} more"


def _entry(row: Mapping[str | None, Any]) -> Pronunciation:
    """Raises ValueError."""
    if None in row:
        raise ValueError("it has more cells than columns; put text with a comma in quotes")
    cells = {column: _plain((row.get(column) or "").strip()) for column in COLUMNS}
    match_case = _TRUTH.get(cells.pop("match_case").lower())
    if match_case is None:
        raise ValueError("match_case must be true or false")
    return Pronunciation(**cells, match_case=match_case)


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(entry[column] for column in COLUMNS[:-1]), "true" if entry["match_case"] else "")


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def _path(project: str) -> str:
    return f"/v1/projects/{quote(project, safe='')}/pronunciations"
