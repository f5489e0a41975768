"""Files as the vendors give them out: answers of their usage and cost APIs (JSON), and exports of their consoles (CSV).

Each reader names its source. What a vendor does not document is not read: docs/reconcile.md lists it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal

import attrs

from gw.reconcile.charges import Charge, Charges, Malformed, count, day_of, dollars, model_name, number, objects
from gw.types.ids import Modality

Fields = Mapping[str, object]


@attrs.frozen(kw_only=True)
class Export:
    """A CSV file of one vendor: `needs` are columns that no other file has together. Rows without any value are skipped."""

    provider: str
    title: str
    needs: frozenset[str]
    read: Callable[[str, Fields], Charges]


@attrs.frozen(kw_only=True)
class Answer:
    """A JSON answer of one vendor's API."""

    provider: str
    title: str
    matches: Callable[[Fields], bool]
    read: Callable[[str, Fields], Charges]


def csv_export(header: Collection[str]) -> Export | None:
    return next((export for export in CSV_EXPORTS if export.needs.issubset(header)), None)


def json_answer(value: Fields) -> Answer | None:
    return next((answer for answer in JSON_ANSWERS if answer.matches(value)), None)


def _filled(fields: Fields, *columns: str) -> bool:
    return any(fields.get(column) not in (None, "") for column in columns)


# ---- OpenAI: openai-python 3.54.0, types/admin/organization/usage_completions_response.py and usage_costs_response.py;
# columns of the console's exports: activity and cost files published by users, which have the names of the API's members


def _openai_usage(where: str, row: Fields, day: int) -> Charges:
    """Return one result of usage, with the members of the API."""
    if row.get("model") in (None, ""):
        raise Malformed(f"{where} has no model: ask the usage API with group_by=model, or export by model")
    modality: Modality = "tts" if _filled(row, "characters") else "stt" if _filled(row, "seconds") else "llm"
    match modality:
        case "tts":
            units = {"characters": number(where, "characters", row["characters"], integral=True)}
        case "stt":
            units = {"audio_seconds": number(where, "seconds", row["seconds"])}
        case "llm":
            tokens = ("input_tokens", "output_tokens")
            units = {unit: number(where, unit, row.get(unit), integral=True) for unit in tokens}
    yield Charge(
        model=model_name(where, "model", row["model"]),
        modality=modality,
        units=units,
        n_requests=count(where, "num_model_requests", row.get("num_model_requests")),
        day=day,
    )


_OPENAI_USED = {
    f"organization.usage.{kind}.result" for kind in ("completions", "embeddings", "moderations", "audio_speeches", "audio_transcriptions")
}
"""Results of other kinds (images, vector stores, …) are of calls that the gateway does not make."""


def _line_item(where: str, item: object) -> str:
    """Return the model of `gpt-4o-2024-08-06, cached input`."""
    if item in (None, ""):
        raise Malformed(f"{where} has no line item: ask the costs API with group_by=line_item, or export by line item")
    return model_name(where, "line_item", item).partition(",")[0]


def _openai_page(where: str, page: Fields) -> Charges:
    for bucket in objects(page["data"], f"{where}, data"):
        day = day_of(where, "start_time", bucket.get("start_time"))
        for result in objects(bucket.get("results"), f"{where}, results"):
            kind = result.get("object")
            if kind == "organization.costs.result":
                amount = result.get("amount")
                if not isinstance(amount, dict) or str(amount.get("currency", "usd")).lower() != "usd":
                    raise Malformed(f"{where}: an amount in USD is required")
                model = _line_item(where, result.get("line_item"))
                yield Charge(model=model, cost_nusd=dollars(where, "amount", amount.get("value")), day=day)
            elif kind in _OPENAI_USED:
                yield from _openai_usage(where, result, day)


def _openai_activity(where: str, row: Fields) -> Charges:
    if _filled(row, "model", "num_model_requests"):  # days without usage have a row, too
        yield from _openai_usage(where, row, day_of(where, "start_time", row["start_time"]))


def _openai_costs(where: str, row: Fields) -> Charges:
    if not _filled(row, "amount_value"):
        return
    if str(row.get("amount_currency") or "usd").lower() != "usd":
        raise Malformed(f"{where}: an amount in USD is required")
    yield Charge(
        model=_line_item(where, row["line_item"]),
        cost_nusd=dollars(where, "amount_value", row["amount_value"]),
        day=day_of(where, "start_time", row["start_time"]),
    )


# ---- Anthropic: platform.claude.com/docs, "Get Messages Usage Report" and "Get Cost Report" of the Admin API (amounts are
# cents as decimal strings), and anthropic-sdk-python 2.12.0, beta_analytics_{usage,cost}_bucketed_result.py, which has the
# same members. Console exports: files published by users (usage_date_utc, model_version, usage_input_tokens_no_cache, …)

