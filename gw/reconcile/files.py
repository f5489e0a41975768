"""Vendors' files, read as a stream into sums per model.

CSV or JSON, by the file's extension; which of the known forms it is follows from its columns or members. There is one
canonical form per vendor and modality (CSV, or a JSON array of objects), and `gw.reconcile.exports` has those that vendors
give out themselves. Only the sums and the chunk being read are in memory, so a file of millions of rows needs no more
than a small one. Other columns are ignored.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from io import SEEK_END, TextIOWrapper
from pathlib import Path

import attrs

from gw.errors import RequestError
from gw.reconcile import exports
from gw.reconcile.charges import Charge, Charges, Malformed, count, day_of, dollars, model_name, number
from gw.types.ids import Modality

MOST_MODELS = 100_000  # different names in one file; a file with more does not list models
MOST_FIELD_CHARACTERS = 10_000
ROWS_PER_REPORT = 2_000  # rows, some 10 ms, between two reports of progress
_CHUNK = 65_536
_LARGEST_ANSWER = 1_024  # chunks (64 MB) of one JSON value; an answer of an API is a single one

NO_COLUMNS: Mapping[str, str] = {}
Progress = Callable[[int, int], None]
"""Called with the bytes read and the file's size, in the thread that reads. An exception from it ends the reading."""


@attrs.frozen
class Form:
    """The canonical columns of one vendor's file. `units` are compared with what the gateway recorded."""

    provider: str
    modality: Modality
    units: tuple[str, ...]
    optional: tuple[str, ...] = ("n_requests",)

    @property
    def required(self) -> tuple[str, ...]:
        return ("model", *self.units, "cost_usd")

    def integral(self, unit: str) -> bool:
        return unit != "audio_seconds"


_UNITS: Mapping[Modality, tuple[str, ...]] = {
    "llm": ("input_tokens", "output_tokens"), "stt": ("audio_seconds",), "tts": ("characters",),
}  # fmt: skip
_MODALITIES: Mapping[str, tuple[Modality, ...]] = {
    "openai": ("llm", "stt", "tts"), "deepgram": ("stt", "tts"), "cartesia": ("tts", "stt"), "anthropic": ("llm",),
    "elevenlabs": ("tts", "stt"), "assemblyai": ("stt",), "groq": ("llm", "stt", "tts"),
}  # fmt: skip
"""The first one is compared unless another one is asked for."""
_CREDITS = ("cartesia", "elevenlabs")
_EVER = (-(2**62), 2**62)


def form_of(provider: str, modality: Modality | None = None) -> Form:
    """Return the form of a vendor's file. Raises RequestError listing what there is."""
    if provider not in _MODALITIES:
        what = f"{provider!r} has no canonical usage file; these have one: {', '.join(_MODALITIES)}"
        raise RequestError(what=what, param="provider")
    offered = _MODALITIES[provider]
    if modality is not None and modality not in offered:
        raise RequestError(what=f"{provider} is compared by {' or '.join(offered)}, not {modality}", param="modality")
    chosen = modality or offered[0]
    optional = ("credits", "n_requests") if provider in _CREDITS else ("n_requests",)
    return Form(provider, chosen, _UNITS[chosen], optional)


FORMS: Mapping[str, Form] = {provider: form_of(provider) for provider in _MODALITIES}


@attrs.define(kw_only=True)
class Billed:
    """The sums of one model in the vendor's files. Money in nano-USD; credits and refunds count negative.

    A unit is missing, and `cost_nusd` None, where no file has it. `names` are the vendor's names of the model.
    """

    units: dict[str, Decimal] = attrs.field(factory=dict)
    cost_nusd: int | None = None
    n_requests: int | None = None
    credits: int | None = None
    rows: int = 0
    names: tuple[str, ...] = ()

    def add(self, charge: Charge) -> None:
        self.rows += 1
        for unit, amount in charge.units.items():
            self.units[unit] = self.units.get(unit, Decimal(0)) + amount
        self.cost_nusd = _added(self.cost_nusd, charge.cost_nusd)
        self.n_requests = _added(self.n_requests, charge.n_requests)
        self.credits = _added(self.credits, charge.credits)

    def __add__(self, other: Billed) -> Billed:
        units = {unit: self.units.get(unit, Decimal(0)) + other.units.get(unit, Decimal(0)) for unit in self.units | other.units}
        return Billed(
            units=units,
            cost_nusd=_added(self.cost_nusd, other.cost_nusd),
            n_requests=_added(self.n_requests, other.n_requests),
            credits=_added(self.credits, other.credits),
            rows=self.rows + other.rows,
            names=self.names + other.names,
        )


def _added(value: int | None, more: int | None) -> int | None:
    return value if more is None else (value or 0) + more


@attrs.frozen
class VendorBill:
    """Sums by model (the vendor's name). `left_out`: rows of days outside the window."""

    sums: Mapping[str, Billed]
    left_out: int


