"""Two gateways before a fake of every vendor: a client calls its own vendor through one, another vendor through the other."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio

from gw.providers.sim import fsk
from gw.types.asgi import ASGIApp
from gw.types.llm import ChatRequest
from gw.types.tts import SpeakRequest
from tests.clients.conftest import Gateway
from tests.e2e.conftest import Daemon, starter
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.gemini import FakeGemini
from tests.fakes.vendors.openai import FakeOpenAI

KEY = "vendor-key"
TEXT = "what is the weather in Paris today"
STORY_WANTED = "tell me a long story"
STORY = "Once upon a time there was a gateway that spoke with everybody. " * 15
"""The answer to these words: speech of more than 30 s, so that there is something to interrupt also on a busy machine."""


@attrs.frozen(kw_only=True)
class Vendor:
    """A fake vendor, its models, the models that answer in their place, and the path of its API."""

    fake: Callable[[], ASGIApp]
    models: Mapping[str, str]
    others: Mapping[str, str]
    root: str = ""


def _spoken(request: SpeakRequest) -> bytes:
    return b"".join(fsk.encode(request.text, 24_000))


def _reply(request: ChatRequest) -> str:
    return STORY if STORY_WANTED.encode() in bytes(request.fields["messages"]) else TEXT


_LIVE: Mapping[str, Any] = {"api_key": KEY, "transcript": TEXT}
_LIKE_OPENAI: Mapping[str, Any] = {**_LIVE, "reply": _reply, "speech_pcm": _spoken}
VENDORS: Mapping[str, Vendor] = {
    "deepgram": Vendor(
        fake=lambda: FakeDeepgram(**_LIVE),
        models={"stt": "nova-3", "tts": "aura-2-thalia-en"},
        others={"stt": "assemblyai/universal-3-6-pro", "tts": "cartesia/sonic-3"},
    ),
    "assemblyai": Vendor(
        fake=lambda: FakeAssemblyAI(**_LIVE),
        models={"stt": "universal-3-6-pro"},
        others={"stt": "deepgram/nova-3"},
    ),
    "elevenlabs": Vendor(
        fake=lambda: FakeElevenLabs(**_LIVE),
        models={"stt": "scribe_v2", "tts": "eleven_flash_v2_5"},
        others={"stt": "deepgram/nova-3", "tts": "cartesia/sonic-3"},
    ),
    "cartesia": Vendor(
        fake=lambda: FakeCartesia(**_LIVE),
        models={"stt": "ink-whisper", "tts": "sonic-3"},
        others={"stt": "elevenlabs/scribe_v2", "tts": "deepgram/aura-2-thalia-en"},
    ),
    "openai": Vendor(
        fake=lambda: FakeOpenAI(**_LIKE_OPENAI),
        models={"stt": "gpt-4o-transcribe", "llm": "gpt-4o-mini", "tts": "gpt-4o-mini-tts"},
        others={"stt": "deepgram/nova-3", "llm": "anthropic/claude-haiku-4-5", "tts": "elevenlabs/eleven_flash_v2_5"},
        root="/v1",
    ),
    "groq": Vendor(
        fake=lambda: FakeOpenAI(**_LIKE_OPENAI, prefix="/openai/v1"),
        models={"stt": "whisper-large-v3-turbo", "llm": "llama-3.3-70b-versatile", "tts": "canopylabs/orpheus-v1-english"},
        others={"stt": "assemblyai/universal-3-6-pro", "llm": "anthropic/claude-haiku-4-5", "tts": "deepgram/aura-2-thalia-en"},
        root="/openai/v1",
    ),
    "anthropic": Vendor(
        fake=lambda: FakeAnthropic(api_key=KEY, reply=_reply),
        models={"llm": "claude-haiku-4-5"},
        others={"llm": "groq/llama-3.3-70b-versatile"},
    ),
}
"""By provider type."""
_VOICED = ("cartesia/sonic-3", "elevenlabs/eleven_flash_v2_5")
"""Models whose vendors accept voice ids only, which an app of another vendor does not know."""
LIVE_MODEL = "gemini-3.8-live"
INFERENCE = {"stt": "deepgram/nova-2", "llm": "openai/gpt-4.1", "tts": "cartesia/sonic-2"}
"""Names of models in LiveKit's inference service."""


