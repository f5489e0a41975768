"""A vendor that speaks AssemblyAI's protocols: a plain ASGI app made from the server role of our own codecs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import msgspec
import trio

from gw.types.stt import Interim, ListenEnd
from gw.wire import assemblyai_stream, redaction, wav
from gw.wire.assemblyai_stream import AssemblyListenServer
from gw.wire.json_frames import frame_type
from gw.wire.live_messages import Audio, Control
from tests.fakes.vendors.heard import heard, refused
from tests.fakes.vendors.live import LiveVendor, OpenTurn, Peer, Session, TurnListener
from tests.fakes.vendors.scripted import Answer, Entry

URL = "https://cdn.test/upload/1"
SHORTEST_S, LONGEST_S = 0.05, 1.0
"""Of an audio frame of a live session."""


def _check(asked: Mapping[str, Any]) -> None:
    """Refuse what the vendor refuses (descriptions of `prompt` and `keyterms_prompt`, and `PIIRedactionPolicy`; 1.8.2)."""
    if asked.get("prompt") and asked.get("keyterms_prompt"):
        raise refused("prompt and keyterms_prompt cannot be used together", "prompt")
    if unknown := set(asked.get("redact_pii_policies") or ()) - redaction.POLICIES:
        raise refused(f"unknown policies: {', '.join(sorted(unknown))}", "redact_pii_policies")


@attrs.define(kw_only=True)
class FakeAssemblyAI(LiveVendor):
    models: tuple[str, ...] = ("universal-3-6-pro",)
    polls: int = 1
    """Questions that are answered "processing" first."""
    job_error: str = ""
    """Of a transcript that fails."""
    turn_silence_s: float = 0.0
    """Silence for which the end of a turn waits whose last partial has come; `max_turn_silence` is 1,280 ms by default
    (assemblyai.com/docs/streaming/universal-streaming/turn-detection), and `ForceEndpoint` ends that wait."""
    measures: bool = False
    """An audio frame of a live session that is too short or too long ends it."""
    uploaded: bytes = b""
    asked: dict[str, Any] = attrs.field(factory=dict)
    """Members of the last request for a transcript."""
    polled: int = 0

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/v2/upload"): self._upload,
            ("POST", "/v2/transcript"): self._transcript,
            ("GET", "/v2/transcript/t1"): self._look,
            ("GET", "/v2/transcript"): self._list,
        }

    def sockets(self) -> Mapping[str, Session]:
        return {"/v3/ws": self._listen}

    def check_handshake(self, path: str, query: bytes) -> None:
        request = assemblyai_stream.parse_query(query).request
        named = "redact_pii_policies" in dict(request.options)
        _check({"prompt": request.prompt, "keyterms_prompt": request.keyterms})
        _check({"redact_pii_policies": request.redact if named else None})

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("authorization", "")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return assemblyai_stream.error_body(f"{code}: {message}")

    def socket_error_frame(self) -> str:
        return assemblyai_stream.error_frame(3005, "scripted failure")

    async def _list(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"page_details":{},"transcripts":[]}', "application/json")

    async def _upload(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.audio = self.uploaded = body
        await answer.send_complete(msgspec.json.encode({"upload_url": URL}), "application/json")

    async def _transcript(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields = self.asked = msgspec.json.decode(body)
        _check(self.asked)
        self.polled = 0
        await answer.send_complete(assemblyai_stream.encode_job("t1", "queued", audio_url=URL), "application/json")

    async def _look(self, entry: Entry, body: bytes, answer: Answer) -> None:
        self.polled += 1
        await trio.sleep(self.first_token_after_s)
        if self.polled <= self.polls:
            await answer.send_complete(assemblyai_stream.encode_job("t1", "processing", audio_url=URL), "application/json")
            return
        if self.job_error:
            decoded = assemblyai_stream.encode_job("t1", "error", audio_url=URL, error=self.job_error)
            await answer.send_complete(decoded, "application/json")
            return
        info = wav.parse(self.uploaded)
        length_s = info.format.seconds(len(self.uploaded) - info.data_offset) if info is not None else 1.0
        length_s = length_s if self.asked["audio_url"] == URL else self.remote_s
        speakers = ("A", "B") if self.asked.get("speaker_labels") else ()
        redact = bool(self.asked.get("redact_pii"))
        result = heard(self.transcript, length_s, speakers=speakers, private=self.private, redact=redact)
        decoded = assemblyai_stream.encode_transcript(
            "t1", result, audio_url=URL, model=self.models[0], duration_s=length_s, utterances=bool(speakers)
        )
        await answer.send_complete(b'{"id":' if self.malformed else decoded, "application/json")

    async def _listen(self, peer: Peer) -> None:
        requested = assemblyai_stream.parse_query(peer.query)
        fmt = requested.request.format
        request = requested.request
        redact, speakers = bool(request.redact), ("A", "B") if request.diarize else ()
        listener = self.make_listener(fmt, speakers=speakers, private=self.private, redact=redact)
        open_turn = TurnListener(listener, self.turn_silence_s) if self.turn_silence_s else OpenTurn(listener)
        server = AssemblyListenServer(requested, session_id="s", expires_at=2_000_000_000, elapsed_s=lambda: listener.seconds)
        frames: list[float | str] = []
        peer.entry.fields["frames"] = frames   # seconds of audio, and types of commands
        await peer.send(*server.opening())
        while (frame := await peer.receive()) is not None:
            frames.append(fmt.seconds(len(frame)) if isinstance(frame, bytes) else frame_type(frame))
            (message,) = server.receive(frame) or (None,)
            if isinstance(message, Audio):
                if self.measures and not SHORTEST_S <= fmt.seconds(len(message.data)) <= LONGEST_S:
                    peer.entry.outcome = "cut"
                    await peer.send(assemblyai_stream.error_frame(3007, "Audio chunk duration violation"))
                    await peer.close(3007)
                    return
                peer.entry.audio += message.data
                events = peer.heard(open_turn.feed(message.data))
                if redact:  # final turns only (docs "PII redaction", streaming)
                    events = [event for event in events if not isinstance(event, Interim)]
                await peer.send(*server.encode(events))
            elif message is Control.FLUSH:
                await peer.send(*server.encode(peer.heard(open_turn.end())))
            elif message is Control.FINISH:
                peer.entry.outcome = "ended"
                await peer.send(*server.encode([*open_turn.end(), ListenEnd()]))
                await peer.close()
                return
