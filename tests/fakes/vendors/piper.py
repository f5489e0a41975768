"""Piper's own HTTP server: complete WAVs, errors as pages of HTML, no key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec
import trio

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.wire import wav
from tests.fakes.vendors.scripted import Answer, Entry, ScriptedVendor, json_of


@attrs.define(kw_only=True)
class FakePiper(ScriptedVendor):
    path: str = "/synthesize"
    """`/` of an older release."""
    rate_hz: int = 24_000
    """Of its voice."""
    speech_pcm: bytes | None = None
    """None = the text in the tone voice."""
    content_type: str = "text/html; charset=utf-8"
    """What Flask says of bytes."""
    piece_s: float = 0.02
    speech_gap_s: float = 0.0

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", self.path): self._synthesize, ("GET", "/voices"): self._voices}

    def key_in(self, headers: dict[str, str]) -> str:
        return self.api_key

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return b"<!doctype html>\n<title>%d Error</title>\n<h1>%s</h1>" % (status, message.encode())

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        voice = {"audio": {"sample_rate": self.rate_hz}, "num_speakers": 1}
        await answer.send_complete(msgspec.json.encode({"en_US-lessac-medium": voice}), "application/json")

    async def _synthesize(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields = json_of(body)
        text = str(entry.fields["text"])
        if not text.strip():
            await answer.error(500, "", "Internal Server Error")
            return
        await trio.sleep(self.first_token_after_s)
        fmt = AudioFormat(encoding="wav", sample_rate_hz=self.rate_hz)
        result = self.speech_pcm
        sound = b"".join(fsk.encode(text, self.rate_hz)) if result is None else result
        complete = wav.header(fmt, len(sound)) + sound
        if self.empty:
            complete = b""
        size = max(2, int(self.rate_hz * self.piece_s) * 2)
        await answer.start(self.content_type, ("content-length", str(len(complete))))
        pieces = [complete[at : at + size] for at in range(0, len(complete), size)]
        await answer.paced(pieces, self.speech_gap_s, lambda piece: piece)
        await answer.end()