@attrs.frozen
class GatewayPair:
    """Two gateways before the same fakes. In `own` a model is served by its vendor, in `other` by another vendor.

    So an app changes its address, `at(vendor, "own")`, and nothing else; `speaking` is `own` with the vendor's model that hears and
    speaks itself, `gemini` with such a one of Google's, in another protocol. `at(vendor, "fake")` is the fake itself, which the SDK
    validates.
    """

    gateways: Mapping[str, Daemon]
    fakes: Mapping[str, str]

    def model(self, vendor: str, modality: str) -> str:
        return VENDORS[vendor].models[modality]

    def at(self, vendor: str, who: str, scheme: str = "http") -> str:
        address = self.fakes[vendor] if who == "fake" else self.gateways["own" if who in ("speaking", "gemini") else who].url
        return address.replace("http", scheme, 1)

    def conversation_model(self, who: str) -> str:
        """Return the model of a realtime conversation: a stack of three, or one that hears and speaks itself."""
        if who == "gemini":
            return f"gemini/{LIVE_MODEL}"
        return "gpt-realtime" if who in ("speaking", "fake") else "talk"

    def record(self, who: str, request_id: str) -> dict[str, Any]:
        """Return a gateway's record of a request."""
        return Gateway(self.gateways[who]).record(request_id)


def spoken_text(pcm: bytes, rate: int) -> str:
    """Return the words that the tone voices spoke."""
    return " ".join(" ".join(done.text for done in fsk.decode(pcm, rate)).split())


@contextmanager
def hosted(app: ASGIApp, serve: Callable[..., Awaitable[None]] = serve_asgi) -> Iterator[str]:
    """Serve `app` in a thread; yields its address. Raises at its end what ended the server before."""
    ready: list[object] = []
    ended_by: list[BaseException] = []
    started = threading.Event()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            try:
                address = await nursery.start(serve, app)
                ready[:] = [address, trio.lowlevel.current_trio_token(), nursery.cancel_scope]
            finally:
                started.set()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            ended_by.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    address, token, scope = ready
    assert isinstance(address, str)
    assert isinstance(token, trio.lowlevel.TrioToken)
    assert isinstance(scope, trio.CancelScope)
    try:
        yield address
    finally:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(scope.cancel)
        thread.join()
        if ended_by:
            raise ended_by[0]


@contextmanager
def open_gateway_pair(folder: Path) -> Iterator[GatewayPair]:
    with ExitStack() as stack:
        fakes = {name: stack.enter_context(hosted(vendor.fake())) for name, vendor in VENDORS.items()}
        fakes["gemini"] = stack.enter_context(hosted(FakeGemini(prefix="/v1beta", api_key=KEY)))
        gateways: dict[str, Daemon] = {}
        for who in ("own", "other"):
            place = folder / who
            place.mkdir()
            gateways[who] = stack.enter_context(starter(place))(json.dumps(_settings(fakes, who)))
        yield GatewayPair(gateways, fakes)


def _settings(fakes: Mapping[str, str], who: str) -> dict[str, Any]:
    """Return a configuration with every vendor and its models. Only the aliases differ between the two gateways."""
    aliases: dict[str, dict[str, list[str]]] = {"stt": {}, "llm": {}, "tts": {}}
    for name, vendor in VENDORS.items():
        for modality, model in vendor.models.items():
            aliases[modality].setdefault(f"{name}/{model}", [])
            if who == "other":
                aliases[modality].setdefault(vendor.others[modality], []).append(model)
    aliases["llm"]["openai/gpt-realtime"] = aliases["llm"][f"gemini/{LIVE_MODEL}"] = []
    for modality, inferred in INFERENCE.items():
        vendor_name = inferred.partition("/")[0]
        vendor_ = VENDORS[vendor_name]
        behind = vendor_.others[modality] if who == "other" else f"{vendor_name}/{vendor_.models[modality]}"
        aliases[modality][behind].append(inferred)
    talk = VENDORS["openai"]
    named = {modality: f"openai/{model}" for modality, model in talk.models.items()} if who == "own" else dict(talk.others)
    models = {
        modality: {
            model: {"aliases": names, **({"default_voice": "a-voice"} if model in _VOICED else {})}
            for model, names in of.items()
        }
        for modality, of in aliases.items()
    }
    providers = {name: {"api_key": KEY, "base_url": fakes[name] + v.root} for name, v in VENDORS.items()}
    providers["gemini"] = {"api_key": KEY, "base_url": fakes["gemini"] + "/v1beta/openai"}
    serve = {"recording_hosts": ["127.0.0.1"]}
    # The fakes are threads of the tests' process, and late on a busy machine.
    routing = {"first_event_s": {"stt": 60, "llm": 60, "tts": 60}, "idle_s": 60, "silence_ms": 60_000}
    return {"providers": providers, "models": models, "stacks": {"talk": named}, "serve": serve, "routing": routing}
