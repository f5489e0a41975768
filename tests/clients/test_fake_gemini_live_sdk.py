"""Google's own SDK, unchanged, in a live conversation: with the fake vendor, and with gw before it. Only the address and the key differ."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trustme

from gw.providers.sim import fsk
from gw.wire.gemini_live_usage import LiveUsage
from tests.clients.gateway_pair import hosted
from tests.e2e.conftest import starter
from tests.e2e.test_workers_live import wait_for
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.gemini import FakeGemini
from tests.fakes.vendors.gemini_live import USAGE, LiveScript

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["fake", "gateway"])
KEY = "gwk_google_8351026789"
MODEL = "gemini-3.8-live"
TEXT = "what is the weather in Paris"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
FRAMES = [PCM[at : at + 3_200] for at in range(0, len(PCM), 3_200)]
WITHIN_S = 120


@attrs.frozen
class Addresses:
    vendor: FakeGemini
    fake: str
    gateway: str
    authority: Path

    def of(self, who: str) -> str:
        return self.fake if who == "fake" else self.gateway

    def logs(self) -> list[dict[str, Any]]:
        context = ssl.create_default_context(cafile=str(self.authority))
        with urllib.request.urlopen(f"{self.gateway}/v1/logs?limit=100", context=context) as response:
            logs: list[dict[str, Any]] = json.load(response)
        return logs


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    folder = tmp_path_factory.mktemp("gateway")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for part in certificate.cert_chain_pems:
        part.write_to_path(folder / "certificate.pem", append=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    vendor = FakeGemini(prefix="/v1beta", api_key=KEY)
    with hosted(vendor) as plain, hosted(vendor, partial(serve_asgi, tls=context)) as fake, starter(folder) as start:
        settings = {
            "providers": {"gemini": {"api_key": KEY, "base_url": f"{plain}/v1beta/openai"}}, "models": {"llm": {f"gemini/{MODEL}": {}}},
            "serve": {"tls_cert": str(folder / "certificate.pem"), "tls_key": str(folder / "key.pem")},
        }  # fmt: skip
        yield Addresses(vendor, fake, start(json.dumps(settings)).url, folder / "authority.pem")


@pytest.fixture
def connect(addresses, package, monkeypatch) -> Any:
    """Return a context manager: a session of the SDK with one of the two."""
    package("google.genai")
    monkeypatch.setenv("SSL_CERT_FILE", str(addresses.authority))
    addresses.vendor.live = LiveScript()

    @asynccontextmanager
    async def connected(who: str, key: str = KEY, model: str = MODEL, **config: Any) -> AsyncIterator[Any]:
        from google import genai
        from google.genai import types

        client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=addresses.of(who)))
        config = {"response_modalities": ["AUDIO"], **config}
        async with asyncio.timeout(WITHIN_S), client.aio.live.connect(model=model, config=config) as session:
            yield session

    return connected


async def speak(session: Any) -> None:
    from google.genai import types

    for frame in FRAMES:
        await session.send_realtime_input(audio=types.Blob(data=frame, mime_type="audio/pcm;rate=16000"))


async def turn_of(session: Any) -> list[Any]:
    return [message async for message in session.receive()]


def spoken(messages: list[Any]) -> str:
    pcm = b"".join(
        part.inline_data.data
        for message in messages
        if message.server_content and message.server_content.model_turn
        for part in message.server_content.model_turn.parts
        if part.inline_data
    )
    return " ".join(done.text for done in fsk.decode(pcm, 24_000))


@WHO
def test_speech_and_its_usage(addresses, connect, who):
    before = {record["id"] for record in addresses.logs()}

    async def talk() -> list[Any]:
        config = {"input_audio_transcription": {}, "output_audio_transcription": {}, "system_instruction": "Be brief.", "temperature": 0.3}
        async with connect(who, **config) as session:
            assert session.session_id == "fake-session"
            await speak(session)
            return await turn_of(session)

    messages = asyncio.run(talk())
    assert spoken(messages) == TEXT
    contents = [message.server_content for message in messages if message.server_content]
    assert [each.input_transcription.text for each in contents if each.input_transcription] == [TEXT]
    assert [each.output_transcription.text for each in contents if each.output_transcription] == [TEXT]
    assert {message.voice_activity.voice_activity_type.value for message in messages if message.voice_activity} == {
        "ACTIVITY_START", "ACTIVITY_END"
    }  # fmt: skip
    (usage,) = [message.usage_metadata for message in messages if message.usage_metadata]
    assert usage.model_dump(mode="json", by_alias=True, exclude_none=True) == USAGE
    setup = addresses.vendor.ledger[-1].fields
    assert (setup["model"], setup["generationConfig"]["temperature"]) == (f"models/{MODEL}", 0.3)
    assert setup["systemInstruction"]["parts"][0]["text"] == "Be brief."
    if who == "gateway":
        usd = pytest.approx((960 * 0.75 + 840 * 3 + 260 + 70 * 4.5 + 120 * 12) / 1e6, abs=1e-9)

        def recorded() -> list[Any]:
            """Return what is new: it comes a moment after the session's end, perhaps with that of the test before."""
            return [record for record in addresses.logs() if record["id"] not in before and record["cost_usd"] == usd]

        assert {(record["model_id"], record["status"]) for record in wait_for(recorded)} == {(f"gemini/{MODEL}", "success")}


def test_every_field_of_the_usage_is_priced_or_named(package):
    """`docs/dialects/gemini-live.md` says why these two are not billed."""
    package("google.genai")
    from google.genai import types

    known = {field.encode_name for field in msgspec.structs.fields(LiveUsage)}
    fields = {field.alias or name for name, field in types.UsageMetadata.model_fields.items()}
    assert known <= fields
    assert fields - known == {"totalTokenCount", "trafficType"}


