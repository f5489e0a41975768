"""OpenAI: chat, speech and recordings over HTTP, live transcription over a WebSocket.

Source of the socket's address: openai-python 3.52.0 and livekit-plugins-openai 1.8.9 (November 2026): the vendor takes the
model of a transcription in its first `session.update` and refuses it in the query, where compatible servers look for it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import quote

import attrs
import msgspec

from gw.errors import ProviderRejected
from gw.net.ws_dial import open_ws
from gw.providers import openai_like
from gw.providers.chat_call import chat_call
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, ChatStream, ListenSession, ProviderSpec, SpeakSession, bearer
from gw.providers.ws_session import ListenSocket, send
from gw.types.llm import ChatRequest
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.wire import openai_chat_client
from gw.wire.openai_realtime_client import CannotConvert, RealtimeListener

_HOST = "api.openai.com"
_REASONING = re.compile(r"gpt-[5-9]|o\d")
"""Models that refuse `max_tokens`, the older name of `max_completion_tokens`."""


def _body(request: ChatRequest, account: Account) -> bytes:
    fields = request.fields
    if "max_tokens" in fields and "max_completion_tokens" not in fields and _REASONING.match(account.model):
        renamed = {"max_completion_tokens" if name == "max_tokens" else name: raw for name, raw in fields.items()}
        request = msgspec.structs.replace(request, fields=renamed)
    return openai_chat_client.upstream_body(request, account.model)


_CHAT = attrs.evolve(openai_like.CHAT, body=_body)


def chat(request: ChatRequest, account: Account) -> AbstractAsyncContextManager[ChatStream]:
    """Chat, streamed or whole."""
    return chat_call(_CHAT, request, account)


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`{base}/realtime?intent=transcription`. Audio of any raw form; what the vendor does not take is made into PCM."""
    provider, secret = account.provider_id, account.api_key.reveal()
    try:
        listener = RealtimeListener(provider, request, account.model, (secret,))
    except CannotConvert as error:
        raise ProviderRejected(provider=provider, upstream_status=400, fault="candidate", detail=str(error)) from None
    path = "/realtime?intent=transcription"
    if account.origin.host != _HOST:
        path += "&model=" + quote(account.model, safe="")
    headers = bearer(account.api_key)
    async with open_ws(provider, account.origin, path.encode(), headers=headers, connect=account.pool.connect) as ws:
        session = ListenSocket(ws, listener, provider)
        await send(ws, provider, listener.opening())
        yield session


def speak_live(request: SpeakLiveRequest, account: Account) -> AbstractAsyncContextManager[SpeakSession]:
    """A sentence at a time."""
    return by_sentence(openai_like.speak, request, account)


SPEC = ProviderSpec(
    type="openai",
    base_url="https://api.openai.com/v1",
    dialect="openai",
    abilities=frozenset({"stream", "tools", "vision", "audio_in"}),
    chat=chat,
    transcribe=openai_like.transcribe,
    listen=listen,
    speak=openai_like.speak,
    speak_live=speak_live,
    transports={"speak_live": "as speech, by sentence"},
    listen_formats=frozenset({"pcm_s16le", "mulaw", "alaw"}),
    reported=frozenset({"chat", "transcribe", "listen"}),
    units={"transcribe": "tokens or seconds", "listen": "tokens or seconds", "speak": "characters or tokens"},
)
