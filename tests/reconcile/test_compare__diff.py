from datetime import date
from decimal import Decimal

import msgspec
import pytest

from gw.errors import RequestError
from gw.reconcile.compare import reconcile, window
from gw.reconcile.files import FORMS, Billed, VendorBill
from gw.store.rollups import ModelUsage
from gw.types.usage import NANO

LLM, STT, TTS = FORMS["openai"], FORMS["deepgram"], FORMS["cartesia"]


def ours(model="m", *, usd=1.0, **fields):
    return ModelUsage(
        **{
            "model": model,
            "calls": 10,
            "cost_nusd": round(usd * NANO),
            "unpriced": 0,
            "input_tokens": 1_000,
            "output_tokens": 100,
            "audio_seconds": 60.0,
            "characters": 500,
            **fields,
        }
    )


def theirs(*, usd=1.0, n_requests=None, **units):
    given = {name: Decimal(value) for name, value in units.items()} or {
        "input_tokens": Decimal(1_000),
        "output_tokens": Decimal(100),
    }
    return Billed(names=("m",), units=given, cost_nusd=round(usd * NANO), n_requests=n_requests)


def one(form, mine, bill, threshold=5.0):
    [row] = reconcile(form, [mine], VendorBill({"m": bill}, 0), (1, 2), threshold).rows
    return row


def test_equal_figures_are_not_flagged():
    row = one(LLM, ours(), theirs())
    assert (row.model, row.matched, row.flagged, row.cause) == ("openai/m", "both", False, "")
    assert (row.cost_usd.diff, row.cost_usd.percent) == (0, 0.0)


def test_a_stale_rate():
    row = one(LLM, ours(usd=0.9), theirs(usd=1.0))
    assert (row.flagged, row.cause) == (True, "rate")
    assert row.cost_usd.diff == -0.1
    assert row.cost_usd.percent == pytest.approx(-10)


def test_units_that_differ():
    row = one(STT, ours(audio_seconds=66.0, usd=1.1), theirs(usd=1.0, audio_seconds=60, n_requests=10))
    assert (row.flagged, row.cause) == (True, "units")
    assert row.units["audio_seconds"].percent == pytest.approx(10)


def test_requests_the_gateway_never_saw():
    row = one(STT, ours(audio_seconds=60.0), theirs(usd=2.0, audio_seconds=120, n_requests=20))
    assert (row.flagged, row.cause) == (True, "coverage")


def test_the_vendor_bills_by_characters_and_by_money():
    row = one(TTS, ours(characters=500, usd=0.015), theirs(usd=0.02, characters=500))
    assert (row.units["characters"].diff, row.cause) == (0, "rate")


def test_a_model_without_a_price():
    row = one(LLM, ours(usd=0, unpriced=10), theirs(usd=1.0))
    assert (row.flagged, row.cause) == (True, "unpriced")


@pytest.mark.parametrize(("diff", "flagged"), [(0.049, False), (0.05, False), (0.051, True), (-0.051, True)])
def test_the_threshold_is_exclusive(diff, flagged):
    assert one(LLM, ours(usd=1 + diff), theirs(usd=1.0)).flagged is flagged


def test_a_threshold_of_nothing_flags_every_nano_dollar():
    assert one(LLM, ours(cost_nusd=NANO + 1), theirs(usd=1.0), 0.0).flagged
    assert not one(LLM, ours(), theirs(), 0.0).flagged


def test_rows_without_a_counterpart():
    report = reconcile(LLM, [ours("mine")], VendorBill({"theirs": theirs(usd=2.0)}, 0), (1, 2))
    by_model = {row.model: row for row in report.rows}
    assert (by_model["openai/mine"].matched, by_model["openai/theirs"].matched) == ("ours_only", "theirs_only")
    assert {row.cause for row in report.rows} == {"coverage"}
    assert all(row.flagged for row in report.rows)
    assert by_model["openai/theirs"].cost_usd.percent == pytest.approx(-100)
    assert by_model["openai/mine"].cost_usd.percent is None
    assert (report.total_cost_usd.ours, report.total_cost_usd.theirs) == (1, 2)
    assert report.flagged == 2