@WHO
def test_text_in_text_out(connect, who):
    async def talk() -> str:
        from google.genai import types

        async with connect(who, response_modalities=["TEXT"]) as session:
            await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text="one two")]))
            return "".join([message.text or "" for message in await turn_of(session)])

    assert asyncio.run(talk()) == "one two "


@WHO
def test_a_function_call(connect, who):
    async def talk() -> tuple[Any, str]:
        from google.genai import types

        tools = [{"function_declarations": [{"name": "weather", "description": "Says the weather."}]}]
        async with connect(who, tools=tools) as session:
            await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text=TEXT)]))
            called, messages = None, []
            async for message in session.receive():
                messages.append(message)
                if message.tool_call:
                    (called,) = message.tool_call.function_calls
                    answer = types.FunctionResponse(id=called.id, name=called.name, response={"result": "it rains"})
                    await session.send_tool_response(function_responses=[answer])
            return called, spoken(messages)

    called, answer = asyncio.run(talk())
    assert (called.name, called.args) == ("weather", {"text": TEXT})
    assert answer == "it rains"


@WHO
def test_an_interruption_and_a_session_that_goes_away(addresses, connect, who):
    addresses.vendor.live = LiveScript(chunk_s=0.5, goes_away_after=1)

    async def talk() -> tuple[list[Any], int]:
        from google.genai import types
        from google.genai.errors import APIError

        messages: list[Any] = []
        async with connect(who, session_resumption={}) as session:
            await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text=TEXT)]))
            async for message in session.receive():
                messages.append(message)
                if message.data and not any(each.data for each in messages[:-1]):
                    await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text="x")]), turn_complete=False)
            while True:
                try:
                    messages.append(await session._receive())
                except APIError as closed:
                    return messages, closed.code

    messages, code = asyncio.run(talk())
    assert code == 1000
    assert any(message.server_content and message.server_content.interrupted for message in messages)
    assert [message.session_resumption_update.new_handle for message in messages if message.session_resumption_update] == ["handle-1"]
    assert [message.go_away.time_left for message in messages if message.go_away] == ["0.500s"]


@WHO
def test_refusals(connect, who):
    from google.genai.errors import APIError

    async def open_with(**options: Any) -> None:
        async with connect(who, **options):
            pass

    for options, code in (({"model": "no-such-model"}, 1008), ({"proactivity": {"proactive_audio": True}}, 1007)):
        with pytest.raises(APIError) as refused:
            asyncio.run(open_with(**options))
        assert refused.value.code == code


def test_a_wrong_key(connect):
    from websockets.exceptions import InvalidStatus

    async def open_it() -> None:
        async with connect("fake", "AIza-wrong"):
            pass

    with pytest.raises(InvalidStatus):
        asyncio.run(open_it())


# ---- frameworks


@WHO
def test_livekit(addresses, package, monkeypatch, who):
    """LiveKit's `RealtimeModel`, unchanged, in a spoken turn."""
    package("livekit")
    from google.genai import types
    from livekit import rtc
    from livekit.plugins.google.realtime import RealtimeModel

    monkeypatch.setenv("SSL_CERT_FILE", str(addresses.authority))
    addresses.vendor.live = LiveScript()

    async def spoken_by(generation: Any) -> bytes:
        return b"".join([bytes(frame.data) async for message in generation.message_stream async for frame in message.audio_stream])

    async def talk() -> tuple[list[Any], bytes, Any]:
        errors: list[Any] = []
        created: asyncio.Queue[Any] = asyncio.Queue()
        metrics: asyncio.Queue[Any] = asyncio.Queue()
        options = types.HttpOptions(base_url=addresses.of(who))
        model = RealtimeModel(model=MODEL, api_key=KEY, http_options=options)
        session = model.session()
        session.on("error", errors.append)
        session.on("generation_created", created.put_nowait)
        session.on("metrics_collected", metrics.put_nowait)
        for frame in FRAMES:
            session.push_audio(rtc.AudioFrame(frame, 16_000, 1, len(frame) // 2))
        answer = await spoken_by(await created.get())
        while not (counted := await metrics.get()).input_tokens:
            pass
        await session.aclose()
        return errors, answer, counted

    errors, answer, counted = asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert errors == []
    assert [done.text for done in fsk.decode(answer, 24_000)] == [TEXT]
    assert (counted.input_tokens, counted.output_tokens) == (USAGE["promptTokenCount"], USAGE["responseTokenCount"])
    assert (counted.input_token_details.audio_tokens, counted.output_token_details.audio_tokens) == (840, 120)


@WHO
def test_pipecat(addresses, package, monkeypatch, who):
    """Pipecat's `GeminiLiveLLMService`, unchanged, in a written turn."""
    package("pipecat")
    from google.genai.types import HttpOptions
    from pipecat.frames.frames import LLMRunFrame, TTSStoppedFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
    from pipecat.services.google.gemini_live.llm import GeminiLiveLLMService

    from tests.clients.test_pipecat import run, sound

    monkeypatch.setenv("SSL_CERT_FILE", str(addresses.authority))
    addresses.vendor.live = LiveScript()
    service: Any = GeminiLiveLLMService(
        api_key=KEY, http_options=HttpOptions(base_url=addresses.of(who)), settings=GeminiLiveLLMService.Settings(model=f"models/{MODEL}")
    )
    pair = LLMContextAggregatorPair(LLMContext(messages=[{"role": "user", "content": TEXT}]))
    frames = asyncio.run(run([pair.user(), service, pair.assistant()], [LLMRunFrame()], TTSStoppedFrame))
    assert [done.text for done in fsk.decode(sound(frames), 24_000)] == [TEXT]
