"""Memory of `gw.policy.turns`: the recent texts of one key, and the conversations that its connections belong to."""

from __future__ import annotations

from collections import Counter

import msgspec

from gw.policy.recent_texts import RecentAnswers, RecentTranscripts
from gw.policy.turn_texts import CommonTexts, Doubts, HeardText, TurnPlace, WrittenAnswer

MAX_ENDPOINTS = 256
MAX_LIVE = 512  # after so many, those that have ended are forgotten; after twice as many where all of them go on
SURE = 2  # joins after which a connection belongs to a conversation
FLIPS_SHARE, MOVES_SHARE = 0.1, 0.02
"""Share of joins in which connections changed their conversation, beyond which they are those of a shared pool; up to which
they are known not to be, after KNOWN joins: then the first join decides."""
KNOWN = 50


class Memory(msgspec.Struct, eq=False):
    """Recent texts of one key."""

    finals: RecentTranscripts = msgspec.field(default_factory=RecentTranscripts)
    answers: RecentAnswers = msgspec.field(default_factory=RecentAnswers)
    repeated: CommonTexts = msgspec.field(default_factory=CommonTexts)
    """Final transcripts of several sessions."""
    typed: CommonTexts = msgspec.field(default_factory=CommonTexts)
    """User messages without a transcript."""
    canned: CommonTexts = msgspec.field(default_factory=CommonTexts)
    """Speech without an answer."""
    asked: Doubts[HeardText] = msgspec.field(default_factory=Doubts)
    """Chat requests with the words of several conversations."""
    said: Doubts[WrittenAnswer] = msgspec.field(default_factory=Doubts)
    """Speech with the words of several answers."""
    live: dict[str, TurnPlace] = msgspec.field(default_factory=dict)
    """Conversations: live transcriptions that heard something by their id, those of recordings by the id of the first."""
    forget_at: int = MAX_LIVE
    """Number of conversations at which those that have ended are forgotten. Each is looked at a few times, however many go on."""
    unspoken: int = 0
    """Answers since the last speech request."""
    kept: Counter[str] = msgspec.field(default_factory=Counter)
    """Endpoint → joins by text of requests whose connection had a conversation."""
    flips: Counter[str] = msgspec.field(default_factory=Counter)
    """Endpoint → those of them that belonged to another conversation."""

    def session_of(self, place: TurnPlace) -> str | None:
        """Return the conversation to which the connection of a request certainly belongs."""
        link = place.link
        if link is None or link.session_id is None:
            return None
        kept, flips = self.kept[place.endpoint], self.flips[place.endpoint]
        if flips > FLIPS_SHARE * kept or link.joins < (1 if kept >= KNOWN and flips <= MOVES_SHARE * kept else SURE):
            return None
        return link.session_id if self.is_live(link.session_id) else None

    def is_live(self, session_id: str | None) -> bool:
        """Return whether a conversation may go on: the live transcription does, or the connection of its recordings is open."""
        source = self.live.get(session_id or "")
        if source is None or not source.is_recording:
            return source is not None and not source.is_done
        return source.link is not None and not source.link.is_closed

    def keep(self, session_id: str, source: TurnPlace) -> None:
        """Remember where a conversation is heard."""
        if session_id not in self.live:
            if len(self.live) >= self.forget_at:
                self.live = {id_: known for id_, known in self.live.items() if self.is_live(id_)}
                self.forget_at = max(MAX_LIVE, 2 * len(self.live))
            self.live[session_id] = source

    def note(self, place: TurnPlace, session_id: str | None) -> None:
        """Note that a request, and so its connection, belongs to a conversation."""
        link = place.link
        if link is None or session_id is None:
            return
        if link.session_id is not None:
            if len(self.kept) >= MAX_ENDPOINTS:
                self.kept.clear()
                self.flips.clear()
            self.kept[place.endpoint] += 1
            self.flips[place.endpoint] += link.session_id != session_id and self.is_live(link.session_id)
        link.joins = link.joins + 1 if link.session_id == session_id else 1
        link.session_id = session_id
