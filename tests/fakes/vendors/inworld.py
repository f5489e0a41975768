"""A vendor that speaks Inworld's protocol: a plain ASGI app made from the server role of our own codec."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from gw.wire import inworld_speak
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.scripted import Answer, Entry, json_of


@attrs.define(kw_only=True)
class FakeInworld(LiveVendor):
    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", inworld_speak.PATH): self._speak, ("GET", "/voices/v1/voices"): self._voices}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Basic ")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return inworld_speak.error_body(status, message)

    def stream_error_event(self, code: str) -> bytes:
        return inworld_speak.error_line(13, "scripted failure")

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"voices":[]}', "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = inworld_speak.parse(body)
        entry.fields = json_of(body) | {"voice": request.voice}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(404, "", f"Unknown voice: {request.voice} not found!")
            return
        await trio.sleep(self.first_token_after_s)
        await answer.start("application/json")
        if self.speech_pcm is None and request.want_timings:
            pieces = [inworld_speak.encode_line(*piece) for piece in self.timed_voice(request.text, request.format)]
        else:
            pieces = [inworld_speak.encode_line(piece) for piece in self.recorded(request.text, request.format)]
        pieces = [b'{"result":'] if self.malformed else [] if self.empty else pieces
        await self.answer_speech(answer, pieces)
        await answer.end()