_ANTHROPIC_INPUT = ("uncached_input_tokens", "cache_read_input_tokens")
_ANTHROPIC_CSV_INPUT = (
    "usage_input_tokens_no_cache", "usage_input_tokens_cache_read", "usage_input_tokens_cache_write",
    "usage_input_tokens_cache_write_5m", "usage_input_tokens_cache_write_1h",
)  # fmt: skip


def _sum(where: str, row: Fields, columns: Collection[str]) -> Decimal:
    present = (number(where, column, row[column], integral=True) for column in columns if _filled(row, column))
    return sum(present, Decimal(0))


def _anthropic_page(where: str, page: Fields) -> Charges:
    for bucket in objects(page["data"], f"{where}, data"):
        day = day_of(where, "starting_at", bucket.get("starting_at"))
        for result in objects(bucket.get("results"), f"{where}, results"):
            model = result.get("model")
            if "amount" in result:
                other = result.get("cost_type") if result.get("cost_type") != "tokens" else None
                if not model and not other:
                    raise Malformed(f"{where} has no model: ask the cost report with group_by[]=description")
                if result.get("currency", "USD") != "USD":
                    raise Malformed(f"{where}: an amount in USD is required")
                amount = dollars(where, "amount", result["amount"], per_usd=100)
                yield Charge(model=model_name(where, "model", model or other), modality="llm", cost_nusd=amount, day=day)
            else:
                if not model:
                    raise Malformed(f"{where} has no model: ask the usage report with group_by[]=model")
                written = result.get("cache_creation")
                writes = _sum(where, written, list(written)) if isinstance(written, dict) else Decimal(0)
                units = {
                    "input_tokens": _sum(where, result, _ANTHROPIC_INPUT) + writes,
                    "output_tokens": number(where, "output_tokens", result.get("output_tokens"), integral=True),
                }
                yield Charge(model=model_name(where, "model", model), modality="llm", units=units, day=day)


def _anthropic_usage(where: str, row: Fields) -> Charges:
    units = {
        "input_tokens": _sum(where, row, _ANTHROPIC_CSV_INPUT),
        "output_tokens": number(where, "usage_output_tokens", row["usage_output_tokens"], integral=True),
    }
    model, day = model_name(where, "model_version", row["model_version"]), row["usage_date_utc"]
    yield Charge(model=model, modality="llm", units=units, day=day_of(where, "usage_date_utc", day))


def _anthropic_costs(where: str, row: Fields) -> Charges:
    """Yield the charge of a row. The console writes a model's title: `Claude Haiku 4.5` is claude-haiku-4-5."""
    title = model_name(where, "model", row["model"])
    yield Charge(
        model=re.sub(r"(\d{4})-(\d{2})-(\d{2})$", r"\1\2\3", re.sub(r"[ .]+", "-", title.lower())),
        modality="llm",
        cost_nusd=dollars(where, "cost_usd", row["cost_usd"]),
        day=day_of(where, "usage_date_utc", row["usage_date_utc"]),
    )


# ---- Deepgram: deepgram-sdk 7.17.0, types/usage_breakdown_v1response_results_item.py and
# billing_breakdown_v1response_results_item.py; developers.deepgram.com/reference/manage (line items as `streaming::nova-3`)


def _deepgram_model(title: str) -> str:
    return title.strip().lower().replace(" ", "-")


def _deepgram_usage(where: str, answer: Fields) -> Charges:
    for result in objects(answer["results"], f"{where}, results"):
        grouping = _grouping(where, result)
        models = [model for model in grouping.get("models") or () if model]  # type: ignore[attr-defined]  # a list, or null
        if not models:
            raise Malformed(f"{where} has no model: ask the usage breakdown with grouping=models")
        model, day = _deepgram_model(model_name(where, "models", models[0])), _deepgram_day(where, grouping)
        requests = count(where, "requests", result.get("requests"))
        hours = number(where, "hours", result.get("hours"))
        characters = number(where, "tts_characters", result.get("tts_characters"), integral=True)
        if hours or not characters:
            seconds = round(hours * 3_600, 6)
            units = {"audio_seconds": seconds}
            yield Charge(model=model, modality="stt", units=units, n_requests=requests, day=day)
        if characters:
            units = {"characters": characters}
            yield Charge(model=model, modality="tts", units=units, n_requests=requests, day=day)


def _deepgram_costs(where: str, answer: Fields) -> Charges:
    for result in objects(answer["results"], f"{where}, results"):
        grouping = _grouping(where, result)
        if not grouping.get("line_item"):
            raise Malformed(f"{where} has no line item: ask the billing breakdown with grouping=line_item")
        item = model_name(where, "line_item", grouping["line_item"]).split("::")
        yield Charge(
            model=_deepgram_model(item[1] if len(item) > 1 else item[0]),
            cost_nusd=dollars(where, "dollars", result["dollars"]),
            day=_deepgram_day(where, grouping),
        )


