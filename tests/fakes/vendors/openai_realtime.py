"""OpenAI's realtime transcription: the server's side of a socket, which hears what the tone voice says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.convert import converter
from gw.wire.json_frames import Frame
from gw.wire.live_messages import Audio, Control, DirectReply
from gw.wire.openai_realtime_server import RealtimeListenServer
from tests.fakes.vendors.scripted import Entry, Receive, Send

HEARD_HZ = 8_000


class RealtimeSession:
    """One session. `frames` counts what the client sent; `close_after` and `error_after` of them the session misbehaves."""

    def __init__(self, entry: Entry, send: Send, *, close_after: tuple[int, int] | None, error_after: int | None) -> None:
        self._entry = entry
        self._send = send
        self._close_after = close_after
        self._error_after = error_after
        self._server = RealtimeListenServer(session_id=str(id(entry) % 1_000))
        self._decoder = fsk.ToneDecoder(HEARD_HZ)
        self._converter: Any = None
        self._request: ListenRequest | None = None
        self._frames = 0

    async def run(self, receive: Receive) -> None:
        await self._report(self._server.opening())
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                self._entry.outcome = "ended"
                return
            self._frames += 1
            if self._error_after == self._frames:
                await self._report([self._server.error(type="server_error", code="overloaded", message="scripted failure")])
            if self._close_after is not None and self._close_after[0] == self._frames:
                self._entry.outcome = "cut"
                await self._send({"type": "websocket.close", "code": self._close_after[1]})
                return
            await self._hear(message.get("text") or message.get("bytes") or b"")

    async def _hear(self, frame: str | bytes) -> None:
        server = self._server
        for message in server.receive(frame):
            match message:
                case DirectReply(frame=reply):
                    await self._report([reply])
                case Audio(data=data):
                    self._entry.audio += data
                    transcript = [_event(decoded) for decoded in self._decoder.feed(self._converter.feed(data))]
                    await self._report(server.encode([matches for matches in transcript if matches is not None]))
                case Control.FLUSH:
                    await self._report(server.encode([UtteranceEnd(at_s=0.0)]))
        request = server.request
        if request is not None and (self._converter is None or request != self._request):
            self._request = request
            self._entry.fields = {"model": request.model, "language": request.language, "format": request.format}
            self._entry.fields |= {"prompt": request.prompt, "keywords": list(request.keyterms)}
            self._converter = converter(request.format, AudioFormat(encoding="pcm_s16le", sample_rate_hz=HEARD_HZ))

    async def _report(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            await self._send({"type": "websocket.send", "text": frame})


def _event(decoded: fsk.ToneEvent) -> ListenEvent | None:
    match decoded:
        case fsk.Started(at_s=at_s):
            return SpeechStarted(at_s=at_s)
        case fsk.Partial(text=text, start_s=start_s, end_s=end_s):
            return Interim(text=text, start_s=start_s, end_s=end_s)
        case fsk.Done(text=text, start_s=start_s, end_s=end_s):
            return Final(text=text, start_s=start_s, end_s=end_s)
        case _:
            return None


async def refuse(send: Send, status: int, body: bytes) -> None:
    """Answer a handshake with a status."""
    head = {"type": "websocket.http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
    await send(head)
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


async def accept(receive: Receive, send: Send, answer_after_s: float, subprotocol: str | None) -> None:
    await receive()   # websocket.connect
    await trio.sleep(answer_after_s)
    await send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": []})
