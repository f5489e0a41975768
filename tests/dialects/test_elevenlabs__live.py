"""ElevenLabs' sockets: what a first frame sets reaches the vendor, and every commit is answered."""

from __future__ import annotations

from base64 import b64decode
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.dialects.live_transcription import ANSWER_S
from gw.errors import ProviderError
from gw.net.ws import WsClosed, open_ws
from gw.providers.sim import fsk
from tests.contract.talkers import ELEVENLABS, as_json, speech
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

CONFIG = """
providers:
  own: {type: elevenlabs, api_key: k, base_url: "http://own.test"}
  other: {type: deepgram, api_key: k, base_url: "http://other.test"}
models: {stt: [own/scribe_v2, other/nova-3], tts: [own/eleven_flash_v2_5]}
"""
SCHEDULE = {"chunk_length_schedule": [50, 90]}
STT = pytest.mark.parametrize("model", ["own/scribe_v2", "other/nova-3"])


@pytest.fixture
def vendor():
    return FakeElevenLabs(api_key="k")


@pytest.fixture
async def plane(tmp_path, vendor, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as gateway:
        gateway.net.hosts["own.test", 80] = hosted(vendor)
        gateway.net.hosts["other.test", 80] = hosted(FakeDeepgram(api_key="k"))
        yield gateway


async def receive_until(ws, member, value):
    frames = []
    with trio.fail_after(60):
        while not frames or frames[-1].get(member) != value:
            frames.append(msgspec.json.decode(await ws.receive()))
    return frames


@pytest.mark.parametrize(
    ("path", "named", "end"),
    [
        ("stream-input", {}, {"text": ""}),
        ("multi-stream-input", {"context_id": "c"}, {"context_id": "c", "flush": True, "close_context": True}),
    ],
)
async def test_the_settings_of_a_first_frame_reach_the_vendor(path, named, end, plane, vendor):
    opening = {"generation_config": SCHEDULE, "voice_settings": {"speed": 1.1}, "not_yet_known": {"a": 1}}
    target = f"/v1/text-to-speech/v/{path}?model_id=eleven_flash_v2_5&output_format=pcm_16000".encode()
    async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
        await ws.send(as_json(text=" ", **named, **opening))
        await ws.send(as_json(text="Hello there. ", **named))
        await ws.send(as_json(**end))
        await receive_until(ws, "isFinal", True)
    frames = vendor.ledger[0].fields["set"]
    assert {name: msgspec.json.decode(frames[f"frame:{name}"]) for name in opening} == opening


KEY = "gwk_right_8351026789"
GUARDED = CONFIG + f"auth: {{keys: [{{key: {KEY}, project: default}}]}}\n"


@pytest.fixture
def guarded(tmp_path, vendor, autojump_clock):
    @asynccontextmanager
    async def opened(query=""):
        async with open_plane(GUARDED, tmp_path) as gateway:
            gateway.net.hosts["own.test", 80] = hosted(vendor)
            target = f"/v1/text-to-speech/v/stream-input?model_id=eleven_flash_v2_5&output_format=pcm_16000{query}".encode()
            async with open_ws("client", GATEWAY, target, headers=[], connect=gateway.client.connect) as ws:
                yield ws

    return opened


@pytest.mark.parametrize("key", [{"xi-api-key": KEY}, {"xi_api_key": KEY}, {"authorization": f"Bearer {KEY}"}])
async def test_a_browsers_key_stands_in_its_first_frame(key, guarded, vendor):
    async with guarded() as ws:
        await ws.send(as_json(text=" ", voice_settings={"speed": 1.0}, **key))
        await ws.send(as_json(text="Hello there. "))
        await ws.send(as_json(text=""))
        await receive_until(ws, "isFinal", True)
    assert set(vendor.ledger[0].fields["set"]) == {"frame:voice_settings", "frame:generation_config"}


@pytest.mark.parametrize(
    "frame", [as_json(text=" "), as_json(text=" ", **{"xi-api-key": "gwk_wrong"}), as_json(**{"xi-api-key": 5}), "{", "[]", None]
)
async def test_without_a_right_one_the_socket_is_closed(frame, guarded, vendor):
    async with guarded() as ws:
        if frame is not None:
            await ws.send(frame)
        with trio.fail_after(6), pytest.raises(WsClosed) as caught:
            await receive_until(ws, "isFinal", True)
    assert caught.value.code == 1008
    assert vendor.ledger == []


async def test_a_wrong_key_in_the_handshake_is_refused_there(guarded):
    with pytest.raises(ProviderError) as caught:
        async with guarded("&single_use_token=gwk_wrong"):
            raise AssertionError("the handshake was answered")
    assert caught.value.upstream_status == 401


async def test_a_browser_that_leaves_before_it_says_a_key(guarded):
    async with guarded():
        pass


@STT
async def test_a_commit_of_silence_is_answered(model, plane):
    async with ELEVENLABS.open(plane, model) as ws:
        for data in (bytes(6_400), speech(["one two"], 16_000), bytes(6_400)):
            await ws.send(ELEVENLABS.audio(data))
            await ws.send(as_json(message_type="input_audio_chunk", audio_base_64="", commit=True))
            *_, answer = await receive_until(ws, "message_type", "committed_transcript")
            assert answer["text"] == ("one two" if any(data) else "")


async def test_a_commit_has_its_own_time_although_the_one_before_was_answered_sooner(plane):
    commit = as_json(message_type="input_audio_chunk", audio_base_64="", commit=True)
    async with ELEVENLABS.open(plane, "other/nova-3") as ws:
        await ws.send(ELEVENLABS.audio(speech(["one two"], 16_000)))
        began = trio.current_time()
        await ws.send(commit)
        *_, answer = await receive_until(ws, "message_type", "committed_transcript")
        assert answer["text"] == "one two"
        await trio.sleep_until(began + 0.9 * ANSWER_S)
        began = trio.current_time()
        await ws.send(ELEVENLABS.audio(bytes(6_400)))
        await ws.send(commit)
        *_, answer = await receive_until(ws, "message_type", "committed_transcript")
        assert (answer["text"], trio.current_time() - began) == ("", pytest.approx(ANSWER_S))


# ---- contexts


def _target(query: str = "") -> bytes:
    return f"/v1/text-to-speech/v/multi-stream-input?model_id=eleven_flash_v2_5&output_format=pcm_16000{query}".encode()


async def test_a_callers_flushes_stay_in_one_context_of_the_vendor(plane, vendor):
    """The vendor allows five, and a voice keeps its intonation only within one."""
    async with open_ws("client", GATEWAY, _target(), headers=[], connect=plane.client.connect) as ws:
        for n in range(8):
            await ws.send(as_json(text=f"Sentence {n} is here. ", context_id="c", flush=True))
            await trio.sleep(0.5)
        await ws.send(as_json(context_id="c", flush=True))
        await ws.send(as_json(context_id="c", close_context=True))
        frames = await receive_until(ws, "isFinal", True)
    assert vendor.ledger[0].fields["contexts"] == 1
    pcm = b"".join(b64decode(frame.get("audio") or "") for frame in frames)
    assert " ".join(done.text.strip() for done in fsk.decode(pcm, 16_000)) == " ".join(f"Sentence {n} is here." for n in range(8))
    await plane.kept.finished.wait()
    assert plane.kept.record.status == "success"


@pytest.mark.parametrize(
    ("query", "flush", "wait_s", "again", "spoken"),
    [
        ("", True, 0.0, False, True),
        ("", False, 0.0, False, False),
        ("&auto_mode=true", False, 0.0, False, True),
        ("", True, 1.0, False, False),
        ("&auto_mode=true", True, 1.0, False, False),
        ("", True, 0.0, True, False),
    ],
    ids=["flushed", "not flushed", "not flushed in auto mode", "while it speaks", "while it speaks in auto mode", "twice"],
)
async def test_what_closing_a_context_stops(query, flush, wait_s, again, spoken, plane, vendor):
    """What the user interrupted is stopped at the vendor too, and the part that was not heard is waste."""
    vendor.speech_gap_s = 0.1
    text = "One two three four five six seven eight nine. "
    async with open_ws("client", GATEWAY, _target(query), headers=[], connect=plane.client.connect) as ws:
        await ws.send(as_json(text=text, context_id="c", **({"flush": True} if flush else {})))
        await trio.sleep(wait_s)
        closed_at = trio.current_time()
        await ws.send(as_json(context_id="c", close_context=True))
        if again:
            await trio.sleep(0.2)
            await ws.send(as_json(context_id="c", close_context=True))
        await receive_until(ws, "isFinal", True)
        await plane.kept.finished.wait()
        record = plane.kept.record
        assert (record.status, trio.current_time() - closed_at > 1) == (("success", True) if spoken else ("cancelled", False))
        heard = record.usage.characters - record.wasted_units
        assert (heard == len(text)) if spoken else heard < 30
        await ws.send(as_json(text="And on. ", context_id="d", flush=True))
        await ws.send(as_json(context_id="d", close_context=True))
        frames = await receive_until(ws, "isFinal", True)
        assert {frame["contextId"] for frame in frames if frame.get("audio")} == {"d"}


@pytest.mark.parametrize("strategy", ["vad", "manual"])
@pytest.mark.parametrize("timed", ["true", "false"])
async def test_a_caller_who_redacts_is_sent_no_unredacted_text(strategy, timed, plane, vendor):
    """The vendor sends redacted transcripts beside events that stay unredacted, and both texts in one frame."""
    vendor.private = "two"
    asked = f"model_id=own/scribe_v2&commit_strategy={strategy}&include_timestamps={timed}&entity_redaction=pii"
    target = f"/v1/speech-to-text/realtime?{asked}".encode()
    async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
        await ws.send(ELEVENLABS.audio(speech(["one two three"], 16_000, 0.5)))
        await ws.send(as_json(message_type="input_audio_chunk", audio_base_64="", commit=True))
        frames = await receive_until(ws, "message_type", "redacted_transcript")
    assert "entity_redaction=pii" in vendor.ledger[0].fields["query"]
    assert "two" not in str(frames)
    texts = [
        frame["text"] for frame in frames if frame["message_type"].startswith("committed_transcript") and frame["text"]
    ]
    assert texts == ["one [REDACTED] three"] * (2 if timed == "true" else 1)
    assert frames[-1]["redacted_text"] == "one [REDACTED] three"


async def test_the_transcripts_of_a_caller_who_redacts_are_redacted_after_a_failover(tmp_path, vendor, autojump_clock):
    """The next vendor redacts too, and its transcripts are those that the app waits for."""
    vendor.private, vendor.stalls_after = "two", 2
    other = FakeDeepgram(api_key="k", private="two")
    async with open_plane(CONFIG + "fallbacks: {stt: [own/scribe_v2, other/nova-3]}\n", tmp_path) as plane:
        plane.net.hosts["own.test", 80] = hosted(vendor)
        plane.net.hosts["other.test", 80] = hosted(other)
        target = b"/v1/speech-to-text/realtime?model_id=own/scribe_v2&commit_strategy=vad&entity_redaction=pii"
        async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
            for _ in range(2):
                await ws.send(ELEVENLABS.audio(speech(["one two three"], 16_000, 1.0)))
            frames = await receive_until(ws, "message_type", "redacted_transcript")
    assert "redact=pii" in other.ledger[0].fields["query"]
    assert frames[-1]["redacted_text"] == "one [REDACTED] three"


CLOSING = {"context_id": "c", "close_context": True}


@pytest.mark.parametrize(
    "frames",
    [
        [{"text": " ", "context_id": "c"}, CLOSING],
        [{"text": " ", "context_id": "c", "voice_settings": {"speed": 1.1}}, {"text": "", "context_id": "c", "flush": True}, CLOSING],
        [{"text": "", "context_id": "c"}, {"context_id": "c", "flush": True, "close_context": True}],
    ],
    ids=["opened", "flushed", "empty"],
)
async def test_a_context_that_is_closed_without_text_is_final_once(frames, plane, vendor):
    """LiveKit's plugin (`tts.py` of livekit-plugins-elevenlabs 1.8.9) waits for it."""
    target = b"/v1/text-to-speech/v/multi-stream-input?model_id=eleven_flash_v2_5&output_format=pcm_16000"
    async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
        for frame in (*frames, CLOSING, {"context_id": "never", "close_context": True}):
            await ws.send(as_json(**frame))
        await ws.send(as_json(text="Hello there. ", context_id="d", flush=True))
        await ws.send(as_json(context_id="d", close_context=True))
        received = await receive_until(ws, "contextId", "d")
    assert [(frame["isFinal"], frame["contextId"]) for frame in received[:-1]] == [(True, "c")]
    assert "audio" not in received[0] or received[0]["audio"] is None
    assert {record.modality for record in plane.kept.records} <= {"tts"}
    assert len(vendor.ledger) == 1