def read_bill(
    paths: Sequence[Path], form: Form, *, days: tuple[int | None, int | None] = (None, None),
    is_other: Callable[[str], bool] = lambda name: False, on_progress: Progress | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
) -> VendorBill:  # fmt: skip
    """Add several files up. Blocks; raises RequestError naming file, row and column.

    `days`: first and last UTC day; rows of other days are left out, those without a day are not. `is_other`
    returns whether a model is known for another modality: of such a one, a cost that does not name its modality is left out.
    `columns`: our names → the file's, as `parse_columns` returns them; then the files are read by these alone.
    """
    sums: dict[str, Billed] = {}
    left_out = 0
    first, last = days
    for path in paths:
        for charge in _charges(path, form, on_progress, columns):
            if charge.modality not in (None, form.modality) or (charge.modality is None and is_other(charge.model)):
                continue
            if charge.day is not None and not (_EVER[0] if first is None else first) <= charge.day <= (last or _EVER[1]):
                left_out += 1
                continue
            if charge.model not in sums and len(sums) >= MOST_MODELS:
                raise RequestError(what=f"{path}: more than {MOST_MODELS:,} different models", param="file")
            sums.setdefault(charge.model, Billed(names=(charge.model,))).add(charge)
    return VendorBill(sums, left_out)


def read_usage(path: Path, form: Form, *, on_progress: Progress | None = None) -> Mapping[str, Billed]:
    """Return the sums of one file by model. Like `read_bill`."""
    return read_bill([path], form, on_progress=on_progress).sums


def parse_columns(texts: Iterable[str], form: Form) -> Mapping[str, str]:
    """Read `ours=theirs,…` of a command line; names with a comma stand in double quotes. Raises RequestError."""
    known = ("model", *form.units, "cost_usd", *form.optional, "date")
    columns: dict[str, str] = {}
    for pair in (pair for row in csv.reader(texts) for pair in row):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (equals and theirs) or ours not in known:
            what = f"{pair!r} is not a pair as ours=theirs, with one of {', '.join(known)} before the equals sign"
            raise RequestError(what=what, param="columns")
        columns[ours] = theirs
    if columns and ("model" not in columns or columns.keys().isdisjoint((*form.units, "cost_usd"))):
        what = f"columns must name the model, and one of {', '.join((*form.units, 'cost_usd'))}"
        raise RequestError(what=what, param="columns")
    return columns


def _charges(path: Path, form: Form, on_progress: Progress | None, columns: Mapping[str, str]) -> Charges:
    suffix = path.suffix.lower()
    try:
        if suffix not in (".csv", ".json"):
            raise Malformed("the extension must be .csv or .json, which tells the format")
        with path.open("rb") as raw:
            utf16 = raw.read(4).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            size = raw.seek(0, SEEK_END)
            raw.seek(0)
            with TextIOWrapper(raw, encoding="utf-16" if utf16 else "utf-8-sig", newline="") as text:
                charges = (_csv_charges if suffix == ".csv" else _json_charges)(text, form, columns)
                if on_progress is not None:
                    charges = _reporting(charges, lambda: on_progress(raw.tell(), size))
                yield from charges
                return
    except Malformed as error:
        what = str(error)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    except UnicodeError:
        what = "is not text in UTF-8 or UTF-16"
    raise RequestError(what=f"{path}: {what}", param="file")


def _reporting(charges: Charges, report: Callable[[], None]) -> Charges:
    report()
    for index, charge in enumerate(charges, 1):
        yield charge
        if index % ROWS_PER_REPORT == 0:
            report()
    report()


