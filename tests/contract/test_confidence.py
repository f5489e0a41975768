"""The confidence of transcripts: what the vendor says reaches the app in its own terms, and nothing is made up."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from tests.contract.asked import listen, open_vendors, transcribe
from tests.contract.talkers import ASSEMBLYAI, DEEPGRAM, ELEVENLABS, FLUX, LIVEKIT

SAID = 0.9
"""What the fakes of vendors that report a confidence say of each word of a recording."""
REPORTING = {
    "deepgram": "deepgram/nova-3", "assemblyai": "assemblyai/universal-3-5-pro", "elevenlabs": "elevenlabs/scribe_v2",
    "openai": "openai/whisper-1",
}  # fmt: skip
"""The last one reports that of segments, as a logarithm."""
SILENT = "cartesia/ink-2"
"""A model whose vendor reports none."""
NAMES = ("confidence", "logprob", "avg_logprob", "language_probability", "language_confidence")


def found(value: Any) -> list[tuple[str, float | None]]:
    """Return each member of an answer that says how sure a vendor is, at any depth."""
    if isinstance(value, dict):
        return [(k, v) for k, v in value.items() if k in NAMES] + [pair for v in value.values() for pair in found(v)]
    return [pair for v in value for pair in found(v)] if isinstance(value, list) else []


@pytest.mark.parametrize("model", [*REPORTING.values(), SILENT])
@pytest.mark.parametrize("dialect", [*REPORTING])
async def test_a_recording(dialect, model, tmp_path, autojump_clock):
    form = {"openai": [("response_format", "verbose_json")], "deepgram": [("utterances", "true")]}.get(dialect, [])
    async with open_vendors(tmp_path) as (plane, _):
        reply = await transcribe(plane, dialect, model, form)
    assert reply.status == 200
    if REPORTING.get(dialect) == model:
        return  # the vendor's own body
    known = [value for _, value in found(reply.json) if value]
    expected = SAID if dialect in ("deepgram", "assemblyai") else math.log(SAID)
    assert known == [pytest.approx(expected, abs=1e-3)] * len(known)
    of_words_only = dialect == "elevenlabs" and model == REPORTING["openai"]  # which has no place for that of segments
    assert bool(known) == (model in REPORTING.values() and not of_words_only)


async def test_numbers_stand_only_where_clients_insist(tmp_path, autojump_clock):
    """LiveKit's plugin and the types of the SDK require them of Deepgram and AssemblyAI; 0.0 claims nothing."""
    async with open_vendors(tmp_path) as (plane, _):
        deepgram = await transcribe(plane, "deepgram", SILENT, [("utterances", "true")])
        assembly = await transcribe(plane, "assemblyai", SILENT)
        eleven = await transcribe(plane, "elevenlabs", SILENT)
    assert found(deepgram.json) == [("confidence", 0.0)]
    words = [("confidence", 0.0)] * len(assembly.json["words"])
    assert words
    assert found(assembly.json) == [("confidence", None), ("language_confidence", None), *words]
    assert eleven.json["words"]
    assert found(eleven.json) == [("language_probability", 0.0)]


@pytest.mark.parametrize("talker", [DEEPGRAM, FLUX, ASSEMBLYAI, ELEVENLABS, LIVEKIT], ids=lambda talker: talker.name)
async def test_a_live_session_of_a_vendor_without_confidence(talker, tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, _):
        received = await listen(plane, talker, SILENT)
    assert received.finals
    insisted = {0.0} if talker in (DEEPGRAM, FLUX, ASSEMBLYAI) else set()
    assert {value for _, value in found(msgspec.to_builtins(received.frames))} == insisted
