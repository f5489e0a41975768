"""The voice that a candidate is asked for; a candidate without one is skipped."""

from __future__ import annotations

from typing import TypeVar

from gw.errors import CandidateSkipped
from gw.registry import voice_choice
from gw.registry.catalog import Model
from gw.relay.candidate_list import Candidates
from gw.relay.prepared_call import PreparedCall
from gw.types.speech_settings import VOICE, word_of
from gw.types.tts import SpeakLiveRequest, SpeakRequest

S = TypeVar("S")


def voice_for(candidates: Candidates, request: SpeakRequest | SpeakLiveRequest, model: Model) -> str:
    """Return the voice to request, "" for the vendor's own default. Raise CandidateSkipped where a voice is needed."""
    named = candidates.voices.get(model.id)  # by the caller, for this candidate
    requested, requested_of = (request.voice, candidates.models[0]) if named is None else (named, model)
    voice = voice_choice.voice_of(candidates.catalog, requested, model, requested_of)
    if voice is None:
        known = f"the voice {request.voice!r}" if request.voice else "a request without a voice"
        detail = f"{model.id} has no voice for {known}: set its default_voice, or map the voice in voices"
        settings = (word_of(VOICE, request.dialect),)
        raise CandidateSkipped(provider=model.provider, reason="missing_ability", detail=detail, settings=settings)
    return voice


def note_voice(
    call: PreparedCall[S], candidates: Candidates, request: SpeakRequest | SpeakLiveRequest
) -> PreparedCall[S]:
    """Note the voice of a call, unless it is the requested one."""
    voice = voice_for(candidates, request, call.model)
    call.voice = None if voice == request.voice else voice
    return call
