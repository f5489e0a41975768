"""A vendor that bills each session in steps and for a minimum, Amazon Transcribe: what reports say of short sessions and of long ones."""

from __future__ import annotations

import math

import pytest

from tests.contract.talkers import ASSEMBLYAI, DEEPGRAM, converse
from tests.fakes.complete import open_complete
from tests.fakes.records import HandClock
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe

YAML = """
providers: {aws_transcribe: {api_key: "id:secret", base_url: "http://transcribe.test"}}
models: {stt: {aws_transcribe/standard: }}
"""
NOON = 1_795_176_000.0
"""2026-11-20 12:00 UTC: a minute costs a cent."""
USD_PER_SECOND = 0.01 / 60
LEAST_S = 15


@pytest.mark.parametrize(("talker", "count", "least_s"), [(DEEPGRAM, 1, 0), (ASSEMBLYAI, 24, LEAST_S + 1)])
async def test_a_session(talker, count, least_s, tmp_path, autojump_clock):
    texts = ["one two three"] * count
    async with open_complete(YAML, tmp_path, {"transcribe.test": FakeAwsTranscribe(api_key="id:secret")}, HandClock(NOON)) as gateway:
        received = await converse(talker, gateway, "aws_transcribe/standard", texts)
        assert received.finals == texts
        costs = await gateway.json("/v1/costs")
        [charge] = costs["charges"]
        assert charge["audio_seconds"] > least_s
        billed_s = max(LEAST_S, math.ceil(charge["audio_seconds"]))
        assert costs["total"] == pytest.approx(billed_s * USD_PER_SECOND, abs=1e-9)
        [record] = await gateway.json("/v1/logs")
        assert record["cost_usd"] == pytest.approx(billed_s * USD_PER_SECOND, abs=1e-9)