def _grouping(where: str, result: Fields) -> Fields:
    grouping = result.get("grouping")
    if not isinstance(grouping, dict):
        raise Malformed(f"{where}: a result has no grouping")
    return grouping


def _deepgram_day(where: str, grouping: Fields) -> int | None:
    """Return the day of a group; None for one that covers several."""
    start, end = grouping.get("start"), grouping.get("end")
    return day_of(where, "start", start) if start and start == end else None


# ---- ElevenLabs: elevenlabs 2.78.0, types/usage_characters_response_model.py (usage.get; which metric it is does not stand
# in the answer), and types/workspace_analytics_query_response_model.py (workspace.usage; column_units are credits, usd, …)


def _elevenlabs_characters(where: str, answer: Fields) -> Charges:
    times, usage = answer["time"], answer["usage"]
    if not isinstance(times, list) or not isinstance(usage, dict):
        raise Malformed(f"{where}: time must be a list, and usage an object")
    if list(usage) == ["All"]:
        raise Malformed(f"{where} has no models: ask with breakdown_type=model and metric=tts_characters")
    for model, values in usage.items():
        if not isinstance(values, list) or len(values) != len(times):
            raise Malformed(f"{where}: the values of {model!r} are not as many as the times")
        for at, value in zip(times, values, strict=True):
            units = {"characters": number(where, model, value)}
            yield Charge(model=model, modality="tts", units=units, day=_milliseconds_day(where, at))


def _milliseconds_day(where: str, at: object) -> int:
    """Return the day of a point in time.

    The time axis is documented in Unix time; the query takes milliseconds, and answers have them.
    """
    seconds = number(where, "time", at)
    return int(seconds / 1_000 if seconds > 10**11 else seconds) // 86_400


def _elevenlabs_table(where: str, answer: Fields) -> Charges:
    columns, units, rows = answer["columns"], answer["column_units"], answer["rows"]
    if not (isinstance(columns, list) and isinstance(units, list) and isinstance(rows, list)):
        raise Malformed(f"{where}: columns, column_units and rows must be lists")
    if "model" not in columns:
        raise Malformed(f"{where} has no column 'model': ask with group_by=[\"model\"]")
    of_unit = dict(zip(units, columns, strict=False))
    if "usd" not in of_unit and "credits" not in of_unit:
        raise Malformed(f"{where}: no column has the unit 'usd' or 'credits'")
    for index, values in enumerate(rows, 1):
        place = f"{where}, row {index}"
        if not isinstance(values, list) or len(values) != len(columns):
            raise Malformed(f"{place} does not have {len(columns)} values")
        row: dict[str, object] = dict(zip(columns, values, strict=True))
        if row["model"] is None:  # a product without a model, such as dubbing
            continue
        cost, spent = of_unit.get("usd", ""), of_unit.get("credits", "")
        yield Charge(
            model=model_name(place, "model", row["model"]),
            cost_nusd=dollars(place, cost, row[cost]) if cost else None,
            credits=int(number(place, spent, row[spent])) if spent else None,
        )


CSV_EXPORTS = (
    Export(
        provider="openai", title="activity export", read=_openai_activity,
        needs=frozenset({"start_time", "num_model_requests", "model"}),
    ),
    Export(
        provider="openai", title="cost export", read=_openai_costs,
        needs=frozenset({"start_time", "amount_value", "line_item"}),
    ),
    Export(
        provider="anthropic", title="usage export", read=_anthropic_usage,
        needs=frozenset({"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"}),
    ),
    Export(
        provider="anthropic", title="cost export", read=_anthropic_costs,
        needs=frozenset({"usage_date_utc", "model", "token_type", "cost_usd"}),
    ),
)  # fmt: skip


def _first(value: Fields, members: str) -> Fields:
    entries = value.get(members)
    return entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else {}


JSON_ANSWERS = (
    Answer(
        provider="openai", title="page of the usage or costs API", read=_openai_page,
        matches=lambda value: value.get("object") == "page" and "data" in value,
    ),
    Answer(
        provider="anthropic", title="usage or cost report", read=_anthropic_page,
        matches=lambda value: "starting_at" in _first(value, "data") or (value.get("data") == [] and "has_more" in value),
    ),
    Answer(
        provider="deepgram", title="billing breakdown", read=_deepgram_costs,
        matches=lambda value: "resolution" in value and "dollars" in _first(value, "results"),
    ),
    Answer(
        provider="deepgram", title="usage breakdown", read=_deepgram_usage,
        matches=lambda value: "resolution" in value and "results" in value,
    ),
    Answer(
        provider="elevenlabs", title="usage metrics", read=_elevenlabs_characters,
        matches=lambda value: "time" in value and "usage" in value,
    ),
    Answer(
        provider="elevenlabs", title="workspace usage", read=_elevenlabs_table,
        matches=lambda value: "columns" in value and "column_units" in value and "rows" in value,
    ),
)  # fmt: skip
