"""Groq: OpenAI's dialect under /openai/v1; short audio is billed as ten seconds.

Groq answers 400 to some members that OpenAI takes: token probabilities, biases, the names of speakers. They are left out and
noted, so that a fallback chain from OpenAI to Groq works.
"""

from __future__ import annotations

from functools import partial

import attrs

from gw.providers import openai_like
from gw.providers.chat_call import chat_call
from gw.providers.http_call import HttpCall
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, ChatStream, Honours, ProviderSpec, SpeakStream
from gw.types.audio import AudioFormat
from gw.types.chat_variant import ChatVariant
from gw.types.llm import ChatRequest
from gw.types.speech_settings import LANGUAGE, SPEED, TRANSLATE
from gw.types.stt import TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import chat_variants
from gw.wire.query import bare_language

_VARIANT = ChatVariant(refuses=frozenset({"logprobs", "top_logprobs", "logit_bias"}), message_names=False)
_CHAT = attrs.evolve(
    openai_like.CHAT, body=lambda request, account: chat_variants.upstream_body(request, account.model, _VARIANT)
)


def chat(request: ChatRequest, account: Account) -> HttpCall[ChatStream]:
    """`POST {base}/chat/completions`, or `{base}/embeddings` (groq 1.7.0, `resources/embeddings.py`)."""
    return chat_call(openai_like.EMBEDDINGS if request.dialect == openai_like.EMBEDDINGS.dialect else _CHAT, request, account)


def _default_voice(model: str) -> str | None:
    """Return the first of the vendor's list for its English voices; it requires one."""
    return "autumn" if model.endswith("orpheus-v1-english") else None


def _speak_wav(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """Groq has no raw PCM; live speech takes its samples out of the WAV."""
    return _speak(attrs.evolve(request, format=AudioFormat(encoding="wav")), account)


def _speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """Groq refuses a speed other than 1, and knows no instructions."""
    return openai_like.speak(attrs.evolve(request, speed=None, instructions=None, custom_voice=False), account)


def _takes_own(request: TranscribeRequest | SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    """Groq knows fewer settings than the dialect has."""
    return False


def _speaks(request: SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    """Orpheus has a model for each language."""
    bare = bare_language(request.language)
    return bare == ("ar" if "arabic" in account.model else "en") if "orpheus" in account.model else True


_FORMATS = frozenset({"json", "text", "verbose_json"})  # groq 1.7.0, `TranscriptionCreateParams`
_TRANSCRIBE: Honours = {
    **openai_like.WHISPER_HONOURS,
    TRANSLATE: lambda request, account: "turbo" not in account.model,  # docs "Speech to text", November 2026
}
_SPEECH: Honours = {LANGUAGE: _speaks, SPEED: lambda request, account: request.speed == 1}

SPEC = ProviderSpec(
    type="groq", base_url="https://api.groq.com/openai/v1", dialect="openai",
    default_voice=_default_voice, chat_variant=_VARIANT,
    abilities=frozenset({"stream", "tools", "vision"}),
    more_chat_dialects=frozenset({openai_like.EMBEDDINGS.dialect}),
    fetches=frozenset({"openai"}),
    chat=chat, transcribe=partial(openai_like.transcribe, native=_FORMATS), speak=_speak, speak_live=by_sentence(_speak_wav),
    honours={"transcribe": _TRANSCRIBE, "speak": _SPEECH, "speak_live": _SPEECH}, takes_own=_takes_own,
    speak_formats=frozenset({"wav"}),  # Orpheus refuses all others: roryeckel/wyoming_openai issue 43, openclaw/openclaw pull request 62233
    transports={"speak_live": "as speech, by sentence"},
    rounds_audio_up_to_s=10.0,
)
