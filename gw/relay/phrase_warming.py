"""Speaking phrases ahead, as apps would have them spoken, so that the phrase cache has them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import attrs
import msgspec
import trio

from gw.errors import GwError
from gw.policy.other_caches import KnownSpeech, SpeechChoice
from gw.policy.phrase_cache import KeptPhrase
from gw.policy.recent_speech import AppSpeech, Warmed
from gw.relay.kept_voice import KeptVoice, kept_voice
from gw.relay.relay import Relay
from gw.relay.request_spec import RequestSpec
from gw.types.entities import PhraseRules
from gw.types.ids import Caller
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.types.usage import RequestRecord, Usage

ENDPOINT: Final = "/v1/cache/warm"
"""Endpoint that the records of such speech name."""
ENOUGH_S: Final = 10.0
"""After so long no second take is begun: the client asks again for what is left."""
KEEP_S: Final = 2.0
"""Time for other processes to keep what was spoken."""


async def warm_everywhere(relay: Relay, choice: SpeechChoice, rules: PhraseRules) -> tuple[int, Warmed]:
    """Have a text spoken in the kinds of speech that any process of this gateway knows, for the caches of all of them.

    Return the number of kinds, and what was done. What one process has is neither spoken nor paid for again. Raises GwError.
    """
    kinds, others = relay.phrases.recent.of(choice.project, choice.model_id, choice.voice), relay.phrases.elsewhere
    if others is None:
        return len(kinds), await warm(relay, choice.text, kinds.values(), rules)
    kinds |= await others.collect(relay.phrases, choice)
    try:
        return len(kinds), await warm(relay, choice.text, kinds.values(), rules)
    finally:
        with trio.move_on_after(KEEP_S, shield=True):  # what is paid for, also where the next one failed
            await others.keep(kept_phrases(relay, choice.text, kinds.values(), rules))


def known_speech(relay: Relay, choice: SpeechChoice, rules: PhraseRules) -> KnownSpeech:
    """Return what this process knows of the apps, and which takes it has in memory."""
    kinds = relay.phrases.recent.of(choice.project, choice.model_id, choice.voice)
    phrases = kept_phrases(relay, choice.text, kinds.values(), rules)
    return KnownSpeech(kinds, {key: len(phrase.takes) for key, phrase in phrases.items()})


def kept_phrases(relay: Relay, text: str, kinds: Iterable[AppSpeech], rules: PhraseRules) -> dict[bytes, KeptPhrase]:
    """Return the phrases of a text that are in memory, by their keys."""
    phrases = {}
    for kind in kinds:
        with suppress(GwError):  # of a model that is gone, for example
            key = _voice(relay, _request(kind), _caller(kind), rules).key_of(text)
            if (phrase := relay.phrases.get(key)) is not None:
                phrases[key] = phrase
    return phrases


async def warm(relay: Relay, text: str, kinds: Iterable[AppSpeech], rules: PhraseRules, *, within_s: float = ENOUGH_S) -> Warmed:
    """Have a text spoken in each of these kinds of speech until the cache has all its takes, or the time is over. Raises GwError."""
    done, until = Warmed(), trio.current_time() + within_s
    for kind in kinds:
        request, caller = _request(kind), _caller(kind)
        voice = _voice(relay, request, caller, rules)
        missing = await voice.missing(text)
        done.kept += not missing
        while missing > 0 and (not done.spoken or trio.current_time() < until):
            record = await _speak(relay, text, request, caller)
            done.spoken += 1
            done.cost_nusd += record.cost_nusd or 0
            before, missing = missing, await voice.missing(text)
            if missing >= before:
                done.unkept += missing
                missing = 0
        done.left += missing
    return done


def _request(kind: AppSpeech) -> SpeakRequest | SpeakLiveRequest:
    """Return the request of an app, to the model that answered it first: a route may choose another one the next time."""
    return attrs.evolve(kind.request, model=kind.model_id)


def _caller(kind: AppSpeech) -> Caller:
    return msgspec.structs.replace(kind.caller, endpoint=ENDPOINT, fallback=False)


def _voice(relay: Relay, request: SpeakRequest | SpeakLiveRequest, caller: Caller, rules: PhraseRules) -> KeptVoice:
    spec = RequestSpec(modality="tts", requested=request.model, stream=True, estimate=Usage(), settings=request)
    candidates = relay.planner.plan(spec, caller)
    return kept_voice(relay.phrases, rules, relay.planner, candidates, request, candidates.models[0])


async def _speak(relay: Relay, text: str, request: SpeakRequest | SpeakLiveRequest, caller: Caller) -> RequestRecord:
    if isinstance(request, SpeakRequest):
        async with relay.speak(attrs.evolve(request, text=text), caller) as answer:
            while not answer.done:
                await answer.receive()
            record = answer.record
    else:
        async with relay.speak_live(request, caller) as session:
            await session.send_text(text)
            await session.finish()
            while not session.done:
                await session.receive()
            record = session.meter.record
    assert record is not None, "speech that is complete has its record"
    return record
