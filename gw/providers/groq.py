"""Groq: OpenAI's dialect under /openai/v1; short audio is billed as ten seconds.

Groq answers 400 to some members that OpenAI takes; a chain from the one to the other must not break on them, so they are
left out: token probabilities, biases, the names of speakers.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import attrs
import msgspec

from gw.providers import openai_like
from gw.providers.chat_call import chat_call
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, ChatStream, ProviderSpec, SpeakSession, SpeakStream
from gw.types.audio import AudioFormat
from gw.types.llm import ChatRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import openai_chat_client

_NOT_TAKEN = frozenset({"logprobs", "top_logprobs", "logit_bias"})
_MESSAGES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def _body(request: ChatRequest, account: Account) -> bytes:
    fields = request.fields
    named = b'"name"' in bytes(fields["messages"])
    if named or not _NOT_TAKEN.isdisjoint(fields):
        fields = {name: raw for name, raw in fields.items() if name not in _NOT_TAKEN}
        if named:
            fields["messages"] = _without_names(fields["messages"])
        request = msgspec.structs.replace(request, fields=fields)
    return openai_chat_client.upstream_body(request, account.model)


def _without_names(messages: msgspec.Raw) -> msgspec.Raw:
    """Who speaks, where a message says so; the names of tools stand deeper."""
    try:
        told = _MESSAGES.decode(messages)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return messages   # the vendor will say what is wrong with them
    return msgspec.Raw(msgspec.json.encode([{k: v for k, v in message.items() if k != "name"} for message in told]))


_CHAT = attrs.evolve(openai_like.CHAT, body=_body)


def chat(request: ChatRequest, account: Account) -> AbstractAsyncContextManager[ChatStream]:
    """Chat, streamed or whole."""
    return chat_call(_CHAT, request, account)


def speak_live(request: SpeakLiveRequest, account: Account) -> AbstractAsyncContextManager[SpeakSession]:
    """A sentence at a time; the samples are taken out of the WAV, since there are no bare ones."""
    return by_sentence(_in_wav, request, account)


def _in_wav(request: SpeakRequest, account: Account) -> AbstractAsyncContextManager[SpeakStream]:
    return openai_like.speak(attrs.evolve(request, format=AudioFormat(encoding="wav")), account)


SPEC = ProviderSpec(
    type="groq",
    base_url="https://api.groq.com/openai/v1",
    dialect="openai",
    abilities=frozenset({"stream", "tools", "vision"}),
    chat=chat,
    transcribe=openai_like.transcribe,
    speak=openai_like.speak,
    speak_live=speak_live,
    transports={"speak_live": "as speech, by sentence"},
    rounds_audio_up_to_s=10.0,
    speak_formats=frozenset({"wav", "mp3", "flac", "ogg", "mulaw"}),
)
