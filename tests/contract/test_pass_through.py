"""Members that a vendor has added since: an app that speaks its protocol sends them, and that vendor receives them.

Each case says something that nobody here knows: a query parameter, a member of a body or frame, a frame of its own. The
vendor's fake stands behind a tape of what it was really sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.net.ws import WsClosed, open_ws
from gw.wire import multipart
from tests.contract import readers, talkers
from tests.contract.endpoints import BOUNDARY, TEXT, recording
from tests.contract.talkers import as_json as _json
from tests.contract.talkers import speech
from tests.fakes.hosting import GATEWAY, Plane, hosted, open_plane
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

QUERY, MEMBER, FRAME = "new_query=7", {"new_member": {"a": [1]}}, _json(type="NewFrame", new_frame=[2])
IN_QUERY, IN_BODY, IN_FRAMES = b"new_query=7", b'"new_member":{"a":[1]}', b'"new_frame":[2]'
FAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "openai": (lambda: FakeOpenAI(api_key="k"), "/v1"),
    "groq": (lambda: FakeOpenAI(api_key="k", prefix="/openai/v1"), "/openai/v1"),
    "anthropic": (lambda: FakeAnthropic(api_key="k"), ""),
    "deepgram": (lambda: FakeDeepgram(api_key="k"), ""),
    "elevenlabs": (lambda: FakeElevenLabs(api_key="k"), ""),
    "cartesia": (lambda: FakeCartesia(api_key="k"), ""),
    "assemblyai": (lambda: FakeAssemblyAI(api_key="k"), ""),
}
MODELS = {
    "stt": ["openai/stt", "groq/stt", "deepgram/nova-3", "deepgram/flux-general-en", "elevenlabs/scribe_v2", "cartesia/ink-2",
            "cartesia/ink-whisper", "assemblyai/universal-3-6-pro"],
    "llm": ["openai/llm", "groq/llm", "anthropic/llm"],
    "tts": {
        "openai/tts": {}, "groq/tts": {}, "deepgram/aura-2-thalia-en": {}, "cartesia/sonic-3": {},
        "elevenlabs/eleven_flash_v2_5": {"default_voice": "alloy"},  # the readers name this voice to every vendor
    },
}  # fmt: skip


@attrs.define
class Tape:
    """Record of what a vendor receives: the query, and the bodies and frames, one after the other."""

    app: Any
    query: bytes = b""
    received: bytes = b""
    headers: dict[bytes, bytes] = attrs.field(factory=dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.query += scope.get("query_string", b"") + b"\n"
        self.headers |= dict(scope["headers"])

        async def receive_recorded() -> Any:
            message = await receive()
            data = message.get("body") or message.get("bytes") or (message.get("text") or "").encode()
            self.received += data + b"\n"
            return message

        await self.app(scope, receive_recorded, send)


@pytest.fixture
async def world(tmp_path, autojump_clock):
    """A gateway with every vendor behind it, and the vendors' tapes."""
    config = {
        "providers": {name: {"api_key": "k", "base_url": f"http://{name}.test{root}"} for name, (_, root) in FAKES.items()},
        "models": MODELS,
    }
    async with open_plane(msgspec.json.encode(config).decode(), tmp_path) as plane:
        tapes = {name: Tape(make()) for name, (make, _) in FAKES.items()}
        for name, tape in tapes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(tape)
        yield plane, tapes


# ---- over HTTP


def as_json(**members: Any) -> tuple[bytes, str]:
    return msgspec.json.encode({**members, **MEMBER}), "application/json"


def as_form(model: str, field: str = "model") -> tuple[bytes, str]:
    head, tail = multipart.encode_form(
        [(field, model), ("new_field", "new value")], file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY
    )
    return head + recording() + tail, "multipart/form-data; boundary=" + BOUNDARY.decode()


