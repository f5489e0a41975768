"""A vendor that speaks Gladia's protocols: a plain ASGI app made from the server role of our own codecs.

Source of what it refuses: the vendor's OpenAPI description, which gladiaio-sdk 2.2.1 is generated from (November 2026).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qs

import attrs
import trio

from gw.wire import gladia_jobs, gladia_listen, gladia_results
from gw.wire.gladia_listen import GladiaListenServer
from tests.fakes.vendors.heard import heard, refused
from tests.fakes.vendors.job_vendor import JobVendor
from tests.fakes.vendors.live import OpenTurn, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry, json_of

HOST = "api.gladia.io"


@attrs.define(kw_only=True)
class FakeGladia(JobVendor):
    """Answer as Gladia does. With `endpoint_s` an utterance ends after the silence that the session sets."""

    models: tuple[str, ...] = ("solaria-1", "solaria-3", "solaria-fusion")
    error_status: int = 0
    """HTTP status of a job that fails."""
    session_host: str = ""
    """Address of the sockets of sessions, in place of the host that was asked."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", gladia_listen.PATH): self._create_session, ("POST", gladia_jobs.UPLOAD): self._upload,
            ("POST", gladia_jobs.JOBS): self._create, ("GET", gladia_jobs.JOBS): self._list, ("GET", f"{gladia_jobs.JOBS}/j1"): self._look,
        }  # fmt: skip

    def sockets(self) -> Mapping[str, Session]:
        return {gladia_listen.PATH: self._listen}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-gladia-key", "")

    def socket_key(self, headers: dict[str, str], query: bytes) -> str:
        return self.api_key if _settings_in(query) else ""

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return gladia_results.error_body(status, message, [message] if status == 400 else [])

    def socket_error_frame(self) -> str:
        return gladia_listen.error_frame("scripted failure")

    async def _create_session(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request, _ = gladia_listen.parse_settings(body)
        if request.model != "solaria-1":
            raise refused("model must be solaria-1", "model")
        entry.fields = json_of(body)
        token = urlsafe_b64encode(body).decode()  # has all that the socket has to know
        host = entry.headers.get("host", "")
        address = self.session_host or (f"wss://{host}" if host == HOST else f"ws://{host}")
        await trio.sleep(self.first_token_after_s)
        url = f"{address}{gladia_listen.PATH}?token={token}"
        created = b'{"id":' if self.malformed else gladia_listen.encode_created("s1", url)
        await answer.send_complete(created, "application/json", 201)

    async def _upload(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if b'name="audio"' not in body:
            raise refused("audio is required", "audio")
        _, entry.audio = form_of(entry, body)
        self.take(entry.audio)
        uploaded = gladia_jobs.encode_uploaded(f"https://{HOST}/file/u1", len(self.uploaded), self.length_s())
        await answer.send_complete(uploaded, "application/json")

    async def _create(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields, self.settings = json_of(body), gladia_jobs.parse_job(body)
        await answer.send_complete(gladia_jobs.encode_created("j1", f"https://{HOST}/v2/pre-recorded/j1"), "application/json", 201)

    async def _list(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"first":"","current":"","next":null,"items":[]}', "application/json")

    async def _look(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if await self.still_runs():
            job = gladia_jobs.encode_job("j1", "processing")
        elif self.error_status:
            job = gladia_jobs.encode_job("j1", "error", self.error_status)
        else:
            speakers = ("0", "1") if self.settings["diarization"] else ()
            transcript = heard(self.words_of(self.uploaded), self.length_s(), speakers=speakers)
            result = gladia_jobs.encode_result(transcript, self.length_s(), self.settings["language"])
            job = b'{"id":' if self.malformed else gladia_jobs.encode_job("j1", "done", result=result)
        await answer.send_complete(job, "application/json")

    async def _listen(self, peer: Peer) -> None:
        request, lifecycle = gladia_listen.parse_settings(_settings_in(peer.query))
        peer.entry.fields = {"model": request.model}  # without the token
        server = GladiaListenServer(request, lifecycle=lifecycle)
        listener, endpoint_s = self.make_listener(request.format), (request.endpointing_ms or 0) / 1000
        turns = TurnListener(listener, endpoint_s) if self.endpoint_s else OpenTurn(listener)
        await self.hear_turns(peer, server, turns)


def _settings_in(query: bytes) -> bytes:
    """Return the settings that the token of an address has; b"" without a token."""
    return urlsafe_b64decode(parse_qs(query.decode()).get("token", [""])[0])
