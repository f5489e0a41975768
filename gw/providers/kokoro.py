"""Kokoro: local text-to-speech, by Kokoro-FastAPI (OpenAI's dialect) or by kokoro-onnx in a child process.

Without `base_url`, `model_path` and `voices_path` name the engine's files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from gw.engines import kokoro_onnx as engine
from gw.engines.engine_client import engine_process, engine_request
from gw.errors import ProviderRejected
from gw.providers import openai_like, wyoming_call
from gw.providers.http_call import check_get
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, bearer
from gw.types.speech_settings import LANGUAGE, NO_STORE, SPEED
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import vendor_errors
from gw.wire.query import bare_language

_OPENAI_VOICES = {
    "alloy": "am_adam", "ash": "af_nicole", "coral": "bf_emma", "echo": "af_bella", "fable": "af_sarah",
    "onyx": "bm_george", "nova": "bf_isabella", "sage": "am_michael", "shimmer": "af_sky",
}  # fmt: skip
"""OpenAI's voices, mapped like in Kokoro-FastAPI (August 2026)."""
_DEFAULT_VOICE = "af_heart"


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """Streamed a sentence at a time. An unknown voice moves on to the next candidate."""
    if account.origin.scheme == "engine":
        voice = _OPENAI_VOICES.get(request.voice, request.voice) or _DEFAULT_VOICE
        peer = engine_request(engine, account.options, account.provider_id)
        async with wyoming_call.speak(peer, request, account, voice, request.speed) as speech:
            yield speech
        return
    try:
        request = attrs.evolve(request, voice=request.voice or _DEFAULT_VOICE, custom_voice=False)
        async with openai_like.speak(request, account) as stream:
            yield stream
    except ProviderRejected as error:
        if error.upstream_status == 400 and "voice" in error.detail.lower():
            error.fault = "candidate"
        raise


async def check(account: Account) -> None:
    """Raise ProviderError unless the server answers, or the engine is loaded."""
    if account.origin.scheme == "engine":
        await engine_process(engine, account.options, account.provider_id).wait_ready(account.provider_id)
    else:
        await check_get(account, b"/models", b"application/json", vendor_errors.classify, bearer(account.api_key))


_LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
"""First letter of a voice → its language."""


def _speaks(request: SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    voice = _OPENAI_VOICES.get(request.voice, request.voice) or _DEFAULT_VOICE
    language = _LANGUAGES.get(voice[0], "en") if voice[1:3] in ("f_", "m_") else "en"
    return bare_language(request.language) == language


_SPEECH: Honours = {NO_STORE: True, LANGUAGE: _speaks, SPEED: True}
"""Nothing leaves the user's own machines."""

SPEC = ProviderSpec(
    type="kokoro", base_url="http://127.0.0.1:8880/v1", dialect="openai",
    default_voice=lambda model: _DEFAULT_VOICE, openai_voices=frozenset(_OPENAI_VOICES),
    speak=speak, speak_live=by_sentence(speak),
    honours={"speak": _SPEECH, "speak_live": _SPEECH}, takes_own=lambda request, account: False,
    check=check, engine_option="model_path", engine_needs=engine.NEEDS, engine_extra=engine.EXTRA,
    transports={"speak": "HTTP, own process", "speak_live": "as speech, by sentence"},
    reported=frozenset(),
)
