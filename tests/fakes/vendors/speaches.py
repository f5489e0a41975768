"""speaches: OpenAI's transcription over HTTP, and the socket of its beta, which hears what the tone voice says.

Frames and their order as the server's source has them (commits 870e1e1 and 9aca787, 2026).
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs

import attrs
import msgspec

from gw.providers.sim import fsk
from tests.fakes.vendors import openai_realtime
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.scripted import Entry, Receive, Send

HZ = 24_000
_LEAST_MS = 100
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@attrs.define(kw_only=True)
class FakeSpeaches(FakeOpenAI):
    no_socket: int = 0
    """A server of OpenAI's shape without such a path answers its handshake so."""
    fails: bool = False
    """No transcription succeeds."""

    async def _socket(self, entry: Entry, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        status = self.no_socket or (self.status if isinstance(self.status, int) else self.status.pop(0))
        if entry.path.removeprefix(self.prefix) != "/realtime" or self.key_in(entry.headers) != self.api_key:
            status = 403   # Starlette's word for a path it does not know, and for a socket closed before it was accepted
        if status != 200:
            await receive()
            await openai_realtime.refuse(send, status, b"")
            return
        entry.fields = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        await openai_realtime.accept(receive, send, self.answer_after_s, None)
        await _Session(self, entry, send).run(receive)


class _Session:
    def __init__(self, fake: FakeSpeaches, entry: Entry, send: Send) -> None:
        self._fake = fake
        self._entry = entry
        self._send = send
        self._listener = fsk.ToneDecoder(HZ)
        self._buffers = 0
        self._begun_ms = self._received_ms = 0.0

    @property
    def _item(self) -> str:
        return f"item_{self._buffers}"

    async def run(self, receive: Receive) -> None:
        await self._send_event("session.created", session={"id": "sess_1"})
        frames = 0
        while (message := await receive())["type"] == "websocket.receive":
            frames += 1
            if self._fake.close_after is not None and self._fake.close_after[0] == frames:
                self._entry.outcome = "cut"
                await self._send({"type": "websocket.close", "code": self._fake.close_after[1]})
                return
            await self._take(msgspec.json.decode(message["text"]))
        self._entry.outcome = "ended"

    async def _take(self, decoded: dict[str, Any]) -> None:
        match decoded["type"]:
            case "session.update":
                self._entry.fields["session"] = decoded["session"]
                await self._send_event("session.updated", session={"id": "sess_1"})
            case "input_audio_buffer.append":
                pcm = b64decode(decoded["audio"])
                self._entry.audio += pcm
                self._received_ms += len(pcm) / 48
                for event in self._listener.feed(pcm):
                    await self._transcribe_turn(event)
            case "input_audio_buffer.commit":
                if self._received_ms - self._begun_ms < _LEAST_MS:
                    await self._error("invalid_request_error", "Error committing input audio buffer: buffer too small.")
                else:
                    await self._commit("")

    async def _transcribe_turn(self, event: fsk.ToneEvent) -> None:
        match event:
            case fsk.Started(at_s=at_s):
                at = round(at_s * 1000 - self._begun_ms)
                await self._send_event("input_audio_buffer.speech_started", item_id=self._item, audio_start_ms=at)
            case fsk.Partial(text=text):
                await self._send_event("input_audio_buffer.partial_transcription", item_id=self._item, transcript=" " + text)
            case fsk.Done(text=text, end_s=end_s):
                at = round(end_s * 1000 - self._begun_ms)
                await self._send_event("input_audio_buffer.speech_stopped", item_id=self._item, audio_end_ms=at)
                await self._commit(text)

    async def _commit(self, text: str) -> None:
        item, self._begun_ms = self._item, self._received_ms
        self._buffers += 1
        await self._send_event("input_audio_buffer.committed", item_id=item, previous_item_id=None)
        if self._fake.fails:
            await self._error("server_error", "Transcription failed")
            return
        usage = {"type": "duration", "seconds": 1.0}
        await self._send_event(_TRANSCRIPTION + "completed", item_id=item, content_index=0, transcript=text, usage=usage)

    async def _error(self, kind: str, message: str) -> None:
        error = {"type": kind, "message": message, "code": None, "event_id": None, "param": None}
        await self._send_event("error", error=error)

    async def _send_event(self, kind: str, **members: Any) -> None:
        text = msgspec.json.encode({"type": kind, "event_id": "event_1", **members}).decode()
        await self._send({"type": "websocket.send", "text": text})
