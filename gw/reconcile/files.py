"""A vendor's usage export, in one canonical form per vendor, read as a stream into sums per model.

CSV (header row, columns in any order) or JSON (an array of objects), by the file's extension. Only the sums and the chunk
being read are in memory, so a file of millions of rows needs no more than a small one. Other columns are ignored.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from io import SEEK_END, TextIOWrapper
from pathlib import Path
from typing import Literal

import attrs

from gw.errors import RequestError
from gw.types.ids import Modality
from gw.types.usage import NANO

ProviderName = Literal["openai", "deepgram", "cartesia"]
MOST_MODELS = 100_000  # different names in one file; a file with more does not list models
MOST_FIELD_CHARACTERS = 10_000
ROWS_PER_REPORT = 2_000  # rows, some 10 ms, between two reports of progress
_CHUNK = 65_536
_LARGEST = Decimal(10) ** 15

Progress = Callable[[int, int], None]
"""Called with the bytes read and the file's size, in the thread that reads. An exception from it ends the reading."""
Row = tuple[str, Mapping[str, object]]
"""Position in the file, for messages, and the fields."""


class _Malformed(Exception):
    """The file is not in the canonical form; the text says how."""


@attrs.frozen
class Form:
    """The canonical columns of one vendor's file. `units` are compared with what the gateway recorded."""

    provider: ProviderName
    modality: Modality
    units: tuple[str, ...]
    integral: bool
    """Units are whole numbers."""
    optional: tuple[str, ...] = ("n_requests",)

    @property
    def required(self) -> tuple[str, ...]:
        return ("model", *self.units, "cost_usd")


FORMS: Mapping[str, Form] = {
    form.provider: form
    for form in (
        Form("openai", "llm", ("input_tokens", "output_tokens"), integral=True),
        Form("deepgram", "stt", ("audio_seconds",), integral=False),
        Form("cartesia", "tts", ("characters",), integral=True, optional=("credits", "n_requests")),
    )
}


@attrs.define(kw_only=True)
class Billed:
    """The sums of one model in the vendor's file. Money in nano-USD; credits and refunds count negative."""

    units: dict[str, Decimal] = attrs.field(factory=dict)
    cost_nusd: int = 0
    n_requests: int | None = None
    credits: int | None = None
    rows: int = 0


def read_usage(path: Path, form: Form, *, on_progress: Progress | None = None) -> dict[str, Billed]:
    """Return model (the vendor's name) → billed sums. Blocks; raises RequestError naming file, row and column."""
    suffix = path.suffix.lower()
    try:
        if suffix not in (".csv", ".json"):
            raise _Malformed("the extension must be .csv or .json, which tells the format")
        with path.open("rb") as raw:
            utf16 = raw.read(4).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            size = raw.seek(0, SEEK_END)
            raw.seek(0)
            with TextIOWrapper(raw, encoding="utf-16" if utf16 else "utf-8-sig", newline="") as text:
                rows = _csv_rows(text, form) if suffix == ".csv" else _json_rows(text, form)
                if on_progress is not None:
                    rows = _reporting(rows, lambda: on_progress(raw.tell(), size))
                return _sums(rows, form)
    except _Malformed as error:
        what = str(error)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    except UnicodeError:
        what = "is not text in UTF-8 or UTF-16"
    raise RequestError(what=f"{path}: {what}", param="file")


def _reporting(rows: Iterable[Row], report: Callable[[], None]) -> Iterator[Row]:
    report()
    for number, row in enumerate(rows, 1):
        yield row
        if number % ROWS_PER_REPORT == 0:
            report()
    report()