ASKED = [{"role": "user", "content": TEXT}]
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
SPEAK = {"model_id": "sonic-3", "transcript": TEXT, "voice": {"mode": "id", "id": "v"}, "output_format": RAW}
IN_FORM = b'name="new_field"\r\n\r\nnew value'
HTTP: list[tuple[str, str, tuple[bytes, str], list[bytes]]] = [
    ("openai", "/v1/chat/completions", as_json(model="openai/llm", messages=ASKED), [IN_BODY]),
    ("openai", "/v1/chat/completions", as_json(model="openai/llm", messages=ASKED, stream=True), [IN_BODY]),
    ("openai", "/v1/responses", as_json(model="openai/llm", input=TEXT), [IN_BODY]),
    ("openai", "/v1/responses", as_json(model="openai/llm", input=TEXT, stream=True), [IN_BODY]),
    ("openai", "/v1/audio/speech", as_json(model="openai/tts", input=TEXT, voice="alloy"), [IN_BODY]),
    ("openai", "/v1/audio/transcriptions", as_form("openai/stt"), [IN_FORM]),
    ("groq", "/openai/v1/chat/completions", as_json(model="groq/llm", messages=ASKED), [IN_BODY]),
    ("groq", "/openai/v1/audio/speech", as_json(model="groq/tts", input=TEXT, voice="autumn", response_format="wav"), [IN_BODY]),
    ("groq", "/openai/v1/audio/transcriptions", as_form("groq/stt"), [IN_FORM]),
    ("anthropic", "/v1/messages", as_json(model="llm", max_tokens=9, messages=ASKED), [IN_BODY]),
    ("anthropic", "/v1/messages", as_json(model="llm", max_tokens=9, messages=ASKED, stream=True), [IN_BODY]),
    ("deepgram", "/v1/listen?model=nova-3", (recording(), "audio/wav"), [IN_QUERY]),
    ("deepgram", "/v1/speak?model=aura-2-thalia-en&encoding=linear16&container=none", as_json(text=TEXT), [IN_QUERY, IN_BODY]),
    *(
        ("elevenlabs", f"/v1/text-to-speech/v{form}?output_format=pcm_16000", as_json(text=TEXT, model_id="eleven_flash_v2_5"),
         [IN_QUERY, IN_BODY])
        for form in ("", "/stream", "/with-timestamps", "/stream/with-timestamps")
    ),
    ("elevenlabs", "/v1/speech-to-text", as_form("scribe_v2", "model_id"), [IN_FORM]),
    ("cartesia", "/tts/bytes", as_json(**SPEAK), [IN_BODY]),
    ("cartesia", "/tts/sse", as_json(**SPEAK), [IN_BODY]),
    ("cartesia", "/stt", as_form("ink-whisper"), [IN_FORM]),
]  # fmt: skip


@pytest.mark.parametrize(("vendor", "path", "body", "expected"), HTTP, ids=lambda value: value if isinstance(value, str) else "")
async def test_over_http(vendor, path, body, expected, world):
    plane, tapes = world
    reply = await plane.post(path + ("&" if "?" in path else "?") + QUERY, *body)
    assert reply.status == 200, reply.body
    tape = tapes[vendor]
    assert [one for one in expected if one not in tape.query + tape.received] == []


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_beta_header_goes_to_anthropic_alone(stream, world):
    plane, tapes = world
    body = partial(as_json, max_tokens=9, messages=ASKED, stream=stream)
    for path, model in (("/v1/chat/completions", "anthropic/llm"), ("/v1/messages", "openai/llm")):
        assert (await plane.post(path, *body(model=model), anthropic_beta="one-2026,two-2026")).status == 200
    assert (await plane.post("/v1/messages", *body(model="anthropic/llm"))).status == 200
    assert [name for name, tape in tapes.items() if b"anthropic-beta" in tape.headers] == []
    assert (await plane.post("/v1/messages", *body(model="anthropic/llm"), anthropic_beta="one-2026,two-2026")).status == 200
    assert tapes["anthropic"].headers[b"anthropic-beta"] == b"one-2026,two-2026"


async def test_assemblyais_transcript(world):
    plane, tapes = world
    upload = await plane.post("/v2/upload", recording(), "application/octet-stream")
    body = as_json(audio_url=upload.json["upload_url"], speech_models=["universal-3-6-pro"])
    assert (await plane.post("/v2/transcript", *body)).status == 200
    await plane.kept.finished.wait()
    assert IN_BODY in tapes["assemblyai"].received


# ---- over sockets



