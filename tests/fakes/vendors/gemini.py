"""Gemini: chat in OpenAI's dialect, with the vendor's conventions, and speech and live conversations as its own API has them.

What it refuses of speech: livekit-plugins-google 1.8.9 (a style, of models that take none), google-genai 3.6.1 (the key's header), and the
vendor's page "Text-to-speech generation" (voices; an answer is audio only).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import attrs
import msgspec
import trio

from gw.types.usage import Usage
from gw.wire import gemini_live, gemini_speak
from tests.fakes.vendors import openai_realtime
from tests.fakes.vendors.gemini_live import LiveConversation, LiveScript
from tests.fakes.vendors.openai_variants import CONVENTIONS, Conventions, FakeVariant, google_error
from tests.fakes.vendors.scripted import Answer, Entry, Receive, Send, json_of

_OPENAIS = "/openai"
MODELS = ("gemini-3.8-flash-tts", "gemini-3.8-flash-lite-tts", "gemini-3.1-flash-tts-preview")


@attrs.define(kw_only=True)
class FakeGemini(FakeVariant):
    """`prefix` is the address without the segment of OpenAI's dialect."""

    conventions: Conventions = attrs.field(factory=lambda: CONVENTIONS["gemini"])
    refused: str = ""
    """Reason for which it ends an answer in place of audio."""
    live: LiveScript = attrs.field(factory=LiveScript)
    """Behaviour of models that hear and speak themselves."""

    async def _socket(self, entry: Entry, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        version = next((each for each in gemini_live.VERSIONS if entry.path == gemini_live.path(each)), "")
        if not version:
            await super()._socket(entry, scope, receive, send)
            return
        status = self.status if isinstance(self.status, int) else self.status.pop(0) if self.status else 200
        keys = parse_qs(scope.get("query_string", b"").decode()).get("key", [])
        if self.api_key and (entry.headers.get("x-goog-api-key") or "".join(keys)) != self.api_key:
            status = 401
        if status != 200:
            await receive()
            body = msgspec.json.encode(google_error(status, self.error_code, "scripted failure")[0])
            await openai_realtime.refuse(send, status, body)
            return
        await openai_realtime.accept(receive, send, self.answer_after_s, None)
        await LiveConversation(entry, send, version, self.live).run(receive)

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-goog-api-key") or super().key_in(headers)

    def routes(self) -> Any:
        compatible = {(method, _OPENAIS + path): handler for (method, path), handler in super().routes().items()}
        return compatible | {("POST", gemini_speak.path_of(model).partition("?")[0]): self._speak for model in MODELS}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        speaks = not self.openai_errors and not self.ledger[-1].path.startswith(self.prefix + _OPENAIS)
        return msgspec.json.encode(google_error(status, code, message)[0]) if speaks else super().error_response(status, code, message)

    def stream_error_event(self, code: str) -> bytes:
        if self.ledger[-1].path.startswith(self.prefix + _OPENAIS):
            return super().stream_error_event(code)
        return b"data: " + msgspec.json.encode({"error": {"code": 500, "message": "scripted failure", "status": code}}) + b"\r\n\r\n"

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = gemini_speak.parse(body, entry.path.rpartition("/")[2].partition(":")[0])
        entry.fields = json_of(body) | {"style": request.instructions, "voice": request.voice, "text": request.text}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(400, "INVALID_ARGUMENT", f"Voice name {request.voice} is not supported.")
            return
        audio = b"" if self.empty else self.speech_pcm if isinstance(self.speech_pcm, bytes) else self.speech_pcm(request)
        chunks = [audio[at : at + self.speech_chunk_bytes] for at in range(0, len(audio), self.speech_chunk_bytes)]
        spoken = len(chunks)
        entry.usage = self.usage or Usage(
            input_tokens=len(request.text.split()), output_tokens=spoken, output_audio_tokens=spoken, source="vendor"
        )
        await answer.start("text/event-stream")
        await trio.sleep(self.first_token_after_s)
        if self.malformed:
            await answer.end(b'data: {"candidates":\r\n\r\n')
            return
        if self.refused:
            await answer.end(gemini_speak.encode_last(entry.usage, self.refused))
            return
        await answer.paced(chunks, self.speech_gap_s, gemini_speak.encode_piece)
        await answer.end(b"" if self.omit_done else gemini_speak.encode_last(entry.usage))
