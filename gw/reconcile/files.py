"""A vendor's usage export, in the one canonical form per vendor, read as a stream: sums per model.

CSV (header row, columns in any order) or JSON (an array of objects), told by the file's extension. Rows of one model add
up. Nothing is held but the sums and what is being read, so a file of millions of rows needs no more memory than a small
one. Columns beyond the canonical ones are left alone.
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
MOST_MODELS = 100_000
"""Different names in one file; more is no list of models."""
MOST_FIELD_CHARACTERS = 10_000
TOLD_EVERY = 2_000
"""Rows, some 10 ms, between two reports of progress."""
_CHUNK = 65_536
_LARGEST = Decimal(10) ** 15


Progress = Callable[[int, int], None]
"""Told of the bytes read and of all there are, in the thread that reads. What it raises ends the reading."""
Row = tuple[str, Mapping[str, object]]
"""Where it stands in the file, and its fields."""


@attrs.frozen(kw_only=True)
class Form:
    """The canonical columns of one vendor's file. `units` are compared with what the gateway recorded."""

    provider: ProviderName
    modality: Modality
    units: tuple[str, ...]
    whole: bool
    """Units are whole numbers."""
    optional: tuple[str, ...] = ("n_requests",)

    @property
    def required(self) -> tuple[str, ...]:
        return ("model", *self.units, "cost_usd")


FORMS: Mapping[str, Form] = {
    "openai": Form(provider="openai", modality="llm", units=("input_tokens", "output_tokens"), whole=True),
    "deepgram": Form(provider="deepgram", modality="stt", units=("audio_seconds",), whole=False),
    "cartesia": Form(
        provider="cartesia", modality="tts", units=("characters",), whole=True, optional=("credits", "n_requests")
    ),
}


@attrs.define(kw_only=True)
class Billed:
    """What the vendor's file says of one model. A sum of money in nano-USD; credits and refunds count negative."""

    units: dict[str, Decimal] = attrs.field(factory=dict)
    cost_nusd: int = 0
    n_requests: int | None = None
    credits: int | None = None
    rows: int = 0


