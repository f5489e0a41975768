"""Speech from the phrase cache in place of a vendor's call, and the recording of a vendor's speech for it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from gw.policy.phrase_cache import KeptPhrase, PhraseCache, Take, key_of, voice_key_of
from gw.providers.spec import SpeakStream
from gw.registry.catalog import Model, Provider
from gw.relay.prepared_call import PreparedCall
from gw.types.audio import AudioFormat
from gw.types.entities import PhraseRules, Project
from gw.types.ids import Caller
from gw.types.pending import Pending
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest, WordTiming

_MOST_BYTES = 8 * 2**20
"""Audio of one text; longer ones are not kept."""
_UNKEPT = frozenset({"add_phoneme_timestamps"})
"""Settings with which the vendor sends more than audio and word times."""


class CachedCall(AbstractAsyncContextManager[SpeakStream]):
    """The call of a candidate that is answered from the cache."""

    began = False
    """Nothing was sent to the vendor."""

    def __init__(self, take: Take) -> None:
        self._take = take

    async def __aenter__(self) -> SpeakStream:
        return _CachedStream(self._take)

    async def __aexit__(self, *_: object) -> None:
        pass


class _CachedStream:
    """The whole of a take at once; whoever plays it sets the pace."""

    def __init__(self, take: Take) -> None:
        self.format: AudioFormat = take.format
        self._take = take

    async def receive(self) -> list[SpeakEvent]:
        return self._take.events()


class TakeRecorder:
    """Collects the audio and the word times of one text, as one vendor speaks it."""

    def __init__(self, fmt: AudioFormat) -> None:
        self._format = fmt
        self._audio: list[bytes] = []
        self._words: list[WordTiming] = []
        self._bytes = 0

    def add(self, event: SpeakEvent) -> bool:
        """Note an event that is passed on; return False if it is too much to keep."""
        if isinstance(event, AudioChunk):
            self._bytes += len(event.data)
            self._audio.append(event.data)
        elif isinstance(event, WordTiming):
            self._words.append(WordTiming(word=event.word, start_s=event.start_s, end_s=event.end_s))
        return self._bytes <= _MOST_BYTES

    def take(self) -> Take | None:
        """Return what was collected; None without audio."""
        return Take(self._format, b"".join(self._audio), tuple(self._words)) if self._bytes else None


def is_kept(project: Project, request: SpeakRequest | SpeakLiveRequest) -> bool:
    """Return whether a project keeps speech with these settings. Phonemes, for one, are not kept with it."""
    settings = dict(request.options) if isinstance(request, SpeakLiveRequest) else request.extra
    return project.phrase_cache is not None and not request.no_store and not _UNKEPT.intersection(settings)


class CachedSpeech:
    """Speech that the phrase cache has for one request, and that it gets from it.

    A request is looked up once for each candidate. Speech that a second vendor had to complete is not kept.
    """

    def __init__(self, cache: PhraseCache, request: SpeakRequest, caller: Caller) -> None:
        self._cache = cache
        self._request = request
        self._caller = caller
        self._rules: PhraseRules | None = None
        self._project = ""
        self._voice_keys: dict[str, bytes] = {}
        self._keys: dict[str, bytes] = {}
        self._takes: dict[str, Take] = {}
        self._kept: KeptPhrase | None = None
        self._key = b""
        self._recorder: TakeRecorder | None = None
        self.is_hit = False
        """The cache answers."""

    @property
    def is_in_memory(self) -> bool:
        """Return whether the cache has nothing but its memory."""
        return not self._cache.stores

    @property
    def asked(self) -> bool:
        return bool(self._keys)

    def applies(self, project: Project) -> bool:
        """Return whether the project keeps the speech of such a text."""
        rules, request = project.phrase_cache, self._request
        return rules is not None and is_kept(project, request) and len(request.text) <= rules.longest

    def find(self, project: Project, provider: Provider, model: Model, voice: str, sent: str) -> Take | None:
        """Return the take with which a candidate is answered for. `sent`: the text as the candidate would be sent it."""
        if model.id not in self._keys:
            assert project.phrase_cache is not None
            self._rules, self._project = project.phrase_cache, project.id
            is_first = not self._keys
            key = self._keys[model.id] = self._key_of(project, provider, model, voice, sent)
            if is_first:
                self._cache.recent.note(self._voice_keys[model.id], model.id, voice, self._request, self._caller)
            if (take := self._cache.find(key, self._rules.takes)) is not None:
                self._takes[model.id] = take
        take = self._takes.get(model.id)
        self.is_hit = take is not None
        return take

    def _key_of(self, project: Project, provider: Provider, model: Model, voice: str, sent: str) -> bytes:
        voice_key = self._voice_keys[model.id] = voice_key_of(project.id, provider, model.name, voice, self._request)
        return key_of(voice_key, self._request.text, sent)

    def recall(self, project: Project, provider: Provider, model: Model, voice: str, sent: str) -> Pending:
        """Return the wait for the speech of a candidate if a store may have it and it was not looked for, else None."""
        if model.id in self._keys:
            return None
        assert project.phrase_cache is not None
        key, takes = self._key_of(project, provider, model, voice, sent), project.phrase_cache.takes
        return self._cache.recall(key, takes) if self._cache.is_elsewhere(key, takes) else None

    def record(self, call: PreparedCall[SpeakStream], fmt: AudioFormat, voice: str) -> None:
        """Begin to keep what the vendor of a call speaks, unless the cache has it."""
        model_id, text = call.model.id, self._request.text.strip()
        if call.cache == "miss" and (key := self._keys.get(model_id)) is not None:
            self._key, self._recorder = key, TakeRecorder(fmt)
            self._kept = KeptPhrase(self._project, model_id, voice, text, [], self._voice_keys[model_id])

    def stop(self) -> None:
        """Keep nothing of this speech."""
        self._kept = self._recorder = None

    def add(self, events: list[SpeakEvent]) -> None:
        """Note events of the vendor that are passed on; with the last of them the speech is kept."""
        for event in events:
            if self._recorder is None or self._kept is None or self._rules is None:
                return
            if not self._recorder.add(event):
                self.stop()
            elif isinstance(event, SpeakEnd):
                if (take := self._recorder.take()) is not None:
                    self._kept.takes.append(take)
                    self._cache.add(self._key, self._kept, self._rules.takes)
                self.stop()

    def saved(self, model: Model, nusd: int) -> None:
        """Note what the vendor would have charged for a hit."""
        self._cache.note_saved(self._keys[model.id], nusd)