def _csv_rows(text: TextIOWrapper, form: Form) -> Iterator[Row]:
    csv.field_size_limit(MOST_FIELD_CHARACTERS)
    reader = csv.reader(text, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_columns(header, form)
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            where = f"row {reader.line_num}"
            if len(values) != len(header):
                raise _Malformed(f"{where} has {len(values)} fields, the header has {len(header)}")
            yield where, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise _Malformed(f"row {reader.line_num}: {error}") from None


def _json_rows(text: TextIOWrapper, form: Form) -> Iterator[Row]:
    for number, value in enumerate(_elements(text), 1):
        where = f"row {number}"
        if not isinstance(value, dict):
            raise _Malformed(f"{where} is not an object")
        _check_columns(list(value), form, f"{where}: ")
        yield where, value


def _elements(text: TextIOWrapper) -> Iterator[object]:
    """Yield the values of a top-level array, each when all of it has been read."""
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse_constant)
    buffer = text.read(_CHUNK).lstrip()
    if not buffer:
        raise _Malformed("the file is empty")
    if not buffer.startswith("["):
        raise _Malformed("a JSON file must be an array of objects")
    buffer, first = buffer[1:], True
    while True:
        buffer = buffer.lstrip()
        while not buffer and (more := text.read(_CHUNK)):
            buffer = more.lstrip()
        if buffer.startswith("]"):
            if buffer[1:].strip() or text.read(_CHUNK).strip():
                raise _Malformed("something follows the end of the array")
            return
        if not first:
            if not buffer.startswith(","):
                raise _Malformed("not JSON: a comma or the array's end is missing")
            buffer = buffer[1:]
        first = False
        value, buffer = _decode_next(text, decoder, buffer)
        yield value


def _decode_next(text: TextIOWrapper, decoder: json.JSONDecoder, buffer: str) -> tuple[object, str]:
    """Decode the value at the start of `buffer`, reading on as needed; return it and what follows it."""
    while True:
        buffer = buffer.lstrip()
        try:
            value, end = decoder.raw_decode(buffer)
        except (ValueError, RecursionError) as error:
            more = text.read(_CHUNK) if len(buffer) < 16 * _CHUNK else ""
            if not more:
                why = str(error).partition(":")[0] if buffer else "the array has no end"
                raise _Malformed(f"not JSON: {why}") from None
            buffer += more
            continue
        if end < len(buffer) or not (more := text.read(_CHUNK)):  # a number may continue in the next chunk
            return value, buffer[end:]
        buffer += more


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _check_columns(columns: list[str], form: Form, where: str = "") -> None:
    if not any(columns):
        raise _Malformed(f"{where}the file is empty: a header row is required")
    if missing := [name for name in form.required if name not in columns]:
        similar = ((name, difflib.get_close_matches(name, columns, 1)) for name in missing)
        hints = [f"{close[0]!r} for {name!r}?" for name, close in similar if close]
        hint = f"; did you write {' '.join(hints)}" if hints else ""
        required, present = ", ".join(form.required), ", ".join(columns)
        raise _Malformed(f"{where}missing {', '.join(missing)}; required: {required}; found: {present}{hint}")
    for name in form.required + form.optional:
        if columns.count(name) > 1:
            raise _Malformed(f"{where}the column {name!r} appears twice")


def _sums(rows: Iterable[Row], form: Form) -> dict[str, Billed]:
    sums: dict[str, Billed] = {}
    for where, row in rows:
        name = row["model"]
        if not isinstance(name, str) or not name.strip():
            raise _Malformed(f"{where}, column 'model': a model's name is required")
        name = name.strip()
        if name not in sums and len(sums) >= MOST_MODELS:
            raise _Malformed(f"more than {MOST_MODELS:,} different models")
        billed = sums.setdefault(name, Billed())
        billed.rows += 1
        for unit in form.units:
            amount = _number(where, unit, row[unit], integral=form.integral)
            billed.units[unit] = billed.units.get(unit, Decimal(0)) + amount
        cost = _number(where, "cost_usd", row["cost_usd"], negative=True)
        billed.cost_nusd += int((cost * NANO).to_integral_value())
        for column in form.optional:
            value = row.get(column)
            if value is not None and value != "":
                count = int(_number(where, column, value, integral=True))
                setattr(billed, column, (getattr(billed, column) or 0) + count)
    return sums


def _number(where: str, column: str, value: object, *, integral: bool = False, negative: bool = False) -> Decimal:
    place, shown = f"{where}, column {column!r}", repr(value)[:40]
    try:
        if isinstance(value, Decimal):
            number = value
        elif isinstance(value, str) and value.isascii() and "_" not in value:
            number = Decimal(value.strip())
        else:
            raise InvalidOperation
    except InvalidOperation:
        raise _Malformed(f"{place}: {shown} is not a number (write 1234.5)") from None
    if not number.is_finite() or abs(number) > _LARGEST:
        raise _Malformed(f"{place}: {str(value)[:40]!r} is out of range")
    if number < 0 and not negative:
        raise _Malformed(f"{place}: must not be negative")
    if integral and number != number.to_integral_value():
        raise _Malformed(f"{place}: must be a whole number, not {str(value)[:40]!r}")
    return number
