"""Requests with settings, in every dialect, to a gateway before the fakes of all vendors; and what came of each setting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode

import attrs
import msgspec
import trio

from gw.net.ws import WsClosed
from gw.wire import multipart
from tests.contract.endpoints import BOUNDARY, recording
from tests.contract.talkers import Received, Talker, as_json, converse
from tests.fakes.hosting import GATEWAY, Plane, Reply, hosted, open_plane
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.aws_polly import FakeAwsPolly
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe
from tests.fakes.vendors.azure_speech import FakeAzureSpeech
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.gemini import FakeGemini
from tests.fakes.vendors.gladia import FakeGladia
from tests.fakes.vendors.google_cloud import FakeGoogleCloud
from tests.fakes.vendors.hume import FakeHume
from tests.fakes.vendors.inworld import FakeInworld
from tests.fakes.vendors.minimax import FakeMiniMax
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.piper import FakePiper
from tests.fakes.vendors.rime import FakeRime
from tests.fakes.vendors.soniox import FakeSoniox
from tests.fakes.vendors.speaches import FakeSpeaches
from tests.fakes.vendors.speechmatics import FakeSpeechmatics
from tests.fakes.vendors.xai import FakeXai

SAID, SECRET = "my card is four two", "four"
"""What is said in every recording and session, and the part of it that is private."""
Pairs = Sequence[tuple[str, Any]]


@attrs.frozen(kw_only=True)
class VendorSetup:
    """A provider type with its fake and the models that it is asked for."""

    make: Any
    path: str = ""
    """Path of its base URL."""
    more: str = ""
    """More of its entry."""
    stt: str = ""
    live: str = ""
    tts: str = ""


SETUPS: Mapping[str, VendorSetup] = {
    "openai": VendorSetup(make=FakeOpenAI, path="/v1", stt="whisper-1", live="gpt-4o-transcribe", tts="gpt-4o-mini-tts"),
    "groq": VendorSetup(
        make=lambda **more: FakeOpenAI(prefix="/openai/v1", **more), path="/openai/v1", stt="whisper-large-v3",
        tts="canopylabs/orpheus-v1-english",
    ),
    "deepgram": VendorSetup(make=FakeDeepgram, stt="nova-3", live="nova-3", tts="aura-2-thalia-en"),
    "cartesia": VendorSetup(make=FakeCartesia, stt="ink-whisper", live="ink-2", tts="sonic-3"),
    "elevenlabs": VendorSetup(
        make=FakeElevenLabs, stt="scribe_v2", live="scribe_v2_realtime", tts="eleven_flash_v2_5"
    ),
    "assemblyai": VendorSetup(make=FakeAssemblyAI, stt="universal-3-5-pro", live="universal-streaming-multilingual"),
    "soniox": VendorSetup(make=FakeSoniox, path="/v1", stt="stt-async-v5", live="stt-rt-v5"),
    "speechmatics": VendorSetup(make=FakeSpeechmatics, path="/v2", stt="enhanced", live="enhanced"),
    "gladia": VendorSetup(make=FakeGladia, stt="solaria-1", live="solaria-1"),
    "rime": VendorSetup(make=FakeRime, tts="coda"),
    "inworld": VendorSetup(make=FakeInworld, tts="inworld-tts-1.5-max"),
    "minimax": VendorSetup(make=FakeMiniMax, tts="speech-2.8-turbo"),
    "hume": VendorSetup(make=FakeHume, tts="octave-1"),
    "aws_polly": VendorSetup(make=FakeAwsPolly, tts="neural"),
    "aws_transcribe": VendorSetup(make=FakeAwsTranscribe, live="standard"),
    "google_cloud": VendorSetup(make=FakeGoogleCloud, more=", project: acme", stt="chirp_2", live="chirp_2", tts="chirp3-hd"),
    "azure_speech": VendorSetup(make=FakeAzureSpeech, stt="standard", live="standard", tts="neural"),
    "whisper": VendorSetup(make=FakeSpeaches, path="/v1", stt="Systran/faster-whisper-small", live="Systran/faster-whisper-small"),
    "kokoro": VendorSetup(make=FakeOpenAI, path="/v1", tts="kokoro"),
    "piper": VendorSetup(make=FakePiper, tts="en_US-lessac-medium"),
    "gemini": VendorSetup(
        make=lambda **more: FakeGemini(prefix="/v1beta", **more), path="/v1beta/openai", tts="gemini-3.8-flash-tts"
    ),
    "localai": VendorSetup(make=FakeOpenAI, path="/v1", stt="whisper-1", live="whisper-1", tts="tts-1"),
    "sambanova": VendorSetup(make=FakeOpenAI, path="/v1", stt="Whisper-Large-v3"),
    "speaches": VendorSetup(
        make=FakeSpeaches, path="/v1", stt="Systran/faster-whisper-small", live="Systran/faster-whisper-small",
        tts="speaches-ai/Kokoro-82M-v1.0-ONNX",
    ),
    "together": VendorSetup(make=FakeOpenAI, path="/v1", stt="openai/whisper-large-v3"),
    "vllm": VendorSetup(
        make=FakeOpenAI, path="/v1", stt="openai/whisper-large-v3-turbo", live="openai/whisper-large-v3-turbo"
    ),
    "xai": VendorSetup(
        make=FakeXai, path="/v1", stt="grok-voice-transcribe-2.0", live="grok-voice-transcribe-2.0", tts="grok-tts"
    ),
}  # fmt: skip


def config_text(
    address: Callable[[str], str], chain: Sequence[str] = (), extra_models: Sequence[str] = (),
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> str:  # fmt: skip
    """Return a gw.yaml with a provider of each type, named by it, at `address(name)`.

    `chain`: fallbacks of stt; `aliases`: another name for each of some models.
    """
    lines = ["providers:"]
    for name, setup in SETUPS.items():
        lines.append(f"  {name}: {{type: {name}, api_key: k, base_url: '{address(name)}{setup.path}'{setup.more}}}")
    models = {
        "stt": {f"{n}/{m}" for n, s in SETUPS.items() for m in (s.stt, s.live) if m} | {*chain, *extra_models},
        "tts": {f"{n}/{s.tts}" for n, s in SETUPS.items() if s.tts},
    }
    lines.append("models:")
    for modality, ids in models.items():
        lines.append(f"  {modality}:")
        for id_ in sorted(ids):
            settings = ["default_voice: own"] if modality == "tts" else []
            settings += [f"aliases: [{aliases[id_]}]"] if id_ in aliases else []
            lines.append(f"    {id_}: {{{', '.join(settings)}}}")
    if chain:
        lines += ["fallbacks:", f"  stt: [{', '.join(chain)}]"]
    return "\n".join(lines) + "\n"


def make_fakes() -> dict[str, Any]:
    """Return a fake for each provider of `config_text`."""
    fakes: dict[str, Any] = {}
    for name, setup in SETUPS.items():
        local = name == "piper"
        fakes[name] = fake = setup.make() if local else setup.make(api_key="k")
        if hasattr(fake, "transcript"):
            fake.transcript = SAID
        if hasattr(fake, "private"):
            fake.private = SECRET
    return fakes


@asynccontextmanager
async def open_vendors(
    folder: Path, chain: Sequence[str] = (), extra_models: Sequence[str] = (), more: str = ""
) -> AsyncIterator[tuple[Plane, dict[str, Any]]]:
    """Open a gateway with a provider of each type, named by it, and yield it with their fakes. `chain`: fallbacks of stt."""
    fakes = make_fakes()
    async with open_plane(config_text(lambda name: f"http://{name}.test", chain, extra_models) + more, folder) as plane:
        for name, fake in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        yield plane, fakes


# ---- recordings


def _form(fields: Pairs) -> tuple[bytes, str]:
    head, tail = multipart.encode_form(fields, file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY)
    return head + recording(SAID) + tail, "multipart/form-data; boundary=" + BOUNDARY.decode()


async def transcribe(plane: Plane, dialect: str, model: str, settings: Pairs = (), **headers: str) -> Reply:
    """Ask for a transcript of the recording. A setting named `?x` goes in the query where the others are in a form."""
    query = urlencode([(name[1:], value) for name, value in settings if name[0] == "?"])
    fields = [(name, value) for name, value in settings if name[0] != "?"]
    match dialect:
        case "openai":
            return await plane.post("/v1/audio/transcriptions", *_form([("model", model), *fields]), **headers)
        case "deepgram":
            path = "/v1/listen?" + urlencode([("model", model), *fields])
            return await plane.post(path, recording(SAID), "audio/wav", **headers)
        case "elevenlabs":
            return await plane.post(f"/v1/speech-to-text?{query}", *_form([("model_id", model), *fields]), **headers)
        case "cartesia":
            return await plane.post("/stt", *_form([("model", model), *fields]), **headers)
    return await transcribe_by_job(plane, await upload(plane), model, fields, headers)


async def upload(plane: Plane) -> str:
    """Return the address of the recording in AssemblyAI's protocol; jobs may share it."""
    reply = await plane.post("/v2/upload", recording(SAID), "application/octet-stream")
    return str(reply.json["upload_url"])


