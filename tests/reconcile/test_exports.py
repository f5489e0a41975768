"""Files as vendors give them out: against traffic they agree to zero, and what they lack is said."""

from __future__ import annotations

import json
from decimal import Decimal

import openai.types.admin.organization as openai_types
import pytest

from gw.errors import RequestError
from gw.reconcile.files import FORMS, form_of, read_bill, read_usage
from tests.fakes import vendor_exports as exports
from tests.fakes.vendor_exports import DAY, as_json
from tests.reconcile.traffic import CASES, REQUESTS

FIGURES = {
    "input_tokens": Decimal(1_200), "output_tokens": Decimal(90), "audio_seconds": Decimal("61.5"),
    "characters": Decimal(500), "n_requests": Decimal(7), "cost_usd": Decimal("0.012345678"),
}  # fmt: skip
API = {
    "openai": (exports.openai_usage, exports.openai_costs),
    "anthropic": (exports.anthropic_usage, exports.anthropic_costs),
    "deepgram": (exports.deepgram_usage, exports.deepgram_costs),
    "elevenlabs": (exports.elevenlabs_characters, exports.elevenlabs_costs),
}
CONSOLE = {
    "openai": (exports.openai_activity_csv, exports.openai_costs_csv),
    "anthropic": (exports.anthropic_usage_csv, exports.anthropic_costs_csv),
}


def write(folder, exported, model, figures):
    """Write a vendor's files, and return their paths."""
    paths = []
    for number, export in enumerate(exported):
        content = export(model, figures)
        paths.append(folder / f"{number}.{'csv' if isinstance(content, str) else 'json'}")
        paths[-1].write_text(content if isinstance(content, str) else as_json(content))
    return paths


@pytest.mark.parametrize(
    ("vendor", "exported"), [*API.items(), *CONSOLE.items()],
    ids=[*(f"{name}-api" for name in API), *(f"{name}-console" for name in CONSOLE)],
)  # fmt: skip
async def test_usage_and_costs_agree_with_the_traffic_to_zero(traffic, vendor, exported, tmp_path, autojump_clock):
    """Both files at once; the vendor calls the model by a snapshot of it where it has snapshots."""
    model = CASES[vendor].model
    named = f"{model}-2024-08-06" if vendor == "openai" else model
    paths = write(tmp_path, exported, named, CASES[vendor].bill(traffic.ledger))
    report = await traffic.compare(*paths, threshold=0.0)
    [row] = report.rows
    assert (row.model, row.names) == (f"{vendor}/{model}", (named,) if named != model else ())
    assert (row.matched, row.flagged, row.cause) == ("both", False, "")
    assert row.cost_usd.diff == report.total_cost_usd.diff == 0
    assert row.cost_usd.ours
    assert all(figures.diff == 0 and figures.ours for figures in row.units.values())
    assert row.requests == REQUESTS
    assert row.n_requests in (None, REQUESTS)


@pytest.mark.parametrize("vendor", API)
async def test_usage_alone_compares_units_and_not_money(traffic, vendor, tmp_path, autojump_clock):
    [path, _] = write(tmp_path, API[vendor], CASES[vendor].model, CASES[vendor].bill(traffic.ledger))
    report = await traffic.compare(path, threshold=0.0)
    [row] = report.rows
    assert (row.flagged, row.cost_usd.theirs, row.cost_usd.diff, report.total_cost_usd.diff) == (False, None, None, None)
    assert all(figures.diff == 0 for figures in row.units.values())


@pytest.mark.parametrize("vendor", API)
async def test_costs_alone_compare_money_and_not_units(traffic, vendor, tmp_path, autojump_clock):
    figures = CASES[vendor].bill(traffic.ledger)
    [_, path] = write(tmp_path, API[vendor], CASES[vendor].model, {**figures, "cost_usd": figures["cost_usd"] * 2})
    [row] = (await traffic.compare(path)).rows
    assert (row.cause, row.cost_usd.percent) == ("rate", -50)
    assert all((figures.theirs, figures.diff) == (None, None) for figures in row.units.values())


@pytest.mark.parametrize(("vendor", "unit"), [("openai", "characters"), ("deepgram", "characters")])
def test_speech_of_the_same_answers_is_compared_on_demand(tmp_path, vendor, unit):
    [path, _] = write(tmp_path, API[vendor], "m", FIGURES)
    assert list(read_bill([path], form_of(vendor, "tts")).sums) == ["voice"]
    assert list(read_bill([path], form_of(vendor, "tts")).sums["voice"].units) == [unit]


def test_days_outside_the_window_are_left_out(tmp_path):
    paths = write(tmp_path, API["openai"], "m", FIGURES)
    bill = read_bill(paths, FORMS["openai"], days=(DAY + 1, None))
    assert (bill.sums, bill.left_out) == ({}, 4)
    assert read_bill(paths, FORMS["openai"], days=(DAY, DAY)).left_out == 0


