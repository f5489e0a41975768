"""A vendor that speaks Speechmatics' protocols: a plain ASGI app made from the server role of our own codecs.

Source of what it refuses: github.com/speechmatics/docs at 2026-08-13, `spec/realtime.yaml` and `spec/batch.yaml`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs

from gw.errors import ClientProtocolError
from gw.types.stt import Final, UtteranceEnd
from gw.wire import speechmatics_jobs, speechmatics_listen, speechmatics_results
from gw.wire.speechmatics_listen import SpeechmaticsListenServer
from tests.fakes.vendors.heard import heard, refused
from tests.fakes.vendors.job_vendor import JobVendor
from tests.fakes.vendors.live import OpenTurn, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry


@attrs.define(kw_only=True)
class FakeSpeechmatics(JobVendor):
    """`endpoint_s` counts where the session sets no other one (docs "Turn detection")."""

    models: tuple[str, ...] = ("enhanced", "standard", "melia-1")
    job_status: str = "done"

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        """Below the vendor's path, and for a server at the root of another host."""
        return {
            (method, prefix + path): handler
            for prefix in ("/v2", "")
            for method, path, handler in (
                ("POST", "/jobs", self._create), ("GET", "/jobs/j1", self._look), ("GET", "/jobs/j1/transcript", self._transcript),
                ("GET", "/jobs", self._list),
            )
        }  # fmt: skip

    def sockets(self) -> Mapping[str, Session]:
        return dict.fromkeys(("/v2", "/v2/", "/"), self._listen)

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return speechmatics_results.error_body(status, code, message)

    def socket_error_frame(self) -> str:
        return speechmatics_listen.error_frame("job_error", "scripted failure")

    async def _list(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"jobs":[]}', "application/json")

    async def _create(self, entry: Entry, body: bytes, answer: Answer) -> None:
        fields, entry.audio = form_of(entry, body)
        self.take(entry.audio)
        self.settings = entry.fields = speechmatics_jobs.parse_config(fields["config"])
        if b'name="data_file"' not in body:
            raise refused("Missing data_file", "data_file")
        if self.settings["model"] == speechmatics_results.MULTILINGUAL and self.settings["language"] != "multi":
            raise refused("Melia 1 takes the language multi only", "language")
        await answer.send_complete(speechmatics_jobs.encode_created("j1"), "application/json", 201)

    async def _look(self, entry: Entry, body: bytes, answer: Answer) -> None:
        status = "running" if await self.still_runs() else self.job_status
        await answer.send_complete(speechmatics_jobs.encode_job("j1", status, self.length_s()), "application/json")

    async def _transcript(self, entry: Entry, body: bytes, answer: Answer) -> None:
        speakers = ("S1", "S2") if self.settings.get("diarization") == "speaker" else ()
        result = heard(self.words_of(self.uploaded), self.length_s(), speakers=speakers)
        encoded = speechmatics_jobs.encode_transcript("j1", result, self.length_s(), self.settings)
        await answer.send_complete(b'{"format":' if self.malformed else encoded, "application/json")

    async def _listen(self, peer: Peer) -> None:
        first = await peer.receive()
        if first is None:
            return
        try:
            request = speechmatics_listen.parse_start(first)
        except ClientProtocolError as error:
            peer.entry.outcome = "cut"
            await peer.send(speechmatics_listen.error_frame("invalid_config", error.what))
            await peer.close(1003, "protocol_error")
            return
        peer.entry.fields |= {"model": request.model, "language": request.language, "terms": list(request.keyterms)}
        listener = self.make_listener(request.format, speakers=("S1", "S2") if request.diarize else ())
        silence_s = (request.endpointing_ms or 0) / 1000 or self.endpoint_s
        open_turn = TurnListener(listener, silence_s) if self.endpoint_s else OpenTurn(listener)
        server = SpeechmaticsListenServer(request)
        await peer.send(*server.opening())
        await self.hear_turns(
            peer, server, open_turn, added=lambda: (server.added(),),
            flushed=lambda events: server.encode(events or [Final(text=""), UtteranceEnd(at_s=listener.seconds)]),
        )  # fmt: skip
