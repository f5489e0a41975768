"""A thousand conversations, twenty at once with one key, whose phrases repeat within and across them: no request joins a stranger's.

The shapes of the requests are those of the frameworks' own code:

* LiveKit Agents (Python 1.8): a socket of Deepgram's for the session (`plugins/deepgram/stt.py`), a pool of HTTP connections for each
  LLM object (`plugins/openai/llm.py`), a socket of Cartesia's for all answers of the session (`plugins/cartesia/tts.py`).
* LiveKit Agents (Node 1.9): as above, but speech of `plugins/openai/tts.js` goes through the pool of `fetch`, which the LLM has too;
  each job is a process of its own.
* Pipecat (1.14): a socket for speech recognition, a pool for each LLM service (`services/openai/base_llm.py`), and for speech a socket
  of ElevenLabs' (`services/elevenlabs/tts.py`), to which sentences are sent.
* Vocode (0.1.113): a socket for recognition, a pool for each agent (`agent/chat_gpt_agent.py`), and for speech the HTTP client that all
  conversations of the process share (`utils/async_requester.py`), one request for each sentence.

None of them sends a session or turn id without being told to.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial

import attrs
import pytest

from gw.policy.turn_texts import TurnPlace
from gw.policy.turns import Turns
from gw.types.ids import Link
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech

CONVERSATIONS, AT_ONCE, TURNS = 1_000, 20, 6
REPEATED = 1 / 3
"""Share of the phrases that many say."""
SPEECH = {
    "livekit-python": "/tts/websocket", "livekit-node": "/v1/audio/speech",
    "pipecat": "/v1/text-to-speech/v/multi-stream-input", "vocode": "/v1/text-to-speech/v/stream",
}  # fmt: skip
FRAMEWORKS = tuple(SPEECH)
FIRST_USES = 2
"""Wrong joins at most with strangers that send no ids: until a phrase is known to come without its other stages."""
GREETING = "Hello and welcome to the clinic! How can I help you today?"
COMMON = ["yes", "no", "yes please", "thank you very much", "can you repeat that please", "hello", "what are your opening hours"]
ANSWERS = ["Sure, one moment please.", "Could you say that again?", "Okay.", "We are open from nine to five. Anything else?", GREETING]
WORDS = ["apple", "table", "seven", "river", "doctor", "monday", "green", "window", "paper", "music", "garden", "bottle", "yellow"]

Truth = tuple[int, int]
"""Conversation and turn."""


@attrs.define
class Pool:
    """An HTTP client's connections: the one used last is used first, as in httpcore."""

    idle: list[Link] = attrs.field(factory=list)

    def take(self) -> Link:
        return self.idle.pop() if self.idle else Link()


@attrs.define
class World:
    """The memory under test, a clock, and who each request was made for."""

    seed: int
    with_ids: bool
    turns: Turns = attrs.field(factory=Turns)
    random: random.Random = attrs.field(init=False)
    now: float = 1_000.0
    numbers: Iterator[int] = attrs.field(factory=itertools.count)
    vocode_speech: Pool = attrs.field(factory=Pool)
    truth: dict[str, Truth] = attrs.field(factory=dict)
    places: list[TurnPlace] = attrs.field(factory=list)
    edges: Counter[str] = attrs.field(factory=Counter)
    wrong: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def place(
        self, endpoint: str, link: Link, truth: Truth | None, session: str | None = None, turn: str | None = None
    ) -> TurnPlace:
        place = TurnPlace(
            request_id=f"r{next(self.numbers)}", key=("default", None, session), session_id=session, turn_id=turn, link=link,
            endpoint=endpoint,
        )  # fmt: skip
        if truth is not None:
            self.truth[place.request_id] = truth
            self.places.append(place)
        return place

    def phrase(self, common: list[str], share: float) -> str:
        if self.random.random() < share:
            return self.random.choice(common)
        return " ".join(self.random.choices(WORDS, k=self.random.randint(4, 9)))

    def run(self, programs: Iterator[Iterator[float]], at_once: int, until: int) -> None:
        """Run programs, which yield the seconds until they go on, `at_once` side by side."""
        queue: list[tuple[float, int, Iterator[float]]] = []
        order = itertools.count()
        for program in itertools.islice(programs, at_once):
            heapq.heappush(queue, (self.now + self.random.random() * 5, next(order), program))
        running = until
        while running:
            self.now, _, program = heapq.heappop(queue)
            if (wait := next(program, None)) is not None:
                heapq.heappush(queue, (self.now + wait, next(order), program))
                continue
            running -= 1
            if (new := next(programs, None)) is not None:
                heapq.heappush(queue, (self.now + self.random.random(), next(order), new))


