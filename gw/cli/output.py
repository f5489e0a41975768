"""Printing: data on stdout (a table on a terminal, else TSV; JSON with --json), everything else on stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import floor, log10
from typing import TYPE_CHECKING, TextIO

import click

from gw.types.printable import escaped_json, for_terminal, one_line

if TYPE_CHECKING:
    from rich.table import Table

    from gw.telemetry.log import Redactor

Cell = str | int | float | None

MAX_WIDTH = 10_000
PARTS = 1_000  # steps of a progress bar, whatever it counts
_AMOUNT = re.compile(r"-?\$?-?[\d.,]+( m?s)?")


def aside(text: str) -> None:
    """Print a line for people on stderr: progress, timings, the source of the data."""
    click.echo(for_terminal(text), err=True)


def log_warnings() -> Redactor:
    """Log warnings and errors to stderr, for a command that opens a gateway in its own process.

    `GW_LOG_LEVEL` chooses another level. Returns the redactor, which can learn secrets.
    """
    from gw.telemetry.log import setup_logging

    return setup_logging({"GW_LOG_LEVEL": "warning", **os.environ})


@contextmanager
def bar(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr where that is a terminal; yields a function to call with the number of finished steps."""
    with click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()) as shown:

        def advance(steps: int) -> None:
            shown.update(min(steps, length) - shown.pos)

        yield advance


@contextmanager
def share_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress like `bar`, of work that reports its progress and its total in bytes, pages or steps."""
    with bar(label, PARTS) as step:
        yield lambda done, total: step(done * PARTS // max(total, 1))


def print_json(value: object) -> None:
    click.echo(json_text(value, indent=2))


def json_text(value: object, *, indent: int | None = None) -> str:
    return escaped_json(json.dumps(value, ensure_ascii=False, indent=indent))


def print_text(text: str, *, end: str = "") -> None:
    """Print text as it arrives. Unsafe characters are removed on a terminal and kept in a pipe."""
    click.echo((for_terminal(text) if sys.stdout.isatty() else text) + end, nl=False)
    sys.stdout.flush()


def print_answer(
    answer: object, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool, optional: Sequence[str] = ()
) -> None:
    """Print `rows` under `columns`; with `as_json` the answer."""
    if as_json:
        print_json(answer)
    else:
        print_table(columns, [*rows], optional)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], optional: Sequence[str] = ()) -> None:
    """Print `rows` under `columns`. Numbers are aligned right; None is an empty cell.

    A terminal that is too narrow gets fewer of the `optional` columns, the first named going first. A pipe gets one line of
    column names and one line per row, cells separated by tabs, nothing cut or padded.
    """
    if not sys.stdout.isatty():
        for row in ([*columns], *rows):
            click.echo("\t".join(_cell(value) for value in row))
        return
    from rich.console import Console, ConsoleDimensions
    from rich.measure import Measurement

    console = Console()
    for left_out in range(len(optional) + 1):
        kept = [at for at, name in enumerate(columns) if name not in optional[:left_out]]
        table = table_of([columns[at] for at in kept], [[row[at] for at in kept] for row in rows])
        needed = Measurement.get(console, console.options.update(max_width=MAX_WIDTH), table).maximum
        if needed <= console.width:
            break
    console.size = ConsoleDimensions(max(console.width, needed), console.height)  # a wrapped row is better than cut cells
    console.print(table)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Return the table that `print_table` shows on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, name in enumerate(columns):
        numeric = all(_is_amount(row[index]) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def fitting(widths: Sequence[int], optional: Sequence[int]) -> tuple[int, ...]:
    """Return the columns of an endless table, by number, that fit the terminal: fewer of the `optional` ones, the first first."""
    kept = list(range(len(widths)))
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        for column in optional:
            if sum(widths[at] for at in kept) + len(kept) - 1 <= width:
                break
            kept.remove(column)
    return tuple(kept)


def print_row(cells: Sequence[Cell], widths: Sequence[int]) -> None:
    """Print one row of an endless table: padded to `widths` on a terminal, never cut; else separated by tabs."""
    texts = [_cell(value) for value in cells]
    if sys.stdout.isatty():
        texts = [text.ljust(width) for text, width in zip(texts, widths, strict=True)]
        click.echo(" ".join(texts).rstrip())
    else:
        click.echo("\t".join(texts))


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else one_line(str(value))


def _is_amount(value: Cell) -> bool:
    """Return whether a cell is a number, money, a duration or empty; a column of these is aligned right."""
    return not isinstance(value, str) or not value or value == "unpriced" or bool(_AMOUNT.fullmatch(value))


def usd(amount: float | None) -> str:
    """Return `$0.00042`: at least two decimals and three significant digits. None means that no price is known."""
    if amount is None:
        return "unpriced"
    if amount == 0:
        return "$0"
    if abs(amount) >= 1:
        return f"${amount:,.2f}"
    digits = min(9, max(2, 2 - floor(log10(abs(amount)))))
    dollars, _, fraction = f"{amount:.{digits}f}".rstrip("0").partition(".")
    return f"${dollars}.{fraction:0<2}"


def ms(duration_ms: float) -> str:
    """Return `0.4 ms`, `38 ms` or `1.25 s`."""
    if duration_ms >= 1_000:
        return f"{duration_ms / 1_000:.2f} s"
    return f"{duration_ms:.0f} ms" if duration_ms >= 10 else f"{duration_ms:.1f} ms"


def money(amount: float | None) -> Cell:
    """Return dollars for a table: rounded for people, exact for programs."""
    if sys.stdout.isatty():
        return usd(amount)
    return None if amount is None else f"{amount:.9f}"


def duration(duration_ms: float | None) -> Cell:
    """Return a duration for a table: with its unit for people, in milliseconds for programs."""
    return ms(duration_ms) if sys.stdout.isatty() and duration_ms is not None else duration_ms


def timestamp(at: float) -> str:
    """Return a UTC time for a table, from Unix seconds: short for people, ISO 8601 for programs."""
    moment = datetime.fromtimestamp(at, UTC)
    return f"{moment:%m-%d %H:%M:%S}" if sys.stdout.isatty() else moment.isoformat(timespec="milliseconds")


def with_units(*names: str) -> tuple[str, ...]:
    """Return column names; for programs with the unit that `money` and `duration` then have."""
    if sys.stdout.isatty():
        return names
    return tuple(f"{name}_usd" if name == "cost" else f"{name.replace(' ', '_')}_ms" for name in names)


def can_show(stream: TextIO, characters: str) -> bool:
    """Return whether `stream`'s encoding has these characters, such as the blocks of a bar."""
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return os.environ.get("TERM") != "dumb"