def _csv_charges(text: TextIOWrapper, form: Form, columns: Mapping[str, str]) -> Charges:
    csv.field_size_limit(MOST_FIELD_CHARACTERS)
    reader = csv.reader(text, strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        read = _csv_reader(header, form, columns)
        for values in reader:
            if not any(map(str.strip, values)):
                continue
            where = f"row {reader.line_num}"
            if len(values) != len(header):
                raise Malformed(f"{where} has {len(values)} fields, the header has {len(header)}")
            yield from read(where, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise Malformed(f"row {reader.line_num}: {error}") from None


def _csv_reader(header: list[str], form: Form, columns: Mapping[str, str]) -> Callable[[str, Mapping[str, object]], Charges]:
    if columns:
        _check_mapped(header, columns)
        return lambda where, row: _mapped(where, row, form, columns)
    export = None if set(form.required).issubset(header) else exports.csv_export(header)
    if export is None:
        _check_columns(header, form)
        return lambda where, row: _canonical(where, row, form)
    _check_vendor(export, form)
    return export.read


def _check_mapped(header: Collection[str], columns: Mapping[str, str], where: str = "") -> None:
    if missing := [theirs for theirs in columns.values() if theirs not in header]:
        raise Malformed(f"{where}no column {', '.join(map(repr, missing))}, which --columns names; found: {', '.join(header)}")


def _mapped(where: str, row: Mapping[str, object], form: Form, columns: Mapping[str, str]) -> Charges:
    """Read a row by the columns that the caller names. What it names nothing for, the file does not have."""
    optional = {name: count(where, columns[name], row[columns[name]]) for name in form.optional if name in columns}
    yield Charge(
        model=model_name(where, columns["model"], row[columns["model"]]),
        modality=form.modality,
        units={
            unit: number(where, columns[unit], row[columns[unit]], integral=form.integral(unit))
            for unit in form.units
            if unit in columns
        },
        cost_nusd=dollars(where, columns["cost_usd"], row[columns["cost_usd"]]) if "cost_usd" in columns else None,
        day=day_of(where, columns["date"], row[columns["date"]]) if "date" in columns else None,
        **optional,
    )


def _check_vendor(found: exports.Export | exports.Answer, form: Form) -> None:
    if found.provider != form.provider:
        raise Malformed(f"this is a {found.title} of {found.provider}, not of {form.provider}")


def _json_charges(text: TextIOWrapper, form: Form, columns: Mapping[str, str]) -> Charges:
    """Read a canonical array, or answers of the vendor's API: one or several, also in an array."""
    for index, value in enumerate(_values(text), 1):
        where = f"row {index}"
        if not isinstance(value, dict):
            raise Malformed(f"{where} is not an object")
        answer = None if columns else exports.json_answer(value)
        if columns:
            _check_mapped(value, columns, f"{where}: ")
            yield from _mapped(where, value, form, columns)
        elif answer is not None:
            _check_vendor(answer, form)
            yield from answer.read(f"answer {index}", value)
        else:
            _check_columns(list(value), form, f"{where}: ")
            yield from _canonical(where, value, form)


def _values(text: TextIOWrapper) -> Iterator[object]:
    """Yield the elements of a top-level array, or the top-level objects of the file; each when all of it has been read."""
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse_constant)
    buffer = text.read(_CHUNK).lstrip()
    if not buffer:
        raise Malformed("the file is empty")
    if buffer.startswith("["):
        yield from _elements(text, decoder, buffer[1:])
    elif not buffer.startswith("{"):
        raise Malformed("a JSON file must be an array of objects, or an answer of the vendor's API")
    else:
        while buffer:
            value, buffer = _decode_next(text, decoder, buffer)
            yield value
            buffer = buffer.lstrip() or text.read(_CHUNK).lstrip()


def _elements(text: TextIOWrapper, decoder: json.JSONDecoder, buffer: str) -> Iterator[object]:
    first = True
    while True:
        buffer = buffer.lstrip()
        while not buffer and (more := text.read(_CHUNK)):
            buffer = more.lstrip()
        if buffer.startswith("]"):
            if buffer[1:].strip() or text.read(_CHUNK).strip():
                raise Malformed("something follows the end of the array")
            return
        if not first:
            if not buffer.startswith(","):
                raise Malformed("not JSON: a comma or the array's end is missing")
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
            more = text.read(max(_CHUNK, len(buffer))) if len(buffer) < _LARGEST_ANSWER * _CHUNK else ""
            if not more:
                why = str(error).partition(":")[0] if buffer else "the array has no end"
                raise Malformed(f"not JSON: {why}") from None
            buffer += more
            continue
        if end < len(buffer) or not (more := text.read(_CHUNK)):  # a number may continue in the next chunk
            return value, buffer[end:]
        buffer += more


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _check_columns(columns: list[str], form: Form, where: str = "") -> None:
    if not any(columns):
        raise Malformed(f"{where}the file is empty: a header row is required")
    if missing := [name for name in form.required if name not in columns]:
        similar = ((name, difflib.get_close_matches(name, columns, 1)) for name in missing)
        hints = [f"{close[0]!r} for {name!r}?" for name, close in similar if close]
        hint = f"; did you write {' '.join(hints)}" if hints else ""
        required, present = ", ".join(form.required), ", ".join(columns)
        raise Malformed(f"{where}missing {', '.join(missing)}; required: {required}; found: {present}{hint}")
    for name in form.required + form.optional:
        if columns.count(name) > 1:
            raise Malformed(f"{where}the column {name!r} appears twice")


def _canonical(where: str, row: Mapping[str, object], form: Form) -> Charges:
    optional = {column: count(where, column, row.get(column)) for column in form.optional}
    yield Charge(
        model=model_name(where, "model", row["model"]),
        modality=form.modality,
        units={unit: number(where, unit, row[unit], integral=form.integral(unit)) for unit in form.units},
        cost_nusd=dollars(where, "cost_usd", row["cost_usd"]),
        **optional,
    )
