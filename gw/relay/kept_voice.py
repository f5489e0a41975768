"""The texts that the phrase cache has in the voice of one candidate of a request."""

from __future__ import annotations

from gw.policy.phrase_cache import PhraseCache, Take, key_of, voice_key_of
from gw.policy.respelling import PronunciationTable, respelled
from gw.registry.catalog import Model
from gw.relay.candidate_list import Candidates
from gw.relay.candidate_voice import voice_for
from gw.relay.candidates import CandidatePlanner
from gw.types.entities import PhraseRules
from gw.types.tts import SpeakLiveRequest, SpeakRequest


class NotInMemory(Exception):
    """A phrase may be on the disk or in the fleet, and has to be looked for there first."""

    def __init__(self, key: bytes) -> None:
        self.key = key


class KeptVoice:
    """The texts that the cache has in the voice of one candidate. `has` raises NotInMemory once for a text."""

    def __init__(
        self, cache: PhraseCache, rules: PhraseRules, voice_key: bytes, model: Model, voice: str, table: PronunciationTable | None
    ) -> None:  # fmt: skip
        self.model = model
        self.voice = voice
        self.voice_key = voice_key
        self._cache = cache
        self._takes = rules.takes
        self._table = table
        self._recalled: set[bytes] = set()

    def key_of(self, text: str) -> bytes:
        """Return the key of a text, of which the vendor is sent what the project's pronunciations make of it."""
        return key_of(self.voice_key, text, None if self._table is None else respelled(self._table, text).sent)

    def has(self, text: str) -> bool:
        key = self.key_of(text)
        if self._cache.is_elsewhere(key, self._takes) and key not in self._recalled:
            self._recalled.add(key)
            raise NotInMemory(key)
        return self._cache.has(key, self._takes)

    def may_have(self, beginning: str) -> bool:
        return self._cache.may_have(self.voice_key, beginning)

    def find(self, text: str) -> Take | None:
        return self._cache.find(self.key_of(text), self._takes)

    async def missing(self, text: str) -> int:
        """Return how many takes of a text are in no place that the cache looks in."""
        key = self.key_of(text)
        await self._cache.recall(key, self._takes)
        return self._takes - self._cache.takes_of(key)


def kept_voice(
    cache: PhraseCache, rules: PhraseRules, planner: CandidatePlanner, candidates: Candidates, request: SpeakRequest | SpeakLiveRequest,
    model: Model,
) -> KeptVoice:  # fmt: skip
    """Return what the cache has for a candidate. Raises ProviderError where the candidate cannot speak so."""
    provider, spec, account = planner.endpoint(candidates, model)
    voice = voice_for(candidates, request, model)
    table = planner.respellings.table(candidates, spec, account, model, request)
    key = voice_key_of(candidates.project.id, provider, model.name, voice, request)
    return KeptVoice(cache, rules, key, model, voice, table)