async def transcribe_by_job(plane: Plane, url: str, model: str, fields: Pairs, headers: Mapping[str, str]) -> Reply:
    """Ask for a transcript of an upload, and poll for it."""
    members = {name: msgspec.Raw(value.encode()) for name, value in fields}
    job = {"audio_url": url, "speech_models": [model], **members}
    reply = await plane.post("/v2/transcript", msgspec.json.encode(job), **headers)
    while reply.status == 200 and reply.json["status"] in ("queued", "processing"):
        async with plane.client.open("client", b"GET", GATEWAY, b"/v2/transcript/" + reply.json["id"].encode(), [], b"") as got:
            body = await got.read(1_000_000)
            reply = attrs.evolve(reply, status=got.status, pieces=[(0.0, body)])
        await trio.sleep(0.1)
    return reply


# ---- live


_PAUSE_S = 1.2  # after it an utterance has ended for every vendor


async def listen(plane: Plane, talker: Talker, model: str, settings: Pairs = ()) -> Received:
    """Hold a session with settings: of the query, or for LiveKit and OpenAI of the first frame."""
    query = ""
    if talker.dialect in ("livekit", "openai"):
        members = {name: msgspec.json.decode(value) for name, value in settings}
        if talker.dialect == "livekit":
            own = {name: members.pop(name) for name in ("language",) if name in members}
            first = {"sample_rate": "16000", "encoding": "pcm_s16le", **own, "extra": members}
            begin = lambda model: [as_json(type="session.create", model=model, settings=first)]  # noqa: E731
        else:
            session = {"type": "transcription", "audio": {"input": {"transcription": {"model": model, **members}}}}
            begin = lambda model: [as_json(type="session.update", session=session)]  # noqa: E731
        talker = attrs.evolve(talker, begin=begin)
    else:
        query = urlencode(settings)
    received = Received()
    try:
        with trio.move_on_after(30):
            received = await converse(talker, plane, model, [SAID], query=query, pause_s=_PAUSE_S)
    except WsClosed as closed:
        received.code, received.reason = closed.code, closed.reason
    except Exception as error:
        received.errors.append(str(error))
    return received


# ---- what a vendor was sent


def sent(entry: Any) -> dict[str, list[str]]:
    """Return the settings of a request that a fake has seen, by name."""
    fields: dict[str, list[str]] = {}
    for name, value in entry.fields.items():
        if name == "query":
            for own, text in parse_qsl(value, keep_blank_values=True):
                fields.setdefault(own, []).append(text)
        elif name not in _NOT_SETTINGS:
            fields[name] = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return fields


_NOT_SETTINGS = frozenset({"frames", "finalized", "kept", "commits", "text", "form", "other", "session", "set"})
