"""The base of fake vendors that transcribe recordings as jobs, and end the utterances of a live session after a silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio

from gw.types.stt import Final, ListenEnd, ListenEvent
from gw.wire import wav
from gw.wire.json_frames import Frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, Control
from tests.fakes.vendors.live import LiveVendor, OpenTurn, Peer, TurnListener


@attrs.define(kw_only=True)
class JobVendor(LiveVendor):
    endpoint_s: float = 0.0
    """Silence for which the end of an utterance waits whose last words have come; 0: it does not wait."""
    looks: int = 1
    """Number of looks at a job to which the answer is that it still runs."""
    settings: dict[str, Any] = attrs.field(factory=dict)
    """Settings of the last job."""
    uploaded: bytes = b""
    looked: int = 0

    def take(self, recording: bytes) -> None:
        self.uploaded, self.looked = bytes(recording), 0

    async def still_runs(self) -> bool:
        """Look at the job once."""
        await trio.sleep(self.first_token_after_s)
        self.looked += 1
        return self.looked <= self.looks

    def length_s(self) -> float:
        """Return the length of the uploaded recording; 1.0 for one that is no WAV."""
        info = wav.parse(self.uploaded)
        return info.format.seconds(len(self.uploaded) - info.data_offset) if info is not None else 1.0

    async def hear_turns(
        self, peer: Peer, server: ListenProtocol, turns: TurnListener | OpenTurn, *,
        flushed: Callable[[list[ListenEvent]], Sequence[Frame]] = lambda events: (),
        added: Callable[[], Sequence[Frame]] = lambda: (),
    ) -> None:  # fmt: skip
        """Answer the client until it finishes or leaves. `flushed`: answers a flush, by what it made final; `added`: a receipt of audio."""
        while (frame := await peer.receive()) is not None:
            (message,) = server.receive(frame) or (None,)
            if isinstance(message, Audio):
                peer.entry.audio += message.data
                await peer.send(*added(), *server.encode(peer.heard(turns.feed(message.data))))
            elif message is Control.FLUSH:
                events = peer.heard(turns.end())
                if not peer.mute:
                    await peer.send(*flushed(events))
            elif message is Control.FINISH:
                peer.entry.outcome = "ended"
                finals = [event for event in turns.end() if isinstance(event, Final)]
                await peer.send(*server.encode([*finals, ListenEnd()]))
                await peer.close()
                return
