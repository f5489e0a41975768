"""A vendor that speaks Hume's protocol: a plain ASGI app made from the server role of our own codec."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from gw.wire import hume_speak
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.scripted import Answer, Entry, json_of


@attrs.define(kw_only=True)
class FakeHume(LiveVendor):
    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", hume_speak.PATH): self._speak, ("GET", "/v0/tts/voices"): self._voices}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-hume-api-key", "")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return hume_speak.error_body(code, message)

    def stream_error_event(self, code: str) -> bytes:
        return hume_speak.error_line("scripted failure")

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"page_number":0,"page_size":1,"total_pages":0,"voices_page":[]}', "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = hume_speak.parse(body)
        entry.fields = json_of(body) | {"text": request.text, "voice": request.voice}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(400, "voice_not_found", f"Voice not found: {request.voice}")
            return
        await trio.sleep(self.first_token_after_s)
        await answer.start("application/json")
        audio = [] if self.empty else list(self.recorded(request.text, request.format))
        lines = [b'{"type":'] if self.malformed else hume_speak.encode_lines(audio, request.text, request.format.encoding)
        await self.answer_speech(answer, lines)
        await answer.end()
