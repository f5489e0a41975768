"""A vendor that speaks AssemblyAI's protocols: a plain ASGI app made from the server role of our own codecs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec
import trio

from gw.types.stt import ListenEnd, Transcript
from gw.wire import assemblyai_batch, assemblyai_stream, wav
from gw.wire.assemblyai_stream import AssemblyServer, Audio
from tests.fakes.vendors.live import Ears, LiveVendor, Peer, Session
from tests.fakes.vendors.scripted import Answer, Entry

URL = "https://cdn.test/upload/1"


@attrs.define(kw_only=True)
class FakeAssemblyAI(LiveVendor):
    models: tuple[str, ...] = ("universal-3-6-pro",)
    asks: int = 1
    """Questions that are answered "processing" first."""
    uploaded: bytes = b""
    asked: int = 0

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/v2/upload"): self._upload,
            ("POST", "/v2/transcript"): self._transcript,
            ("GET", "/v2/transcript/t1"): self._look,
            ("GET", "/v2/transcript"): self._list,
        }

    def sockets(self) -> Mapping[str, Session]:
        return {"/v3/ws": self._listen}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("authorization", "")

    def told_error(self, status: int, code: str, message: str) -> bytes:
        return assemblyai_batch.error_body(f"{code}: {message}")

    def told_socket_error(self) -> str:
        return assemblyai_stream.error_frame(3005, "scripted failure")

    async def _list(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.whole(b'{"page_details":{},"transcripts":[]}', "application/json")

    async def _upload(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.audio = self.uploaded = body
        await answer.whole(msgspec.json.encode({"upload_url": URL}), "application/json")

    async def _transcript(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields = msgspec.json.decode(body)
        self.asked = 0
        await answer.whole(assemblyai_batch.encode_job("t1", "queued", audio_url=URL), "application/json")

    async def _look(self, entry: Entry, body: bytes, answer: Answer) -> None:
        self.asked += 1
        await trio.sleep(self.first_token_after_s)
        if self.asked <= self.asks:
            await answer.whole(assemblyai_batch.encode_job("t1", "processing", audio_url=URL), "application/json")
            return
        info = wav.parse(self.uploaded)
        length_s = info.format.seconds(len(self.uploaded) - info.data_offset) if info is not None else 1.0
        made = Transcript(text=self.transcript, duration_s=length_s)
        told = assemblyai_batch.encode_transcript("t1", made, audio_url=URL, model=self.models[0], duration_s=length_s)
        await answer.whole(b'{"id":' if self.malformed else told, "application/json")

    async def _listen(self, peer: Peer) -> None:
        asked = assemblyai_stream.parse_query(peer.query)
        server, ears = AssemblyServer(asked, session_id="s"), Ears(asked.request.format)
        await peer.send(server.begin(2_000_000_000))
        while (frame := await peer.receive()) is not None:
            told = server.receive(frame)
            if isinstance(told, Audio):
                peer.entry.audio += told.data
                await peer.send(*server.encode(ears.feed(told.data), ears.seconds))
            elif told.type == "Terminate":
                peer.entry.outcome = "ended"
                await peer.send(*server.encode([ListenEnd()], ears.seconds))
                await peer.close()
                return
