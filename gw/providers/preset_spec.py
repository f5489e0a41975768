"""The `ProviderSpec` of a preset: a vendor that is a file (`gw.types.presets`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

import attrs

from gw.providers import (
    gemini_conversation,
    gemini_speech,
    openai_like,
    realtime_conversation,
    utterance_stt,
    xai_speech,
)
from gw.providers.chat_call import ChatWire, chat_call
from gw.providers.http_call import HttpCall
from gw.providers.realtime_stt import by_socket_or_utterance
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import (
    Account,
    ChatCall,
    ChatStream,
    HonourRule,
    Honours,
    ListenCall,
    ListenSession,
    ProviderSpec,
    SpeakCall,
    SpeakStream,
    TranscribeCall,
    bearer,
)
from gw.types.audio import AudioFormat
from gw.types.llm import Ability, ChatRequest
from gw.types.presets import Preset, PresetChat, PresetConversation, PresetRecordings, PresetSpeech
from gw.types.secret import Secret
from gw.types.speech_settings import INSTRUCTIONS, KEYTERMS, LANGUAGE, NO_STORE, OTHERS, PROMPT, SPEED
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakRequest
from gw.wire import chat_as_responses, chat_variants, gemini_live
from gw.wire.realtime_duration import SessionDuration

KeyHeaders = Callable[[Secret], list[tuple[bytes, bytes]]]
_ENDPOINTS: Mapping[str, ChatWire] = {
    "embeddings": openai_like.EMBEDDINGS, "moderations": openai_like.MODERATIONS, "responses": openai_like.RESPONSES,
}  # fmt: skip


def preset_spec(name: str, preset: Preset) -> ProviderSpec:
    """Return the spec of a provider type."""
    key_headers = bearer if preset.key_header == "authorization" else _key_in(preset.key_header.encode())
    honours: dict[str, Honours] = {}
    spec = ProviderSpec(
        type=name, base_url=preset.base_url, dialect="openai", health_path=preset.health_path, key_headers=key_headers,
        honours=honours, takes_own=_takes_own,
    )
    if (llm := preset.llm) is not None:
        abilities: dict[Ability, bool] = {"stream": True, "tools": llm.tools, "vision": llm.vision, "audio_in": llm.audio_in}
        spec = attrs.evolve(
            spec, chat=_chat(llm, key_headers), chat_variant=llm,
            abilities=frozenset(ability for ability, has in abilities.items() if has),
            more_chat_dialects=frozenset(_ENDPOINTS[endpoint].dialect for endpoint in llm.endpoints),
        )
    if (stt := preset.stt) is not None and stt.protocol == "openai":
        transcribe = partial(openai_like.transcribe, native=stt.formats)
        honours["transcribe"] = _recordings(stt, preset)
        if stt.live:
            honours["listen"] = _live(stt, preset)
        spec = attrs.evolve(spec, transcribe=transcribe)
        if stt.live:
            listen, transport = _listening(stt, transcribe)
            spec = attrs.evolve(spec, listen=listen, listen_rates_hz=frozenset({16_000}), transports={"listen": transport})
    if (tts := preset.tts) is not None and tts.protocol != "xai":
        speak = gemini_speech.speak if tts.protocol == "gemini" else _speak(tts)
        honours["speak"] = honours["speak_live"] = gemini_speech.HONOURS if tts.protocol == "gemini" else _speech(tts, preset)
        spec = attrs.evolve(
            spec, speak=speak, speak_live=by_sentence(speak if "pcm_s16le" in tts.formats else _as_wav(speak)),
            speak_formats=tts.formats, default_voice=lambda model: tts.default_voice,
            transports={**spec.transports, "speak_live": "as speech, by sentence"},
        )
        if tts.protocol == "gemini":
            spec = attrs.evolve(
                spec, speak_rates_hz=gemini_speech.RATES_HZ, transports={**spec.transports, "speak": "HTTP, events"},
                reported=spec.reported | {"speak", "speak_live"}, units={"speak": "tokens", "speak_live": "tokens"},
            )
    if stt is not None and stt.protocol == "xai":
        spec = xai_speech.with_transcription(spec)
    if tts is not None and tts.protocol == "xai":
        spec = xai_speech.with_speech(spec)
    if preset.conversation is not None:
        spec = _with_conversations(spec, preset.conversation)
    return spec


def _with_conversations(spec: ProviderSpec, preset: PresetConversation) -> ProviderSpec:
    if preset.protocol == "gemini":
        return attrs.evolve(
            spec, converse=gemini_conversation.converse, converses=gemini_live.hears_and_speaks, converse_dialect="gemini"
        )
    return attrs.evolve(
        spec, converse=partial(realtime_conversation.converse, top_level=preset.top_level),
        converses=lambda model: model.startswith(preset.prefix),
        converse_counter=SessionDuration if preset.billed_by == "duration" else None,
    )


def _key_in(header: bytes) -> KeyHeaders:
    return lambda key: [(header, key.reveal().encode())] if key else []


def _takes_own(request: object, account: Account) -> bool:
    """Presets state what their vendor takes, so a request of the same dialect is checked as any other."""
    return False


def _never(request: object, account: Account) -> bool:
    return False


# ---- chat


def _chat(preset: PresetChat, key_headers: KeyHeaders) -> ChatCall:
    """Return the call: `POST {base}/chat/completions` (or `/responses`), or the vendor's path for another dialect."""
    plain, body_for = openai_like.CHAT, chat_variants.upstream_body
    if preset.protocol == "responses":
        plain, body_for = openai_like.RESPONSES, chat_as_responses.upstream_body
    wire = attrs.evolve(plain, headers=key_headers, body=lambda request, account: body_for(request, account.model, preset))
    others = {
        other.dialect: attrs.evolve(other, headers=key_headers)
        for other in (_ENDPOINTS[endpoint] for endpoint in preset.endpoints)
    }

    def chat(request: ChatRequest, account: Account) -> HttpCall[ChatStream]:
        return chat_call(others.get(request.dialect, wire), request, account)

    return chat