def conversation(world: World, number: int, framework: str) -> Iterator[float]:
    dice = world.random
    session = f"call-{number}" if world.with_ids else None
    listening = world.place("/v1/listen", Link(), (number, -1), session)
    thinking = Pool()
    socket = Link()
    speaking = {"livekit-node": thinking, "vocode": world.vocode_speech}.get(framework)

    def speak(text: str, truth: Truth | None, turn: str | None) -> Iterator[float]:
        link = socket if speaking is None else speaking.take()
        place = world.place(SPEECH[framework], link, truth, session, turn)
        world.turns.speech(place, text, world.now)
        yield 0.3 + len(text) / 400
        failed = dice.random() < 0.02
        place.end(failed=failed, cancelled=False)
        if speaking is not None:
            speaking.idle.append(link)
        if failed:
            yield from speak(text, truth, turn)

    context = 0
    yield dice.random()
    if dice.random() < 0.5:
        yield from speak(GREETING, None, f"greeting-{number}" if world.with_ids else None)
    for turn_number in range(TURNS):
        truth = (number, turn_number)
        turn = f"turn-{number}-{turn_number}" if world.with_ids else None
        yield dice.uniform(2, 6)
        said = world.phrase(COMMON, REPEATED)
        answer = world.phrase(ANSWERS, REPEATED)
        parts = [said] if dice.random() < 0.8 else [said, world.phrase(COMMON, REPEATED)]
        for part in parts:
            yield 0.5
            heard = HeardSpeech(
                request_id=listening.request_id, model_id="a/b", ended_at=world.now - 0.2, final_at=world.now,
                audio_seconds=1.0, cost_nusd=1_000**turn_number,  # the costs are added up, and say of which turns
            )  # fmt: skip
            world.turns.transcript(listening, part, world.now, heard)
        yield 0.02 if dice.random() < 0.3 else dice.uniform(0.3, 0.8)  # at once, or after the end-of-turn wait
        if dice.random() < 0.03:
            continue  # ignored, like a word said while the agent speaks
        chats: list[TurnPlace] = []
        outcomes = ["failed"] * (dice.random() < 0.05) + ["cancelled"] * (dice.random() < 0.1) + ["tool"] * (dice.random() < 0.1) + ["done"]
        for at, outcome in enumerate(outcomes):
            link = thinking.take()
            place = world.place("/v1/chat/completions", link, truth, session, turn)
            chats.append(place)
            answered = "tool" in outcomes[:at]
            written = world.turns.chat(place, partial(LastUser, " ".join(parts), context, answered), world.now)
            yield dice.uniform(0.2, 0.6)
            if written is not None and outcome == "done":
                written.pieces.append(answer)
            else:
                place.end(failed=outcome == "failed", cancelled=outcome == "cancelled")
            if outcome == "cancelled":
                link.is_closed = True
            else:
                thinking.idle.append(link)
        sentences = [answer] if framework == "livekit-python" else answer.replace("!", "!|").replace(".", ".|").split("|")
        for at, sentence in enumerate(sentence.strip() for sentence in sentences):
            if not sentence or (at and dice.random() < 0.1):  # the caller interrupts
                continue
            before = len(world.places)
            yield from speak(sentence, truth, turn)
            for place in world.places[before:]:
                if world.truth[place.request_id] == truth and place not in chats:
                    world.edges["speech"] += 1
                    world.edges["speech joined"] += place.turn_id is not None and place.turn_id in {chat.turn_id for chat in chats}
                    break
            else:
                raise AssertionError("the speech has no place")
        chats[-1].end(failed=False, cancelled=False)
        world.edges["heard"] += 1
        world.edges["heard joined"] += any(part.request_id == listening.request_id for chat in chats for part in chat.heard)
        world.edges["chats"] += len(chats) - 1
        world.edges["chats joined"] += sum(chat.turn_id is not None and chat.turn_id == chats[-1].turn_id for chat in chats[:-1])
        context = hash((number, turn_number, answer)) if dice.random() < 0.9 else 0
    listening.end(failed=False, cancelled=False)


def stranger(world: World, number: int) -> Iterator[float]:
    """Another app with the same key and the same phrases: it has no transcripts, or no language model; some send a turn id."""
    dice = world.random
    while True:
        yield dice.uniform(0.5, 3)
        turn = f"stranger-{next(world.numbers)}" if dice.random() < 0.5 else None
        truth = (-1 - number, next(world.numbers))
        place = world.place("/v1/chat/completions", Link(), truth, None, turn)
        if dice.random() < 0.5:
            world.turns.chat(place, lambda: LastUser(dice.choice(COMMON), 0), world.now)
        else:
            world.turns.speech(place, dice.choice(ANSWERS), world.now)
        yield 0.3
        place.end(failed=False, cancelled=False)


def check_nothing_mixed(world: World) -> None:
    """No turn has requests of two, and no request the transcripts of another conversation or turn."""
    owners: dict[tuple[str | None, str], Truth] = {}
    for place in world.places:
        truth = world.truth[place.request_id]
        for part in place.heard:
            assert part.cost_nusd is not None
            own = 1_000 ** truth[1]
            if world.truth[part.request_id][0] != truth[0] or part.cost_nusd % own or part.cost_nusd >= 1_000 * own:
                world.wrong.append(f"{place.request_id} {truth} heard {world.truth[part.request_id]}")
        if place.turn_id is not None:
            owner = owners.setdefault((place.session_id, place.turn_id), truth)
            if owner != truth:
                world.wrong.append(f"{place.request_id} {truth} in a turn of {owner}")
        for earlier in place.earlier:
            if world.truth[earlier] != truth:
                world.wrong.append(f"{place.request_id} {truth} follows {world.truth[earlier]}")


@pytest.mark.parametrize(("with_ids", "strangers"), [(False, 0), (True, 0), (False, 2), (True, 2)])
def test_conversations_of_one_key(with_ids, strangers):
    world = World(seed=20, with_ids=with_ids)
    count = CONVERSATIONS // 4 if strangers else CONVERSATIONS
    programs = (conversation(world, number, FRAMEWORKS[number % len(FRAMEWORKS)]) for number in range(count))
    world.run(itertools.chain([stranger(world, number) for number in range(strangers)], programs), AT_ONCE + strangers, count)
    check_nothing_mixed(world)
    assert [wrong for wrong in world.wrong if strangers == 0 or with_ids] == []
    assert len(world.wrong) <= FIRST_USES
    edges = world.edges
    assert edges["heard"] > 0.9 * count * TURNS
    joined = sum(edges[f"{kind} joined"] for kind in ("heard", "speech", "chats"))
    wanted = sum(edges[kind] for kind in ("heard", "speech", "chats"))
    assert joined / wanted >= (1.0 if with_ids else 0.85 if strangers else 0.95)
