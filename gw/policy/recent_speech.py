"""Kinds of speech of apps: the latest requests of projects with `phrase_cache` that differ in more than their text.

A phrase is the same for an app only if every setting is, so phrases are spoken ahead for an app with the settings of its own requests.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import attrs
import msgspec

from gw.types.ids import Caller
from gw.types.tts import SpeakLiveRequest, SpeakRequest

MOST: Final = 64
"""Kinds of requests that are known at once; the one that came last longest ago is forgotten."""
_OF_ONE_TEXT: Final = frozenset({"previous_text", "next_text", "previous_request_ids", "next_request_ids"})
"""Settings of ElevenLabs' API that belong to one text: no other text would be spoken with them."""


class AppSpeech(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request: its settings without a text, and the model and the voice of its first candidate.

    `caller` has the protocol of the app, and no ids.
    """

    project: str
    model_id: str
    voice: str
    request: SpeakRequest | SpeakLiveRequest
    caller: Caller


@attrs.define
class Warmed:
    """Result of having one text spoken ahead for some kinds of speech."""

    kept: int = 0
    """Kinds of speech whose takes were all there."""
    spoken: int = 0
    """Takes that vendors spoke, for `cost_nusd` in all."""
    cost_nusd: int = 0
    left: int = 0
    """Takes that are missing still, as it took too long to speak them all."""
    unkept: int = 0
    """Takes that are missing as the cache does not keep what is spoken."""


class RecentSpeech:
    """The kinds of requests of one process, by the key of their voice (`gw.policy.phrase_cache.voice_key_of`)."""

    def __init__(self) -> None:
        self._latest: OrderedDict[bytes, AppSpeech] = OrderedDict()

    def note(self, voice_key: bytes, model_id: str, voice: str, request: SpeakRequest | SpeakLiveRequest, caller: Caller) -> None:
        """Note that a request has come."""
        if voice_key in self._latest:
            self._latest.move_to_end(voice_key)
            return
        if isinstance(request, SpeakRequest):
            if not _OF_ONE_TEXT.isdisjoint(request.extra):
                return
            request = attrs.evolve(request, text="")
        own = Caller(
            project=caller.project, dialect=caller.dialect, vendor=caller.vendor, path_vendor=caller.path_vendor, regions=caller.regions
        )
        self._latest[voice_key] = AppSpeech(project=caller.project, model_id=model_id, voice=voice, request=request, caller=own)
        if len(self._latest) > MOST:
            self._latest.popitem(last=False)

    def of(self, project: str, model_id: str | None, voice: str | None) -> dict[bytes, AppSpeech]:
        """Return the kinds of requests of a project, the latest first; only those of a model and of a voice, if these are given."""
        return {
            key: known for key, known in reversed(self._latest.items())
            if known.project == project and model_id in (None, known.model_id) and voice in (None, known.voice)
        }  # fmt: skip
