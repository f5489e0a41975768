"""Phrase caches of the workers, as the keeper sees them: one question to each, and what it answers.

Phrases go from a worker to the keeper and from the keeper to the workers, at most about PART_BYTES of audio in one message, and the next
part only when the last one is there: messages wait in a bounded buffer, and a process that reads none would be given up.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

import msgspec
import trio

from gw.policy.other_caches import CacheShare, KnownSpeech, SpeechChoice
from gw.policy.phrase_cache import KeptPhrase, PhraseCache, share_of
from gw.policy.recent_speech import AppSpeech
from gw.registry.catalog import Catalog
from gw.relay.phrase_warming import known_speech
from gw.relay.relay import Relay
from gw.workers.messages import (
    ForgetPhrases,
    KeepPhrases,
    ListPhrases,
    ListSpeech,
    PhraseAnswer,
    PhraseQuestion,
    SendPhrases,
)

ANSWER_S = 1.0
"""Time for a worker to answer one question: it may be stuck."""
PART_BYTES = 4_000_000


def answer(question: PhraseQuestion, relay: Relay, catalog: Catalog) -> PhraseAnswer:
    """Return what a worker answers."""
    cache = relay.phrases
    match question:
        case ListPhrases():
            return PhraseAnswer(question.id, share=share_of(cache, question.count, question.project))
        case ForgetPhrases():
            forgotten = cache.clear(project=question.project, model_id=question.model_id, voice=question.voice)
            return PhraseAnswer(question.id, forgotten=forgotten)
        case ListSpeech():
            project = catalog.projects.get(question.choice.project)
            rules = None if project is None else project.phrase_cache
            known = KnownSpeech({}, {}) if rules is None else known_speech(relay, question.choice, rules)
            return PhraseAnswer(question.id, state=pickle.dumps(known, protocol=5))
        case SendPhrases():
            having = {key: phrase for key in question.keys if (phrase := cache.get(key)) is not None}
            return PhraseAnswer(question.id, state=pickle.dumps(next(_parts(having), {}), protocol=5))
        case KeepPhrases():
            phrases: Mapping[bytes, KeptPhrase] = pickle.loads(question.state)
            for key, phrase in phrases.items():
                cache.take_over(key, phrase)
            return PhraseAnswer(question.id)


def _parts(phrases: Mapping[bytes, KeptPhrase]) -> Iterator[dict[bytes, KeptPhrase]]:
    """Yield them in parts of PART_BYTES; a larger phrase is a part of its own."""
    part: dict[bytes, KeptPhrase] = {}
    size = 0
    for key, phrase in phrases.items():
        if part and size + phrase.size > PART_BYTES:
            yield part
            part, size = {}, 0
        part[key] = phrase
        size += phrase.size
    if part:
        yield part


class WorkerCache:
    """The cache of one worker. `send` sends a message, `receive` gets each answer, and `end` is called when the worker has ended."""

    def __init__(self, send: Callable[[msgspec.Struct], None]) -> None:
        self._send = send
        self._ids = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._has_ended = False

    def receive(self, message: PhraseAnswer) -> None:
        if (waiting := self._waiting.get(message.id)) is not None:
            waiting.answer = message
            waiting.done.set()

    def end(self) -> None:
        """Let nobody wait for it any more."""
        self._has_ended = True
        for waiting in self._waiting.values():
            waiting.done.set()

    async def ask(self, question_of: Callable[[int], PhraseQuestion]) -> PhraseAnswer | None:
        """Return the answer, or None if it takes longer than ANSWER_S. The worker still does what the question wants, though later."""
        if self._has_ended:
            return None
        id_, waiting = next(self._ids), _Waiting()
        self._waiting[id_] = waiting
        try:
            self._send(question_of(id_))
            with trio.move_on_after(ANSWER_S):
                await waiting.done.wait()
        finally:
            del self._waiting[id_]
        return waiting.answer

    async def known(self, choice: SpeechChoice) -> KnownSpeech:
        answer = await self.ask(lambda id_: ListSpeech(id_, choice))
        known = KnownSpeech({}, {}) if answer is None else pickle.loads(answer.state)
        assert isinstance(known, KnownSpeech)
        return known

    async def fetch(self, keys: Sequence[bytes]) -> Mapping[bytes, KeptPhrase]:
        """Return phrases of the worker, as many as fit one answer."""
        answer = await self.ask(lambda id_: SendPhrases(id_, keys))
        phrases: Mapping[bytes, KeptPhrase] = {} if answer is None else pickle.loads(answer.state)
        return phrases

    async def keep(self, phrases: Mapping[bytes, KeptPhrase]) -> None:
        """Have the worker keep phrases, one part after another."""
        for part in _parts(phrases):
            state = pickle.dumps(part, protocol=5)
            if await self.ask(partial(KeepPhrases, state=state)) is None:
                return


class _Waiting:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.answer: PhraseAnswer | None = None


class WorkerCaches:
    """Implements `OtherCaches`: the caches of all workers that serve now."""

    def __init__(self, serving: Callable[[], Iterable[WorkerCache]]) -> None:
        self._serving = serving

    async def shares(self, count: int, project: str | None) -> Sequence[CacheShare]:
        answers = await self._ask_all(lambda id_: ListPhrases(id_, count, project))
        return [answer.share for answer in answers if answer.share is not None]

    async def clear(self, *, project: str | None, model_id: str | None, voice: str | None) -> Sequence[int]:
        return [answer.forgotten for answer in await self._ask_all(lambda id_: ForgetPhrases(id_, project, model_id, voice))]

    async def collect(self, cache: PhraseCache, choice: SpeechChoice) -> Mapping[bytes, AppSpeech]:
        kinds: dict[bytes, AppSpeech] = {}

        async def collect_from(worker: WorkerCache) -> None:
            known = await worker.known(choice)
            kinds.update(known.kinds)
            lacking = [key for key, takes in known.takes.items() if takes > cache.takes_of(key)]
            while lacking and (phrases := await worker.fetch(lacking)):
                for key, phrase in phrases.items():
                    cache.take_over(key, phrase)
                lacking = [key for key in lacking if key not in phrases]

        async with trio.open_nursery() as nursery:
            for worker in self._serving():
                nursery.start_soon(collect_from, worker)
        return kinds

    async def keep(self, phrases: Mapping[bytes, KeptPhrase]) -> None:
        async with trio.open_nursery() as nursery:
            for worker in self._serving():
                nursery.start_soon(worker.keep, phrases)

    async def _ask_all(self, question_of: Callable[[int], PhraseQuestion]) -> list[PhraseAnswer]:
        answers: list[PhraseAnswer] = []

        async def ask(worker: WorkerCache) -> None:
            if (answer := await worker.ask(question_of)) is not None:
                answers.append(answer)

        async with trio.open_nursery() as nursery:
            for worker in self._serving():
                nursery.start_soon(ask, worker)
        return answers
