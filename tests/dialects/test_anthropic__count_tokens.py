"""Counting tokens over HTTP: what goes to Anthropic, what comes back, and what it costs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.anthropic import FakeAnthropic

CONFIG = """
providers:
  anthropic: {api_key: sk-ant, base_url: "http://anthropic.test"}
  sim: {}
models: {llm: [anthropic/claude-haiku-4-5, sim/echo]}
fallbacks: {llm: [anthropic/claude-haiku-4-5, sim/echo]}
"""
PATH = "/v1/messages/count_tokens"
BODY = {"messages": [{"role": "user", "content": "one two three"}], "tools": [{"name": "t", "input_schema": {"type": "object"}}]}


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "anthropic/claude-haiku-4-5", "claude-opus-9"])
async def test_anthropic_counts_and_nothing_is_billed(tmp_path: Path, autojump_clock: object, model: str) -> None:
    vendor = FakeAnthropic(api_key="sk-ant")
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["anthropic.test", 80] = hosted(vendor)
        answer = await plane.post(PATH, msgspec.json.encode(BODY | {"model": model}), **{"anthropic-beta": "context-1m"})
        assert (answer.status, answer.json) == (200, {"input_tokens": 3})
        assert vendor.ledger[0].fields == BODY | {"model": model.rpartition("/")[2]}
        assert vendor.ledger[0].headers["anthropic-beta"] == "context-1m"
        record = plane.kept.record
        assert (record.status, record.cost_nusd, record.usage.input_tokens) == ("success", 0, 0)
        assert float(answer.headers["x-gw-cost-usd"]) == 0


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (BODY | {"model": "sim/echo"}, 400, "invalid_request_error"),
        ({"model": "claude-haiku-4-5"}, 400, "invalid_request_error"),
    ],
)
async def test_what_nobody_counts_is_refused(tmp_path: Path, autojump_clock: object, body: object, status: int, kind: str) -> None:
    async with open_plane(CONFIG, tmp_path) as plane:
        answer = await plane.post(PATH, msgspec.json.encode(body))
        assert (answer.status, answer.json["type"], answer.json["error"]["type"]) == (status, "error", kind)


async def test_a_failure_of_anthropic_is_not_answered_by_another_vendor(tmp_path: Path, autojump_clock: object) -> None:
    vendor = FakeAnthropic(api_key="sk-ant", status=[500, 500])
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["anthropic.test", 80] = hosted(vendor)
        answer = await plane.post(PATH, msgspec.json.encode(BODY | {"model": "claude-haiku-4-5"}))
        assert answer.status == 502
        assert {attempt.model_id for attempt in plane.kept.record.attempts} == {"anthropic/claude-haiku-4-5"}