def read_usage(path: Path, form: Form, *, on_progress: Progress | None = None) -> dict[str, Billed]:
    """Model (the vendor's name) → what was billed. Blocks; raises RequestError naming file, row and column."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json"):
        raise RequestError(what=f"{path}: the format is told by the extension, .csv or .json", param="file")
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            size = raw.seek(0, SEEK_END)
            raw.seek(0)
            with TextIOWrapper(raw, encoding=_encoding(start), newline="") as text:
                rows = _csv_rows(path, text, form) if suffix == ".csv" else _json_rows(path, text, form)
                if on_progress is not None:
                    rows = _told(rows, lambda: on_progress(raw.tell(), size))
                return _sums(path, rows, form)
    except OSError as error:
        raise RequestError(what=f"{path}: cannot be read: {error.strerror}", param="file") from None
    except UnicodeError:
        raise RequestError(what=f"{path}: is not text in UTF-8 or UTF-16", param="file") from None


def _told(rows: Iterable[Row], tell: Callable[[], None]) -> Iterator[Row]:
    tell()
    for number, row in enumerate(rows, 1):
        yield row
        if number % TOLD_EVERY == 0:
            tell()
    tell()


def _encoding(start: bytes) -> str:
    utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if utf16 else "utf-8-sig"


def _csv_rows(path: Path, text: TextIOWrapper, form: Form) -> Iterator[Row]:
    csv.field_size_limit(MOST_FIELD_CHARACTERS)
    reader = csv.reader(text, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_columns(path, header, form)
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            where = f"row {reader.line_num}"
            if len(values) != len(header):
                what = f"{path}: {where} has {len(values)} fields, the header has {len(header)}"
                raise RequestError(what=what, param="file")
            yield where, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise RequestError(what=f"{path}: row {reader.line_num}: {error}", param="file") from None


def _json_rows(path: Path, text: TextIOWrapper, form: Form) -> Iterator[Row]:
    for number, value in enumerate(_elements(path, text), 1):
        where = f"row {number}"
        if not isinstance(value, dict):
            raise RequestError(what=f"{path}: {where} is not an object", param="file")
        _check_columns(path, list(value), form, where)
        yield where, value


def _elements(path: Path, text: TextIOWrapper) -> Iterator[object]:
    """The values of a top-level array, each decoded when all of it has been read."""
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_no_number)
    buffer = text.read(_CHUNK).lstrip()
    if not buffer:
        raise RequestError(what=f"{path}: the file is empty", param="file")
    if not buffer.startswith("["):
        raise RequestError(what=f"{path}: a JSON file must be an array of objects", param="file")
    buffer, first = buffer[1:], True
    while True:
        buffer = buffer.lstrip()
        while not buffer and (more := text.read(_CHUNK)):
            buffer = more.lstrip()
        if buffer.startswith("]"):
            if buffer[1:].strip() or text.read(_CHUNK).strip():
                raise RequestError(what=f"{path}: something follows the end of the array", param="file")
            return
        if not first:
            if not buffer.startswith(","):
                raise RequestError(what=f"{path}: not JSON: a comma or the array's end is missing", param="file")
            buffer = buffer[1:]
        first = False
        value, buffer = _one(path, text, decoder, buffer)
        yield value


def _one(path: Path, text: TextIOWrapper, decoder: json.JSONDecoder, buffer: str) -> tuple[object, str]:
    while True:
        buffer = buffer.lstrip()
        try:
            value, end = decoder.raw_decode(buffer)
        except (ValueError, RecursionError) as error:
            more = text.read(_CHUNK) if len(buffer) < 16 * _CHUNK else ""
            if not more:
                why = str(error).partition(":")[0] if buffer else "the array has no end"
                raise RequestError(what=f"{path}: not JSON: {why}", param="file") from None
            buffer += more
            continue
        if end < len(buffer) or not (more := text.read(_CHUNK)):  # a number may go on in the next chunk
            return value, buffer[end:]
        buffer += more


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _check_columns(path: Path, found: list[str], form: Form, where: str = "") -> None:
    place = f"{path}: {where}" if where else f"{path}"
    if not any(found):
        raise RequestError(what=f"{place}: the file is empty: a header row is required", param="file")
    missing = [name for name in form.required if name not in found]
    if missing:
        hints = [f"{near[0]!r} for {name!r}?" for name in missing if (near := difflib.get_close_matches(name, found, 1))]
        hint = f"; did you write {' '.join(hints)}" if hints else ""
        what = f"{place}: missing {_list(missing)}; required: {_list(form.required)}; found: {_list(found)}{hint}"
        raise RequestError(what=what, param="file")
    for name in form.required + form.optional:
        if found.count(name) > 1:
            raise RequestError(what=f"{place}: the column {name!r} stands there twice", param="file")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _sums(path: Path, rows: Iterable[Row], form: Form) -> dict[str, Billed]:
    found: dict[str, Billed] = {}
    for where, row in rows:
        name = row["model"]
        if not isinstance(name, str) or not name.strip():
            raise RequestError(what=f"{path}: {where}, column 'model': a model's name is required", param="file")
        name = name.strip()
        billed = found.get(name)
        if billed is None:
            if len(found) >= MOST_MODELS:
                raise RequestError(what=f"{path}: more than {MOST_MODELS:,} different models", param="file")
            billed = found[name] = Billed()
        billed.rows += 1
        for unit in form.units:
            amount = _number(path, where, unit, row[unit], whole=form.whole)
            billed.units[unit] = billed.units.get(unit, Decimal(0)) + amount
        cost = _number(path, where, "cost_usd", row["cost_usd"], negative=True)
        billed.cost_nusd += int((cost * NANO).to_integral_value())
        for name_, attribute in (("n_requests", "n_requests"), ("credits", "credits")):
            given = row.get(name_)
            if name_ in form.optional and given is not None and given != "":
                count = int(_number(path, where, name_, given, whole=True))
                setattr(billed, attribute, (getattr(billed, attribute) or 0) + count)
    return found


def _number(
    path: Path, where: str, column: str, value: object, *, whole: bool = False, negative: bool = False
) -> Decimal:
    """Raises RequestError naming row and column."""
    place = f"{path}: {where}, column {column!r}"
    try:
        if isinstance(value, Decimal):
            number = value
        elif isinstance(value, str) and value.isascii() and "_" not in value:
            number = Decimal(value.strip())
        else:
            raise InvalidOperation
    except InvalidOperation:
        shown = repr(value)[:40]
        raise RequestError(what=f"{place}: {shown} is not a number (write 1234.5)", param="file") from None
    if not number.is_finite() or abs(number) > _LARGEST:
        raise RequestError(what=f"{place}: {str(value)[:40]!r} is no amount", param="file")
    if number < 0 and not negative:
        raise RequestError(what=f"{place}: must not be negative", param="file")
    if whole and number != number.to_integral_value():
        raise RequestError(what=f"{place}: must be a whole number, not {str(value)[:40]!r}", param="file")
    return number