def test_two_entries_of_one_vendor_are_one_row():
    report = reconcile(LLM, [ours(usd=0.4), ours(usd=0.6)], VendorBill({"m": theirs(input_tokens=2_000, output_tokens=200)}, 0), (1, 2))
    assert not report.flagged
    assert report.rows[0].requests == 20


def test_a_bill_of_nothing():
    row = one(LLM, ours(usd=0, input_tokens=0, output_tokens=0), theirs(usd=0, input_tokens=0, output_tokens=0))
    assert not row.flagged


def test_the_largest_difference_comes_first():
    mine = [ours("a", usd=1), ours("b", usd=5), ours("c", usd=3)]
    bills = {name: theirs(usd=1.0) for name in "abc"}
    assert [row.model for row in reconcile(LLM, mine, VendorBill(bills, 0), (1, 2)).rows] == ["openai/b", "openai/c", "openai/a"]


def test_as_json():
    report = msgspec.to_builtins(reconcile(LLM, [ours(usd=0.9)], VendorBill({"m": theirs(n_requests=10)}, 0), (20_000, 20_001)))
    assert report["window"] == {"start": "2024-10-04", "end": "2024-10-05"}
    [row] = report["rows"]
    assert row["cost_usd"] == {"ours": 0.9, "theirs": 1.0, "diff": -0.1, "percent": -10.0}
    assert row["units"]["input_tokens"] == {"ours": 1000.0, "theirs": 1000.0, "diff": 0.0, "percent": 0.0}
    assert (row["requests"], row["n_requests"], row["cause"], report["flagged"]) == (10, 10, "rate", 1)


def test_the_window():
    first, last = (date(2026, 1, 1) - date(1970, 1, 1)).days, (date(2026, 1, 31) - date(1970, 1, 1)).days
    assert window("2026-01-01", "2026-01-31", None) == (first, last)
    assert window(None, None, (5, 9)) == (5, 9)
    assert window("2026-01-01", None, (5, last)) == (first, last)
    assert window(None, None, None) is None
    assert window("2026-01-01", None, (5, 9)) == (first, first)  # nothing was recorded since
    for start, end in (("2026-02-30", None), ("yesterday", None), (None, "1.1.2026")):
        with pytest.raises(RequestError, match="2026-01-31"):
            window(start, end, (5, 9))
    with pytest.raises(RequestError, match="before the start"):
        window("2026-01-02", "2026-01-01", (5, 9))


@pytest.mark.parametrize(
    ("recorded", "billed", "rows"),
    [
        (["gpt-4o"], ["gpt-4o-2024-08-06"], {"gpt-4o": ("gpt-4o-2024-08-06",)}),
        (["gpt-4o"], ["gpt-4o-2024-08-06", "gpt-4o-2024-11-20"], {"gpt-4o": ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20")}),
        (["gpt-4o-2024-08-06"], ["gpt-4o-2024-08-06"], {"gpt-4o-2024-08-06": ()}),
        (["gpt-4o", "gpt-4o-2024-08-06"], ["gpt-4o-2024-08-06"], {"gpt-4o": ("gpt-4o-2024-08-06",)}),
        (["claude-haiku-4-5"], ["claude-haiku-4-5-20251001"], {"claude-haiku-4-5": ("claude-haiku-4-5-20251001",)}),
        (["gpt-4-0613"], ["gpt-4"], {"gpt-4": ()}),
        (["nova-3-general"], ["nova-3"], {"nova-3": ()}),
        (["gpt-4o"], ["gpt-4o-mini"], {"gpt-4o": (), "gpt-4o-mini": ()}),
    ],
)
def test_a_snapshot_is_an_edition_of_its_model(recorded, billed, rows):
    bill = VendorBill({name: Billed(names=(name,), units={}, cost_nusd=NANO // len(billed)) for name in billed}, 0)
    usage = [ours(name, usd=1 / len(recorded)) for name in recorded]
    report = reconcile(LLM, usage, bill, (1, 2))
    assert {row.model.removeprefix("openai/"): row.names for row in report.rows} == rows
    assert (report.total_cost_usd.diff, len(rows) == 1) == (0, all(row.matched == "both" for row in report.rows))
