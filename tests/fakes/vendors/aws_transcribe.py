"""A vendor that speaks Amazon Transcribe's protocol: a plain ASGI app made from the server role of our own codec.

What it refuses, and how: the vendor's page "Setting up a WebSocket stream" (a wrong signature is an exception after the handshake,
an exception is followed by a close frame, an address is valid for 300 s at most), aws-sdk-transcribe-streaming 0.12.0 (`models.py`:
languages, sample rates, a chunk of at most one second), and livekit-plugins-aws 1.8.9 (`stt.py`: no audio for 15 s).
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, urlencode

import attrs
import msgspec
import trio

from gw.errors import ClientProtocolError
from gw.wire import aws_sigv4, aws_transcribe_listen, aws_transcribe_listen_server
from gw.wire.aws_sigv4 import Scope
from gw.wire.aws_transcribe_listen_server import AwsTranscribeListenServer, exception_frame
from tests.fakes.vendors.job_vendor import JobVendor
from tests.fakes.vendors.live import OpenTurn, Peer, Session, TurnListener
from tests.fakes.vendors.scripted import Answer, Entry

_LONGEST_S = 300
_SIGNATURE = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Security-Token")


@attrs.define(kw_only=True)
class FakeAwsTranscribe(JobVendor):
    audio_within_s: float = 15.0

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {}

    def sockets(self) -> Mapping[str, Session]:
        return {aws_transcribe_listen.PATH: self._listen}

    def socket_key(self, headers: dict[str, str], query: bytes) -> str:
        """Leave the check to the session: the vendor refuses a signature after the handshake."""
        return self.api_key

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return msgspec.json.encode({"Message": message})

    def socket_error_frame(self) -> bytes:
        return exception_frame("InternalFailureException", "scripted failure")

    async def _listen(self, peer: Peer) -> None:
        try:
            if not self._is_signed(peer):
                await self._refuse(peer, "UnrecognizedClientException", "The security token included in the request is invalid.")
                return
            request = aws_transcribe_listen_server.parse_query(peer.query)
            listener = self.make_listener(request.format, speakers=("0", "1") if request.diarize else ())
            turns = TurnListener(listener, self.endpoint_s) if self.endpoint_s else OpenTurn(listener)
            await self.hear_turns(peer, AwsTranscribeListenServer(request), turns)
        except ClientProtocolError as error:
            await self._refuse(peer, "BadRequestException", error.what)
        except trio.TooSlowError:
            await self._refuse(
                peer, "BadRequestException", "Your request timed out because no new audio was received for 15 seconds."
            )

    async def _refuse(self, peer: Peer, name: str, message: str) -> None:
        peer.entry.outcome = "cut"
        await peer.send(exception_frame(name, message))
        await peer.close()

    def _is_signed(self, peer: Peer) -> bool:
        """Return whether the query is signed with the key, for this host and for a time that the vendor takes."""
        fields = dict(parse_qsl(peer.query.decode(), keep_blank_values=True))
        signature, credentials = fields.pop("X-Amz-Signature", ""), aws_sigv4.parse_credentials(self.api_key)
        id_, _, scope = fields.get("X-Amz-Credential", "").partition("/")
        date, region, service, _ = (*scope.split("/"), "", "", "", "")[:4]
        others = {name: value for name, value in fields.items() if name not in _SIGNATURE}
        peer.entry.fields = {"query": urlencode(others), "region": region}  # without the signature
        if not self.api_key:
            return True
        at = Scope(region, service, fields.get("X-Amz-Date", ""))
        within_s = int(fields.get("X-Amz-Expires", "0"))
        host = peer.entry.headers["host"]
        signed = aws_sigv4.sign_query(credentials, at, host, aws_transcribe_listen.PATH, others, within_s)
        right = hmac.compare_digest(signed.rpartition("=")[2], signature) and at.time.startswith(date) and 0 < within_s <= _LONGEST_S
        return right and id_ == credentials.access_key_id and service == "transcribe"
