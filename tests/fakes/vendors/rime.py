"""A vendor that speaks Rime's protocol: a plain ASGI app made from the server role of our own codec.

Errors are plain text (docs.rime.ai, "Error reference"); a voice that a model does not have is 400 (pipecat-ai/pipecat#1976).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from gw.wire import rime_speak
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.scripted import Answer, Entry, json_of


@attrs.define(kw_only=True)
class FakeRime(LiveVendor):
    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", rime_speak.PATH): self._speak, ("GET", "/data/voices/all-v2.json"): self._voices}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return message.encode()

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"coda":{"eng":["lyra"]}}', "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        accept = entry.headers.get("accept", "")
        request = rime_speak.parse(accept, body)
        entry.fields = json_of(body) | {"voice": request.voice}
        if self.voices is not None and request.voice not in self.voices:
            message = f"Speaker '{request.voice}' doesn't match list of available voices for language 'eng' in model '{request.model}'."
            await answer.error(400, "", message)
            return
        await trio.sleep(self.first_token_after_s)
        await answer.start(accept)
        await self.answer_speech(answer, [] if self.empty else list(self.recorded(request.text, request.format)))
        await answer.end()
