"""Kokoro: local text-to-speech, by Kokoro-FastAPI (OpenAI's shape) or by kokoro-onnx in a process of ours.

Without `base_url`, `model_path` and `voices_path` name the engine's files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs

from gw.engines import kokoro_onnx as engine
from gw.engines.engine_client import at_engine, worker
from gw.engines.process import require
from gw.errors import ProviderRejected
from gw.providers import openai_like, wyoming_call
from gw.providers.http_call import rejection
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, ProviderSpec, SpeakSession, SpeakStream, bearer
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import vendor_errors

_OPENAI_VOICES = {
    "alloy": "am_adam", "ash": "af_nicole", "coral": "bf_emma", "echo": "af_bella", "fable": "af_sarah",
    "onyx": "bm_george", "nova": "bf_isabella", "sage": "am_michael", "shimmer": "af_sky",
}  # fmt: skip
"""As Kokoro-FastAPI maps them (August 2026)."""
_USUAL_VOICE = "af_heart"


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """Streamed a sentence at a time. A voice that is not there lets the next candidate speak."""
    if account.origin.scheme == "engine":
        voice = _OPENAI_VOICES.get(request.voice, request.voice) or _USUAL_VOICE
        peer = at_engine(engine.MODULE, engine.NEEDS, engine.EXTRA, engine_options(account), account.provider_id)
        async with wyoming_call.speak(peer, request, account, voice, request.speed) as spoken:
            yield spoken
        return
    try:
        async with openai_like.speak(attrs.evolve(request, voice=request.voice or _USUAL_VOICE), account) as stream:
            yield stream
    except ProviderRejected as error:
        if error.upstream_status == 400 and "voice" in error.detail.lower():
            error.fault = "candidate"
        raise


def engine_options(account: Account) -> dict[str, object]:
    return {name: account.options[name] for name in engine.OPTIONS if name in account.options}


def speak_live(request: SpeakLiveRequest, account: Account) -> AbstractAsyncContextManager[SpeakSession]:
    """A sentence at a time."""
    return by_sentence(speak, request, account)


async def check(account: Account) -> None:
    """Raises ProviderError unless the server answers, or the engine is loaded."""
    if account.origin.scheme == "engine":
        require(engine.NEEDS, engine.EXTRA, account.provider_id)
        await worker(engine.MODULE, engine_options(account)).wait_ready(account.provider_id)
        return
    headers = [(b"accept", b"application/json"), *bearer(account.api_key)]
    async with account.pool.open(account.provider_id, b"GET", account.origin, b"/models", headers) as response:
        if response.status != 200:
            raise await rejection(response, account, vendor_errors.classify)


SPEC = ProviderSpec(
    type="kokoro",
    base_url="http://127.0.0.1:8880/v1",
    dialect="openai",
    speak=speak,
    speak_live=speak_live,
    check=check,
    engine_option="model_path",
    engine_needs=engine.NEEDS,
    engine_extra=engine.EXTRA,
    transports={"speak": "HTTP, own process", "speak_live": "as speech, by sentence"},
    reported=frozenset(),
)
