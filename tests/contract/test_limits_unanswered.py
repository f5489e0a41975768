"""A rate that several gateways share, when their server is late: what the caller is answered, and what the record says."""

from __future__ import annotations

import pytest

from tests.fakes.running import open_running
from tests.fakes.slow_bank import SlowBank

CONFIG = """
providers: {sim: {}}
models: {llm: [sim/echo]}
rate_limiting: {sim: {requests_per_minute: 1}}
auth:
  admin_token: admin-token-8351026789
  keys:
    - {key: gwk_till_8351026789, project: default, name: till}
    - {key: gwk_slow_8351026789, project: default, name: slow, requests_per_minute: 1}
serve: {port: 0}
"""
ADMIN = {"authorization": "Bearer admin-token-8351026789"}


async def chat(running, key):
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
    return await running.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer gwk_{key}_8351026789")


@pytest.fixture
async def bank(nursery):
    return SlowBank()


async def attempt_of(running, answer):
    """Return the only attempt of a stored record."""
    await running.gateway.store.flush()
    record = await running.get(f"/v1/requests/{answer.headers['x-request-id']}", **ADMIN)
    [attempt] = record.json["attempts"]
    return attempt


async def test_a_late_answer_is_no_limit_that_is_used_up(tmp_path, bank):
    async with open_running(tmp_path, CONFIG, bank=bank) as running:
        bank.hold()
        late = await chat(running, "till")
        of_key = await chat(running, "slow")
        bank.answer()
        assert (await chat(running, "till")).status == 200
        used_up = await chat(running, "till")

        assert [answer.status for answer in (late, of_key, used_up)] == [429] * 3
        unknown = "what is left of requests_per_minute 1 is not known: no answer within 50 ms"
        assert unknown in late.error["message"]
        assert late.headers["retry-after"] == "1"
        assert "the limit of the key 'slow', 1 requests a minute, is not known: no answer" in of_key.error["message"]
        assert of_key.headers["retry-after"] == "1"
        assert "requests_per_minute 1 used up" in used_up.error["message"]
        assert 1 < int(used_up.headers["retry-after"]) <= 60
        assert (await attempt_of(running, late))["detail"] == unknown
        assert (await attempt_of(running, used_up))["detail"] == "requests_per_minute 1 used up"
