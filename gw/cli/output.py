"""How commands print: data on stdout (a table on a terminal, else TSV; JSON when asked), the rest on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import floor, log10
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.table import Table

    from gw.telemetry.redact import Redactor

Cell = str | int | float | None

MAX_WIDTH = 10_000
PARTS = 1_000
"""Of a bar, whatever is counted."""
_AMOUNT = re.compile(r"-?\$?-?[\d.,]+( m?s)?")
_CONTROL = dict.fromkeys((*range(0x20), 0x7F, *range(0x80, 0xA0)), " ")
"""Control characters would break a table, and could drive the reader's terminal."""
_CONTROL_BUT_LINES = dict.fromkeys((n for n in _CONTROL if n not in (0x09, 0x0A)), "")


def aside(text: str) -> None:
    """A line for people: progress, timings, where the data came from."""
    click.echo(text, err=True)


def log_warnings() -> Redactor:
    """For a command that opens a gateway of its own: what that logs goes to stderr, unless it is only information.

    `GW_LOG_LEVEL` says otherwise. Returns the redactor, which can learn secrets.
    """
    from gw.telemetry.log import setup_logging

    return setup_logging({"GW_LOG_LEVEL": "warning", **os.environ})


@contextmanager
def bar(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Progress of long work, on stderr where that is a terminal. What it yields is told how much is done."""
    with click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()) as shown:

        def done(steps: int) -> None:
            shown.update(min(steps, length) - shown.pos)

        yield done


@contextmanager
def share_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """As `bar`, for work that tells how much is done of how much there is, in bytes, pages or steps of its own."""
    with bar(label, PARTS) as step:
        yield lambda done, total: step(done * PARTS // max(total, 1))


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_text(text: str, *, end: str = "") -> None:
    """Text as it arrives. A terminal is kept from control sequences inside it; a pipe gets it as it is."""
    click.echo((text.translate(_CONTROL_BUT_LINES) if sys.stdout.isatty() else text) + end, nl=False)
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """`rows` under `columns`. Numbers stand to the right; None is an empty cell.

    A pipe gets one line of column names and one line per row, cells separated by tabs: nothing is cut or padded.
    """
    if not sys.stdout.isatty():
        for row in ([*columns], *rows):
            click.echo("\t".join(_cell(value) for value in row))
        return
    from rich.console import Console, ConsoleDimensions
    from rich.measure import Measurement

    table = table_of(columns, rows)
    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=MAX_WIDTH), table).maximum
    console.size = ConsoleDimensions(max(console.width, needed), console.height)  # rather a wrapped row than cut cells
    console.print(table)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """As `print_table` shows it on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(columns):
        numeric = all(_is_amount(row[index]) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def print_row(cells: Sequence[Cell], widths: Sequence[int]) -> None:
    """One row of a table that has no end: padded to `widths` on a terminal, never cut; else separated by tabs."""
    texts = [_cell(value) for value in cells]
    if sys.stdout.isatty():
        texts = [text.ljust(width) for text, width in zip(texts, widths, strict=True)]
        click.echo(" ".join(texts).rstrip())
    else:
        click.echo("\t".join(texts))


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value).translate(_CONTROL)


def _is_amount(value: Cell) -> bool:
    """Numbers, money and durations, which stand to the right; an empty cell may stand anywhere."""
    return not isinstance(value, str) or not value or value == "unpriced" or bool(_AMOUNT.fullmatch(value))


def usd(amount: float | None) -> str:
    """`$0.00042`: at least two digits after the point, and three that count. None = the model has no known price."""
    if amount is None:
        return "unpriced"
    if amount == 0:
        return "$0"
    if abs(amount) >= 1:
        return f"${amount:,.2f}"
    digits = min(9, max(2, 2 - floor(log10(abs(amount)))))
    whole, _, fraction = f"{amount:.{digits}f}".rstrip("0").partition(".")
    return f"${whole}.{fraction:0<2}"


def ms(duration_ms: float) -> str:
    """`0.4 ms`, `38 ms`, `1.25 s`."""
    if duration_ms >= 1_000:
        return f"{duration_ms / 1_000:.2f} s"
    return f"{duration_ms:.0f} ms" if duration_ms >= 10 else f"{duration_ms:.1f} ms"


def can_show(stream: TextIO, characters: str) -> bool:
    """Whether `stream`'s encoding has these characters, such as the blocks of a bar."""
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return os.environ.get("TERM") != "dumb"
