"""A vendor that speaks Amazon Polly's protocol: a plain ASGI app made from the server role of our own codec.

Statuses and errors: botocore 1.43.117, `data/polly/2016-06-10/service-2.json`; a wrong key or signature is answered 403
(`UnrecognizedClientException`, `InvalidSignatureException`).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from gw.wire import aws_polly_speak, aws_sigv4
from gw.wire.aws_sigv4 import Scope
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.scripted import Answer, Entry, json_of

_VOICES = b'{"Voices":[{"Id":"Joanna","LanguageCode":"en-US","SupportedEngines":["standard","neural"]}]}'
_AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]*)/\d+/([^/]+)/polly/aws4_request, ?SignedHeaders=([^,]+), ?Signature=\w+")


@attrs.define(kw_only=True)
class FakeAwsPolly(LiveVendor):
    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("POST", aws_polly_speak.PATH): self._speak, ("GET", aws_polly_speak.VOICES_PATH): self._voices}

    def key_in(self, headers: dict[str, str]) -> str:
        """Leave the check to `_signed`, which needs the body as well."""
        return self.api_key

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return aws_polly_speak.error_body(message)

    async def _signed(self, entry: Entry, body: bytes, answer: Answer) -> bool:
        """Return whether the request is signed with the key; answer it otherwise."""
        if not self.api_key:
            return True
        sent = entry.headers.get("authorization", "")
        parts = _AUTHORIZATION.fullmatch(sent)
        credentials = aws_sigv4.parse_credentials(self.api_key)
        if parts is None or parts[1] != credentials.access_key_id:
            await answer.error(403, "UnrecognizedClientException", "The security token included in the request is invalid.")
            return False
        host, scope = entry.headers["host"], Scope(parts[2], "polly", entry.headers["x-amz-date"])
        others = {"host", "x-amz-date", "x-amz-security-token"}
        headers = {name: entry.headers[name] for name in parts[3].split(";") if name not in others}
        signed = dict(aws_sigv4.sign_headers(credentials, scope, entry.method, host, entry.path, "", headers, body))
        if not hmac.compare_digest(signed["authorization"].replace(", ", ","), sent.replace(", ", ",")):
            await answer.error(403, "InvalidSignatureException", "The request signature we calculated does not match.")
            return False
        return True

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if await self._signed(entry, body, answer):
            await answer.send_complete(_VOICES, "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if not await self._signed(entry, body, answer):
            return
        request = aws_polly_speak.parse(body)
        entry.fields = json_of(body) | {"voice": request.voice, "text": request.text, "speed": request.speed}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(400, "ValidationException", f"This voice does not support the selected engine: {request.model}")
            return
        await trio.sleep(self.first_token_after_s)
        billed = ("x-amzn-requestcharacters", str(len(request.text)))
        await answer.start(aws_polly_speak.CONTENT_TYPES[aws_polly_speak.FORMATS[request.format.encoding]], billed)
        await self.answer_speech(answer, [] if self.empty else list(self.recorded(request.text, request.format)))
        await answer.end()
