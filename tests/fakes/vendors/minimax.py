"""A vendor that speaks MiniMax's protocol: a plain ASGI app made from the server role of our own codec.

A refusal has HTTP status 200 and a code of the vendor's own (its page "Error codes", November 2026).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec
import trio

from gw.errors import ClientProtocolError
from gw.wire import minimax_speak
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.scripted import Answer, Entry, json_of


@attrs.define(kw_only=True)
class FakeMiniMax(LiveVendor):
    refusal: tuple[int, str] | None = None
    """Code and text of what it answers, with status 200."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", minimax_speak.PATH): self._speak, ("POST", minimax_speak.VOICES): self._voices}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return minimax_speak.error_body(2049 if status == 401 else 1000, message)

    def stream_error_event(self, code: str) -> bytes:
        return minimax_speak.error_event(1000, "scripted failure")

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if self.refusal is not None:
            await answer.send_complete(minimax_speak.error_body(*self.refusal), "application/json")
            return
        listed = {"system_voice": [{"voice_id": "Wise_Woman"}], "base_resp": {"status_code": 0, "status_msg": "success"}}
        await answer.send_complete(msgspec.json.encode(listed), "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        try:
            request, aggregates = minimax_speak.parse(body)
        except ClientProtocolError as error:
            await answer.send_complete(minimax_speak.error_body(2013, error.what), "application/json")
            return
        entry.fields = json_of(body) | {"voice": request.voice}
        refusal = self.refusal
        if self.voices is not None and request.voice not in self.voices:
            refusal = (20132, "invalid samples or voice_id")
        if refusal is not None:
            await answer.send_complete(minimax_speak.error_body(*refusal), "application/json")
            return
        await trio.sleep(self.first_token_after_s)
        await answer.start("text/event-stream")
        audio = [] if self.empty else list(self.recorded(request.text, request.format))
        pieces = [b"data: {\n\n"] if self.malformed else [minimax_speak.encode_piece(piece) for piece in audio]
        await self.answer_speech(answer, pieces)
        if not self.omit_done:
            await answer.send(minimax_speak.encode_last(request.text, b"".join(audio) if aggregates else b""))
        await answer.end()
