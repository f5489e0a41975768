"""A vendor that speaks Soniox's protocol: a plain ASGI app made from the server role of our own codec.

Source of what it refuses: soniox 2.10.0 (`RealtimeSTTConfig`) and the vendor's page "Error handling" (November 2026).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec

from gw.errors import ClientProtocolError
from gw.types.stt import Final, ListenEnd
from gw.wire import soniox_listen
from gw.wire.live_messages import Audio, Control
from gw.wire.soniox_listen import SonioxListenServer
from tests.fakes.vendors.live import LiveVendor, OpenTurn, Peer, Session, TurnListener
from tests.fakes.vendors.scripted import Answer, Entry


@attrs.define(kw_only=True)
class FakeSoniox(LiveVendor):
    models: tuple[str, ...] = ("stt-rt-v5",)
    endpoint_s: float = 0.0
    """Silence for which the end of an utterance waits whose last tokens have come: 2 s at most by default, and `finalize` ends the
    wait (soniox.com/docs/stt/rt/endpoint-detection)."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {("GET", "/v1/models"): self._models}

    def sockets(self) -> Mapping[str, Session]:
        return {"/transcribe-websocket": self._listen, "/v1/transcribe-websocket": self._listen}

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return soniox_listen.error_body(status, code, message)

    def socket_error_frame(self) -> str:
        return soniox_listen.error_frame(503, "Cannot continue request (code 1). Please restart the request.")

    async def _models(self, entry: Entry, body: bytes, answer: Answer) -> None:
        about = {
            "context_version": 2, "transcription_mode": "real_time", "languages": [], "supports_language_hints_strict": True,
            "translation_targets": [], "two_way_translation_pairs": [], "one_way_translation": None, "two_way_translation": None,
        }  # fmt: skip
        models = [{"id": name, "name": name, **about} for name in self.models]
        await answer.send_complete(msgspec.json.encode({"models": models}), "application/json")

    async def _listen(self, peer: Peer) -> None:
        first = await peer.receive()
        if first is None:
            return
        try:
            request = soniox_listen.parse_configuration(first)
        except ClientProtocolError as error:
            peer.entry.outcome = "cut"
            await peer.send(soniox_listen.error_frame(400, error.what))
            await peer.close(1008)
            return
        peer.entry.fields |= msgspec.json.decode(first)
        listener = self.make_listener(request.format, speakers=("1", "2") if request.diarize else ())
        open_turn = TurnListener(listener, self.endpoint_s) if self.endpoint_s else OpenTurn(listener)
        server = SonioxListenServer(request)
        while (frame := await peer.receive()) is not None:
            (message,) = server.receive(frame) or (None,)
            if isinstance(message, Audio):
                peer.entry.audio += message.data
                await peer.send(*server.encode(peer.heard(open_turn.feed(message.data))))
            elif message is Control.FLUSH:
                finals = [event for event in peer.heard(open_turn.end()) if isinstance(event, Final)]
                await peer.send(*server.encode(finals), *server.flushed())
            elif message is Control.FINISH:
                peer.entry.outcome = "ended"
                finals = [event for event in open_turn.end() if isinstance(event, Final)]
                await peer.send(*server.encode([*finals, ListenEnd()]))
                await peer.close()
                return
