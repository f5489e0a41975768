"""A vendor that speaks Google Cloud's protocol: a plain ASGI app made from the server role of our own codec.

Errors: google.rpc.Status as JSON, which google-api-core 2.44.0 reads (`exceptions.format_http_response_error`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from gw.wire import google_cloud_speak
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.scripted import Answer, Entry, json_of

_VOICES = b'{"voices":[{"languageCodes":["en-US"],"name":"en-US-Chirp3-HD-Charon","ssmlGender":"MALE","naturalSampleRateHertz":24000}]}'


@attrs.define(kw_only=True)
class FakeGoogleCloud(LiveVendor):
    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", google_cloud_speak.PATH): self._speak, ("GET", google_cloud_speak.VOICES_PATH): self._voices}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-goog-api-key", "")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return google_cloud_speak.error_body(status, code, message)

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(_VOICES, "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = google_cloud_speak.parse(body)
        audio = json_of(body)["audioConfig"]
        entry.fields = {"audioConfig": audio, "voice": request.voice, "text": request.text, "speed": request.speed}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(400, "INVALID_ARGUMENT", f"Voice '{request.voice}' does not exist. Is it misspelled?")
            return
        await trio.sleep(self.first_token_after_s)
        pieces = [] if self.empty else list(self.recorded(request.text, request.format))
        if self.speech_fault == "stalls":
            await answer.start("application/json")
            await answer.flush()
            await trio.sleep_forever()
        if self.speech_fault:
            pieces = pieces[: 0 if self.speech_fault == "no audio" else round(len(pieces) * self.speech_share)]
        await trio.sleep(self.speech_gap_s * len(pieces))
        encoded = google_cloud_speak.encode(b"".join(pieces))
        await answer.send_complete(b'{"audioContent":' if self.malformed else encoded, "application/json")
