"""A vendor that speaks Soniox's protocol: a plain ASGI app made from the server role of our own codec.

Source of what it refuses: soniox 2.10.0 (`RealtimeSTTConfig`) and the vendor's page "Error handling" (November 2026).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec

from gw.errors import ClientProtocolError
from gw.types.stt import Final
from gw.wire import soniox_jobs, soniox_listen
from gw.wire.soniox_listen import SonioxListenServer
from tests.fakes.vendors.heard import heard
from tests.fakes.vendors.job_vendor import JobVendor
from tests.fakes.vendors.live import OpenTurn, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry, json_of


@attrs.define(kw_only=True)
class FakeSoniox(JobVendor):
    """`endpoint_s` is 2 s at most by default, and `finalize` ends the wait (soniox.com/docs/stt/rt/endpoint-detection)."""

    models: tuple[str, ...] = ("stt-rt-v5",)
    error_type: str = ""
    """Of a transcription that fails."""
    deleted: list[str] = attrs.field(factory=list)

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            (method, prefix + path): handler
            for prefix in ("/v1", "")
            for method, path, handler in (
                ("GET", "/models", self._models), ("POST", "/files", self._upload), ("DELETE", "/files/f1", self._delete),
                ("POST", "/transcriptions", self._create), ("GET", "/transcriptions/t1", self._look),
                ("GET", "/transcriptions/t1/transcript", self._transcript), ("DELETE", "/transcriptions/t1", self._delete),
            )
        }  # fmt: skip

    def sockets(self) -> Mapping[str, Session]:
        return {"/transcribe-websocket": self._listen, "/v1/transcribe-websocket": self._listen}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return soniox_listen.error_body(status, code, message)

    def socket_error_frame(self) -> str:
        return soniox_listen.error_frame(503, "Cannot continue request (code 1). Please restart the request.")

    async def _models(self, entry: Entry, body: bytes, answer: Answer) -> None:
        about = {
            "context_version": 2, "transcription_mode": "real_time", "languages": [], "supports_language_hints_strict": True,
            "translation_targets": [], "two_way_translation_pairs": [], "one_way_translation": None, "two_way_translation": None,
        }  # fmt: skip
        models = [{"id": name, "name": name, **about} for name in self.models]
        await answer.send_complete(msgspec.json.encode({"models": models}), "application/json")

    async def _upload(self, entry: Entry, body: bytes, answer: Answer) -> None:
        _, entry.audio = form_of(entry, body)
        self.take(entry.audio)
        await answer.send_complete(soniox_jobs.encode_file("f1", len(self.uploaded)), "application/json", 201)

    async def _create(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields, self.settings = json_of(body), soniox_jobs.parse_job(body)
        await answer.send_complete(soniox_jobs.encode_job("t1", "queued", 0.0, self.settings), "application/json", 201)

    async def _look(self, entry: Entry, body: bytes, answer: Answer) -> None:
        status = "processing" if await self.still_runs() else "error" if self.error_type else "completed"
        job = soniox_jobs.encode_job("t1", status, self.length_s(), self.settings, self.error_type)
        await answer.send_complete(job, "application/json")

    async def _transcript(self, entry: Entry, body: bytes, answer: Answer) -> None:
        speakers = ("1", "2") if self.settings["enable_speaker_diarization"] else ()
        result = heard(self.words_of(self.uploaded), self.length_s(), speakers=speakers)
        await answer.send_complete(b'{"id":' if self.malformed else soniox_jobs.encode_transcript("t1", result), "application/json")

    async def _delete(self, entry: Entry, body: bytes, answer: Answer) -> None:
        self.deleted.append(entry.path)
        await answer.start("application/json", status=204)
        await answer.end()

    async def _listen(self, peer: Peer) -> None:
        first = await peer.receive()
        if first is None:
            return
        try:
            request = soniox_listen.parse_configuration(first)
        except ClientProtocolError as error:
            peer.entry.outcome = "cut"
            await peer.send(soniox_listen.error_frame(400, error.what))
            await peer.close(1008)
            return
        peer.entry.fields |= msgspec.json.decode(first)
        listener = self.make_listener(request.format, speakers=("1", "2") if request.diarize else ())
        open_turn = TurnListener(listener, self.endpoint_s) if self.endpoint_s else OpenTurn(listener)
        server = SonioxListenServer(request)
        await self.hear_turns(
            peer, server, open_turn,
            flushed=lambda events: [*server.encode([event for event in events if isinstance(event, Final)]), *server.flushed()],
        )  # fmt: skip