# ---- recordings and live transcription


def _recordings(preset: PresetRecordings, vendor: Preset) -> Honours:
    local: Honours = {NO_STORE: True} if vendor.location == "local" else {}
    return {**openai_like.WHISPER_HONOURS, **local, **dict.fromkeys(preset.refuses, _never)}


def _live(preset: PresetRecordings, vendor: Preset) -> Honours:
    recordings = _recordings(preset, vendor)
    return {name: recordings[name] for name in (LANGUAGE, KEYTERMS, PROMPT, NO_STORE) if name in recordings}


def _listening(preset: PresetRecordings, transcribe: TranscribeCall) -> tuple[ListenCall, str]:
    """Return the call for live transcription, and its transport for the documentation."""
    if preset.live == "realtime":
        return partial(by_socket_or_utterance, transcribe), "WebSocket; else by utterance"
    return partial(_by_utterance, transcribe), "as recordings, by utterance"


@asynccontextmanager
async def _by_utterance(
    transcribe: TranscribeCall, request: ListenRequest, account: Account
) -> AsyncIterator[ListenSession]:
    send = utterance_stt.as_recordings(transcribe, request, account)
    async with utterance_stt.by_utterance(send, request, account) as session:
        yield session


# ---- speech


def _speech(preset: PresetSpeech, vendor: Preset) -> Honours:
    """Members that this code does not know are sent on for a caller of the same dialect."""
    honours: dict[str, HonourRule | Literal[True]] = {
        LANGUAGE: True, SPEED: True, INSTRUCTIONS: True, OTHERS: lambda request, account: request.dialect == "openai",
    }  # fmt: skip
    if vendor.location == "local":
        honours[NO_STORE] = True
    return {name: rule for name, rule in honours.items() if name not in preset.refuses}


def _as_wav(speak: SpeakCall) -> SpeakCall:
    """Return the call for a server whose raw samples have a rate that it does not tell; that of a WAV is in its header."""
    return lambda request, account: speak(attrs.evolve(request, format=AudioFormat(encoding="wav")), account)


def _speak(preset: PresetSpeech) -> SpeakCall:
    """Return the call without the settings that the vendor refuses; the record notes them."""

    def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
        if SPEED in preset.refuses:
            request = attrs.evolve(request, speed=None)
        if INSTRUCTIONS in preset.refuses:
            request = attrs.evolve(request, instructions=None)
        return openai_like.speak(request, account)

    return speak
