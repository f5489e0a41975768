"""OpenAI: chat, speech and recordings over HTTP, live transcription over a WebSocket.

Source of the socket's address: openai-python 3.52.0 and livekit-plugins-openai 1.8.9 (November 2026): the vendor takes the
model of a transcription in its first `session.update` and refuses it in the query, where compatible servers expect it.
"""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from urllib.parse import quote

import attrs
import msgspec

from gw.errors import ProviderRejected
from gw.providers import openai_like, realtime_conversation
from gw.providers.chat_call import chat_call
from gw.providers.http_call import HttpCall
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import (
    Abortable,
    Account,
    ChatStream,
    Honours,
    ListenSession,
    ProviderSpec,
    SpeakStream,
    bearer,
    rejected,
)
from gw.providers.ws_session import open_listen_socket
from gw.types.llm import ChatRequest
from gw.types.speech_settings import INSTRUCTIONS, KEYTERMS, LANGUAGE, PROMPT, SPEED
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import openai_chat, openai_realtime_client, openai_responses_request
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


_CHAT = attrs.evolve(openai_like.CHAT, body=_body)
_RESPONSES = openai_like.RESPONSES
_CHAT_ONLY = "openai.chat_only"
_DOCUMENTS = {wire.dialect: wire for wire in (openai_like.EMBEDDINGS, openai_like.MODERATIONS)}


def chat(request: ChatRequest, account: Account) -> Abortable[ChatStream]:
    """`POST {base}/chat/completions`, or the path of another dialect: `{base}/responses` where the server has it."""
    if (document := _DOCUMENTS.get(request.dialect)) is not None:
        return chat_call(document, request, account)
    if request.dialect != _RESPONSES.dialect or (account.call_state.get(_CHAT_ONLY) and request.only_native is None):
        return chat_call(_CHAT, request, account)
    if request.only_native is not None or account.origin.host == _HOST:
        return chat_call(_RESPONSES, request, account)
    return _ResponsesOrChat(request, account)


class _ResponsesOrChat(Abortable[ChatStream]):
    """A call of `/responses`, or of `/chat/completions` where a compatible server has no such path. That is remembered."""

    __slots__ = ("_aborted", "_account", "_call", "_refused", "_request")

    def __init__(self, request: ChatRequest, account: Account) -> None:
        self._request = request
        self._account = account
        self._call: Abortable[ChatStream] = chat_call(_RESPONSES, request, account)
        self._aborted = False
        self._refused = False  # the first call was sent, and refused

    @property
    def began(self) -> bool:
        return self._refused or self._call.began

    def abort(self) -> None:
        self._aborted = True
        self._call.abort()

    async def __aenter__(self) -> ChatStream:
        try:
            return await self._call.__aenter__()
        except ProviderRejected as error:
            if self._aborted or error.upstream_status not in (404, 405) or error.upstream_code.startswith("model"):
                raise
        self._refused = True
        self._call = chat_call(_CHAT, self._request, self._account)
        stream = await self._call.__aenter__()
        self._account.call_state[_CHAT_ONLY] = True
        return stream

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._call.__aexit__(kind, error, trace)


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


def _speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """Custom voices, whose ids begin with `voice_`, are objects, also where `voices` in gw.yaml names one."""
    if request.voice.startswith("voice_") and account.origin.host == _HOST:
        request = attrs.evolve(request, custom_voice=True)
    return openai_like.speak(request, account)


SPEC = ProviderSpec(
    type="openai", base_url="https://api.openai.com/v1", dialect="openai",
    more_chat_dialects=frozenset({openai_responses_request.DIALECT, *_DOCUMENTS}),
    default_voice=lambda model: "alloy",  # the API requires one; this is the first of its list
    abilities=frozenset({"stream", "tools", "vision", "audio_in"}),
    honours={
        "transcribe": openai_like.OPENAI_HONOURS, "listen": _LISTEN, "speak": _SPEECH, "speak_live": _SPEECH,
    },
    takes_own=_takes_own,
    chat=chat, transcribe=openai_like.transcribe, listen=listen, speak=_speak,
    speak_live=by_sentence(_speak),
    converse=realtime_conversation.converse, converses=realtime_conversation.hears_and_speaks,
    listen_formats=frozenset({"pcm_s16le", "mulaw", "alaw"}),
    transports={"speak_live": "as speech, by sentence"},
    reported=frozenset({"chat", "transcribe", "listen"}),
    units={"transcribe": "tokens or seconds", "listen": "tokens or seconds", "speak": "characters or tokens"},
)
