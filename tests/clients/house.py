"""One gateway before a fake of every vendor and the engine inside, for clients that are tried over both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from gw.types.asgi import ASGIApp
from tests.clients.conftest import Gateway
from tests.e2e.conftest import starter
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

TEXT = "what is the weather in Paris today"
VENDORS = {
    "deepgram": (FakeDeepgram, {"stt": "nova-3", "tts": "aura-2-thalia-en"}),
    "assemblyai": (FakeAssemblyAI, {"stt": "universal-3-6-pro"}),
    "elevenlabs": (FakeElevenLabs, {"stt": "scribe_v2", "tts": "eleven_flash_v2_5"}),
    "cartesia": (FakeCartesia, {"stt": "ink-whisper", "tts": "sonic-3"}),
}
"""Provider type → its fake, and the models it has."""
ALIASES = {"assemblyai": "universal-streaming-english"}
"""What a client that takes its vendor's names only calls the engine inside."""
OTHERS = {"stt": "other/tone", "tts": "other/tone", "llm": "other/echo"}


@attrs.frozen
class House(Gateway):
    """`model("deepgram", "stt", "own")` is what its own vendor calls it, `"other"` means the engine inside.

    `at("deepgram", "fake")` is the address of the fake itself, which the SDK validates; else the gateway's.
    """

    fakes: dict[str, str] = attrs.field(factory=dict)

    def model(self, vendor: str, modality: str, who: str) -> str:
        return ALIASES.get(vendor, OTHERS[modality]) if who == "other" else VENDORS[vendor][1][modality]

    def at(self, vendor: str, who: str) -> str:
        return self.fakes[vendor] if who == "fake" else self.daemon.url


@contextmanager
def hosted(app: ASGIApp) -> Iterator[str]:
    """Serve `app` from a thread of its own; its address."""
    ready: list[object] = []
    started = threading.Event()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            try:
                address = await nursery.start(serve_asgi, app)
                ready[:] = [address, trio.lowlevel.current_trio_token(), nursery.cancel_scope]
            finally:
                started.set()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    started.wait()
    address, token, scope = ready
    assert isinstance(address, str)
    assert isinstance(token, trio.lowlevel.TrioToken)
    assert isinstance(scope, trio.CancelScope)
    try:
        yield address
    finally:
        token.run_sync_soon(scope.cancel)
        thread.join()


@contextmanager
def house(folder: Path) -> Iterator[House]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        providers, models = ["  other: {type: sim}"], {name: [f"{model}: {{}}"] for name, model in OTHERS.items()}
        models["stt"] = [f"{OTHERS['stt']}: {{aliases: [{', '.join(ALIASES.values())}]}}"]
        fakes: dict[str, str] = {}
        for name, (fake, offered) in VENDORS.items():
            address = fakes[name] = stack.enter_context(hosted(fake(api_key="vendor-key", transcript=TEXT)))
            providers.append(f"  {name}: {{api_key: vendor-key, base_url: '{address}'}}")
            for modality, model in offered.items():
                models[modality].append(f"{name}/{model}: {{}}")
        text = "\n".join(
            [
                "providers:",
                *providers,
                "models:",
                *(f"  {modality}: {{{', '.join(names)}}}" for modality, names in models.items()),
                f"cost_tracking: {{db_path: {folder}/gw.db}}",
            ]
        )
        start = stack.enter_context(starter(folder))
        yield House(start(text), fakes)
