"""The built-in engine of demo mode and tests: no key, no weights, no network.

`tone` speaks and understands the tone voice (`gw.providers.sim.fsk`); `echo`, `scripted` and `flaky` are language models. Its
options say how late the engine answers and how it fails (`gw.providers.sim.call`); it is the one provider that sleeps.
"""

from __future__ import annotations

from gw.providers.sim.call import MODELS
from gw.providers.sim.chat import chat
from gw.providers.sim.stt import listen, transcribe
from gw.providers.sim.tts import speak, speak_live
from gw.providers.spec import CALLS, Honours, ProviderSpec
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    NO_STORE,
    PROMPT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    TEMPERATURE,
    TRANSLATE,
    WORD_TIMESTAMPS,
)
from gw.wire.openai_embeddings import EMBEDDINGS, MODERATIONS

__all__ = ["MODELS", "SPEC"]

_SPEECH: Honours = {NO_STORE: True, LANGUAGE: True, WORD_TIMESTAMPS: True}

SPEC = ProviderSpec(
    type="sim", base_url="", dialect="sim", more_chat_dialects=frozenset({EMBEDDINGS, MODERATIONS}),
    chat=chat, transcribe=transcribe, listen=listen, speak=speak, speak_live=speak_live,
    honours={
        "transcribe": {
            NO_STORE: True, LANGUAGE: True, KEYTERMS: True, PROMPT: True, TRANSLATE: True, WORD_TIMESTAMPS: True,
            SEGMENT_TIMESTAMPS: True, TEMPERATURE: True, DIARIZE: True, RESPONSE_FORMAT: True,
        },
        "listen": {NO_STORE: True, LANGUAGE: True, KEYTERMS: True, PROMPT: True, DIARIZE: True},
        "speak": _SPEECH, "speak_live": _SPEECH,
    },  # tones are read exactly, so hints have nothing to improve; they are one voice, so all words have one speaker
    health_path="", needs_address=False,
    speak_formats=frozenset({"pcm_s16le", "wav", "mulaw", "alaw"}), speak_g711_rates_hz=frozenset(),
    transports=dict.fromkeys(CALLS, "inside gw"),
    reported=frozenset(CALLS),
)