async def _talk(talker: talkers.Talker, plane: Plane, model: str, frames: Sequence[str]) -> None:
    """Says `frames` in the midst of speech, and hears the session to its first final transcript."""
    received = talkers.Received()
    async with talker.open(plane, model, QUERY) as ws:
        frames_of_speech = talker.frames(speech(["one two", "three"], talker.format.sample_rate_hz))
        half = len(frames_of_speech) // 2
        for frame in (*talker.begin(model), *frames_of_speech[:half], *frames, *frames_of_speech[half:]):
            await ws.send(frame)
            await trio.sleep(0.04)
        for frame in talker.finish:
            await ws.send(frame)
        with trio.fail_after(60):
            await talkers.read(talker, ws, received, until=1)
    assert received.errors == []


async def _read(reader: readers.Reader, plane: Plane, model: str, frames: Sequence[str]) -> None:
    target = reader.path(model) + ("&" if "?" in reader.path(model) else "?") + QUERY
    async with open_ws("client", GATEWAY, target.encode(), headers=[], connect=plane.client.connect) as ws:
        for frame in frames:
            await ws.send(frame)
        with trio.fail_after(60):
            try:
                while True:
                    frame = await ws.receive()
                    message = frame if isinstance(frame, bytes) else msgspec.json.decode(frame)
                    assert isinstance(message, bytes) or reader.error(message) is None, message
                    if reader.ended(message):
                        break
            except WsClosed:
                pass


def _cartesia(**members: Any) -> str:
    return _json(context_id="c1", **SPEAK, **members)


def _realtime(model: str) -> str:
    audio_input = {"transcription": {"model": model, **MEMBER}}
    return _json(type="session.update", session={"type": "transcription", "audio": {"input": audio_input}})


REALTIME = attrs.evolve(talkers.OPENAI_REALTIME, begin=lambda model: [_realtime(model)])
COMMITTED = attrs.evolve(
    talkers.ELEVENLABS, finish=[_json(message_type="input_audio_chunk", audio_base_64="", commit=True, sample_rate=16_000)]
)
SOCKETS: list[tuple[str, Callable[[Plane], Awaitable[None]], list[bytes]]] = [
    ("openai", partial(_talk, REALTIME, model="openai/stt", frames=[FRAME]), [IN_BODY, IN_FRAMES]),
    ("deepgram", partial(_talk, talkers.DEEPGRAM, model="nova-3", frames=[FRAME]), [IN_QUERY, IN_FRAMES]),
    ("deepgram", partial(_talk, talkers.FLUX, model="flux-general-en", frames=[FRAME]), [IN_QUERY, IN_FRAMES]),
    ("elevenlabs", partial(_talk, COMMITTED, model="scribe_v2", frames=[_json(message_type="x", new_frame=[2])]),
     [IN_QUERY, IN_FRAMES]),
    ("cartesia", partial(_talk, talkers.CARTESIA, model="ink-whisper", frames=[]), [IN_QUERY]),
    ("cartesia", partial(_talk, talkers.CARTESIA_TURNS, model="ink-2", frames=[]), [IN_QUERY]),
    ("assemblyai", partial(_talk, talkers.ASSEMBLYAI, model="universal-3-6-pro", frames=[FRAME]), [IN_QUERY, IN_FRAMES]),
    ("deepgram", partial(_read, readers.DEEPGRAM, model="aura-2-thalia-en",
     frames=[_json(type="Speak", text=TEXT, **MEMBER), _json(type="Flush")]), [IN_QUERY]),
    ("cartesia", partial(_read, readers.CARTESIA, model="sonic-3", frames=[_cartesia(**MEMBER)]), [IN_BODY]),
    ("elevenlabs", partial(_read, readers.ELEVEN_ONE, model="eleven_flash_v2_5",
     frames=[_json(text=" ", **MEMBER), _json(text=TEXT), _json(text="")]), [IN_QUERY, IN_BODY]),
    ("elevenlabs", partial(_read, readers.ELEVEN_MANY, model="eleven_flash_v2_5", frames=[
        _json(text=" ", context_id="c1", **MEMBER), _json(text=TEXT, context_id="c1", flush=True),
        _json(context_id="c1", close_context=True),
    ]), [IN_QUERY, IN_BODY]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("vendor", "run", "expected"), SOCKETS, ids=[f"{vendor} {run.args[0].name}" for vendor, run, _ in SOCKETS]
)
async def test_over_a_socket(vendor, run, expected, world):
    plane, tapes = world
    await run(plane)
    tape = tapes[vendor]
    assert [one for one in expected if one not in tape.query + tape.received] == []
