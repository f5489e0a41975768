"""OpenAI: chat, speech and recordings over HTTP, live transcription over a WebSocket.

Source of the socket's address: openai-python 3.52.0 and livekit-plugins-openai 1.8.9 (November 2026): the vendor takes the
model of a transcription in its first `session.update` and refuses it in the query, where compatible servers expect it.
"""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from functools import partial
from urllib.parse import quote

import attrs
import msgspec

from gw.providers import openai_like
from gw.providers.chat_call import chat_call
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, bearer, rejected
from gw.providers.ws_session import open_listen_socket
from gw.types.llm import ChatRequest
from gw.types.speech_settings import INSTRUCTIONS, KEYTERMS, LANGUAGE, PROMPT, SPEED
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import openai_chat, openai_realtime_client
from gw.wire.convert import CannotConvert
from gw.wire.openai_realtime_client import RealtimeListenClient

_HOST = "api.openai.com"
_REASONING = re.compile(r"gpt-[5-9]|o\d")  # models that refuse `max_tokens`, the older name of `max_completion_tokens`


def _body(request: ChatRequest, account: Account) -> bytes:
    fields = request.fields
    if "max_tokens" in fields and "max_completion_tokens" not in fields and _REASONING.match(account.model):
        renamed = {"max_completion_tokens" if name == "max_tokens" else name: raw for name, raw in fields.items()}
        request = msgspec.structs.replace(request, fields=renamed)
    return openai_chat.upstream_body(request, account.model)


chat = partial(chat_call, attrs.evolve(openai_like.CHAT, body=_body))


def listen(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    """`{base}/realtime?intent=transcription`. Raw audio that the vendor does not take is converted to PCM."""
    provider = account.provider_id
    try:
        wire = RealtimeListenClient(provider, request, account.model, (account.api_key.reveal(),))
    except CannotConvert as error:
        raise rejected(account, str(error)) from None
    path = "/realtime?intent=transcription"
    if account.origin.host != _HOST:
        path += "&model=" + quote(account.model, safe="")
    return open_listen_socket(account, path, bearer(account.api_key), wire, wire.pace, opening=wire.opening())


def _takes_own(request: TranscribeRequest | ListenRequest | SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    """Recordings are checked by model, since their form may not say the same to each."""
    return request.dialect == "openai" and not isinstance(request, TranscribeRequest)


_LISTEN: Honours = {
    LANGUAGE: True,
    KEYTERMS: lambda request, account: openai_realtime_client.takes_keyterms(request, account.model),
    PROMPT: lambda request, account: openai_realtime_client.takes_prompt(account.model),
}  # fmt: skip
_SPEECH: Honours = {LANGUAGE: True, SPEED: True, INSTRUCTIONS: True}

SPEC = ProviderSpec(
    type="openai", base_url="https://api.openai.com/v1", dialect="openai",
    abilities=frozenset({"stream", "tools", "vision", "audio_in"}),
    honours={
        "transcribe": openai_like.OPENAI_HONOURS, "listen": _LISTEN, "speak": _SPEECH, "speak_live": _SPEECH,
    },
    takes_own=_takes_own,
    chat=chat, transcribe=openai_like.transcribe, listen=listen, speak=openai_like.speak,
    speak_live=by_sentence(openai_like.speak),
    listen_formats=frozenset({"pcm_s16le", "mulaw", "alaw"}),
    transports={"speak_live": "as speech, by sentence"},
    reported=frozenset({"chat", "transcribe", "listen"}),
    units={"transcribe": "tokens or seconds", "listen": "tokens or seconds", "speak": "characters or tokens"},
)