@pytest.mark.parametrize("form", ["{0}{0}", "[{0}, {0}]", "{0}\n\n{0}\n"])
def test_several_pages_in_one_file(tmp_path, form):
    page = as_json(exports.openai_usage("m", FIGURES))
    (tmp_path / "pages.json").write_text(form.format(page))
    assert read_usage(tmp_path / "pages.json", FORMS["openai"])["m"].n_requests == 14


def test_money_is_exact(tmp_path):
    for vendor, exported in [*API.items(), *CONSOLE.items()]:
        paths = write(tmp_path, exported, "m", FIGURES)
        assert read_bill(paths, FORMS[vendor]).sums["m"].cost_nusd == 12_345_678, vendor


@pytest.mark.parametrize(
    ("title", "model"),
    [
        ("Claude Haiku 4.5", "claude-haiku-4-5"),
        ("Claude 3.5 Sonnet 2024-10-22", "claude-3-5-sonnet-20241022"),
        ("Claude Opus 5.5", "claude-opus-5-5"),
    ],
)
def test_the_consoles_title_of_a_model(tmp_path, title, model):
    (tmp_path / "costs.csv").write_text(exports.anthropic_costs_csv(title, FIGURES))
    assert list(read_usage(tmp_path / "costs.csv", FORMS["anthropic"])) == [model]


def test_a_cost_that_is_no_model_s_keeps_its_own_name(tmp_path):
    page = exports.anthropic_costs("m", FIGURES)
    page["data"][0]["results"].append(
        {"model": None, "amount": "250", "currency": "USD", "cost_type": "web_search", "description": "Web Search Usage"}
    )
    (tmp_path / "costs.json").write_text(as_json(page))
    assert read_usage(tmp_path / "costs.json", FORMS["anthropic"])["web_search"].cost_nusd == 2_500_000_000


def _without(export, *path):
    """Return the answer without what a grouping adds."""
    answer = json.loads(as_json(export("m", FIGURES)))
    for bucket in answer.get("data", [answer]):
        for result in bucket["results"]:
            where = result
            for member in path[:-1]:
                where = where[member]
            where[path[-1]] = None
    return answer


@pytest.mark.parametrize(
    ("vendor", "answer", "hint"),
    [
        ("openai", _without(exports.openai_usage, "model"), "group_by=model"),
        ("openai", _without(exports.openai_costs, "line_item"), "group_by=line_item"),
        ("anthropic", _without(exports.anthropic_usage, "model"), "group_by[]=model"),
        (
            "anthropic",
            {"data": [{"starting_at": exports.ISO[0], "results": [{"amount": "1", "model": None}]}]},
            "group_by[]=description",
        ),
        ("deepgram", _without(exports.deepgram_usage, "grouping", "models"), "grouping=models"),
        ("deepgram", _without(exports.deepgram_costs, "grouping", "line_item"), "grouping=line_item"),
        ("elevenlabs", {"time": [1], "usage": {"All": [3]}}, "breakdown_type=model"),
        ("elevenlabs", {"columns": ["x"], "column_units": ["usd"], "rows": []}, 'group_by=["model"]'),
        ("elevenlabs", {"columns": ["model", "x"], "column_units": [None, "s"], "rows": []}, "'usd' or 'credits'"),
        ("openai", exports.anthropic_usage("m", FIGURES), "of anthropic, not of openai"),
        ("deepgram", exports.openai_usage("m", FIGURES), "of openai, not of deepgram"),
    ],
)
def test_what_an_answer_lacks_is_said(tmp_path, vendor, answer, hint):
    (tmp_path / "answer.json").write_text(as_json(answer))
    with pytest.raises(RequestError) as caught:
        read_usage(tmp_path / "answer.json", FORMS[vendor])
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"amount": {"value": 1, "currency": "eur"}}, "USD"),
        ({"amount": {"value": "lots", "currency": "usd"}}, "column 'amount'"),
    ],
)
def test_an_amount_that_cannot_be_added(tmp_path, change, what):
    page = exports.openai_costs("m", FIGURES)
    page["data"][1]["results"][0] |= change
    (tmp_path / "costs.json").write_text(as_json(page))
    with pytest.raises(RequestError, match=what):
        read_usage(tmp_path / "costs.json", FORMS["openai"])


def test_answers_have_the_shape_of_the_vendors_types():
    """OpenAI's, whose SDK is at hand in every run; those of other vendors are checked where their SDKs are."""
    for model, export in (
        (openai_types.UsageCompletionsResponse, exports.openai_usage),
        (openai_types.UsageCostsResponse, exports.openai_costs),
    ):
        answer = model.model_validate_json(as_json(export("m", FIGURES)), strict=True)
        assert [result.object for result in answer.data[1].results]
        assert not [result.model_extra for result in answer.data[1].results if result.model_extra]


def test_credits_are_kept_where_the_unit_says_so(tmp_path):
    answer = exports.elevenlabs_costs("m", FIGURES)
    answer["column_units"] = [None, None, None, "credits"]
    (tmp_path / "usage.json").write_text(as_json(answer))
    billed = read_usage(tmp_path / "usage.json", FORMS["elevenlabs"])["m"]
    assert (billed.credits, billed.cost_nusd, billed.units) == (500, None, {})
