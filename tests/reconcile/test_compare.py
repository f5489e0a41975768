"""A vendor's file from the fake vendor's own ledger: it agrees with what was recorded to the nano-dollar."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
import trio

from gw.errors import RequestError
from gw.reconcile.files import ROWS_PER_REPORT
from tests.fakes.records import NOON, record
from tests.reconcile.traffic import CASES, REQUESTS


@pytest.mark.parametrize("vendor", CASES)
async def test_the_vendors_own_ledger_reconciles_to_zero(traffic, tmp_path, autojump_clock):
    traffic.write_bill(tmp_path / "bill.csv")
    report = await traffic.compare(tmp_path / "bill.csv", threshold=0.0)
    [row] = report.rows
    assert (row.matched, row.flagged, row.cost_usd.diff, report.total_cost_usd.diff) == ("both", False, 0, 0)
    assert all(compared.diff == 0 and compared.ours for compared in row.units.values())
    assert row.requests == row.n_requests == REQUESTS
    assert row.cost_usd.ours


@pytest.mark.parametrize("vendor", CASES)
async def test_a_changed_price_is_found(traffic, tmp_path, autojump_clock):
    traffic.write_bill(tmp_path / "bill.csv", rate=Decimal("1.1"))
    report = await traffic.compare(tmp_path / "bill.csv")
    assert [(row.cause, row.flagged) for row in report.rows] == [("rate", True)]


async def test_only_the_window_and_the_modality_count(traffic, tmp_path, autojump_clock):
    """Speech-to-text of the same vendor stays out of the language models' bill."""
    gateway = traffic.gateway
    other = {"modality": "stt", "provider": "openai", "model_id": "openai/whisper-1"}
    await gateway.store.load([record("w", **other), record("old", provider="openai", timestamp=NOON - 86_400 * 3)])
    traffic.write_bill(tmp_path / "bill.csv")

    async def models(**window):
        found = await traffic.compare(tmp_path / "bill.csv", **window)
        return {row.model: row.matched for row in found.rows}, found.window.start, found.window.end

    day = await models(start="2023-11-15", end="2023-11-15")
    assert day[0] == {"openai/gpt-x": "both"}
    everything, start, end = await models()
    assert set(everything) == {"openai/gpt-x"}
    assert (date.fromisoformat(end) - date.fromisoformat(start)).days == 3


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"provider": "ollama"}, "openai, deepgram, cartesia"),
        ({"modality": "llm", "provider": "deepgram"}, "stt or tts, not llm"),
        ({"start": "soon"}, "2026-01-31"),
        ({"threshold": -1.0}, "percentage"),
        ({"threshold": float("nan")}, "percentage"),
    ],
)
async def test_invalid_bodies_are_refused(traffic, tmp_path, fields, what, autojump_clock):
    traffic.write_bill(tmp_path / "bill.csv")
    with pytest.raises(RequestError, match=what):
        await traffic.compare(tmp_path / "bill.csv", **fields)


async def test_reading_ends_when_nobody_waits_for_it(traffic, tmp_path, autojump_clock):
    """A file of hours does not hold up Ctrl-C."""
    bill = tmp_path / "bill.csv"
    with bill.open("w") as file:
        file.write("model,input_tokens,output_tokens,cost_usd\n")
        file.writelines("gpt-x,1,1,0.01\n" for _ in range(ROWS_PER_REPORT * 20))
    progress = []
    with trio.CancelScope() as scope:

        def leave(done, total):
            progress.append(done)
            trio.from_thread.run_sync(scope.cancel)

        await traffic.compare(bill, on_progress=leave)
    assert scope.cancelled_caught
    assert len(progress) == 1
