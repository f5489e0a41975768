"""The conversations of one key that may go on: those that have ended are forgotten, at a cost that does not grow with their number."""

from __future__ import annotations

from gw.policy.turn_memory import MAX_LIVE, Memory
from gw.policy.turn_texts import TurnPlace

MANY = 4_000


def conversation(number: int) -> TurnPlace:
    return TurnPlace(request_id=f"r{number}", key=("default", None, None))


class CountingMemory(Memory):
    looks: int = 0

    def is_live(self, session_id: str | None) -> bool:
        self.looks += 1
        return super().is_live(session_id)


def test_conversations_that_all_go_on_are_looked_at_a_few_times_each():
    memory = CountingMemory()
    for number in range(MANY):
        memory.keep(f"r{number}", conversation(number))
    assert len(memory.live) == MANY
    assert MAX_LIVE < memory.looks < 2 * MANY


def test_those_that_have_ended_are_forgotten():
    memory = Memory()
    for number in range(MANY):
        place = conversation(number)
        memory.keep(f"r{number}", place)
        place.is_done = True
    assert len(memory.live) <= MAX_LIVE


def test_after_an_hour_with_many_conversations_few_are_kept_again():
    memory = Memory()
    places = [conversation(number) for number in range(MANY)]
    for number, place in enumerate(places):
        memory.keep(f"r{number}", place)
    for place in places:
        place.is_done = True
    for number in range(MANY, MANY + 2 * MANY):
        place = conversation(number)
        memory.keep(f"r{number}", place)
        place.is_done = True
    assert len(memory.live) <= MAX_LIVE
