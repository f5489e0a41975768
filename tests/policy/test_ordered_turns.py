"""All gateways find the same turns, whatever they knew before, and nothing is kept of requests that ended elsewhere."""

from __future__ import annotations

from gw.policy.ordered_turns import FORGET_S, HOLD_S, OrderedTurns, process_name
from gw.policy.turn_events import TurnProcessEnded, TurnReport, TurnRequestEnded
from tests.fakes.records import record
from tests.policy.test_merged_turns import asked, heard


class Channel:
    """Passes reports to the gateways that listen."""

    def __init__(self, *members: str) -> None:
        self.turns = {member: OrderedTurns(member, "1") for member in members}
        self.numbers = dict.fromkeys(members, 0)

    def report(self, member: str, *events, until: float, offset: float = 0.0, run: str = "1", process: str = "") -> None:
        self.numbers[member] += 1
        report = TurnReport(member, run, self.numbers[member], process, offset, until, list(events))
        for turns in self.turns.values():
            turns.take(report)

    def complete(self, member: str, request_id: str, process: str = ""):
        return self.turns[member].complete(process_name(member, "1", process), record(request_id))


def test_events_are_applied_in_the_order_of_their_times_by_the_servers_clock():
    channel = Channel("a", "b")
    channel.report("b", asked("chat", 110.2), until=110.3, offset=-100.0)
    channel.report("a", heard("ear", 10.1), until=10.2)
    assert not channel.turns["a"].is_applied(10.2)
    channel.report("a", until=10.3 + HOLD_S)
    assert channel.turns["a"].is_applied(10.2)
    assert (channel.complete("b", "chat").turn_id, channel.complete("b", "chat").turn_id) == ("chat", None)


def test_a_late_event_is_late_for_all():
    channel = Channel("a", "b")
    channel.report("b", asked("chat", 10.2), until=11.0)
    channel.report("a", heard("ear", 10.1), until=11.1)
    for member, request_id in (("b", "chat"), ("a", "ear")):
        assert channel.complete(member, request_id).turn_id is None


def test_who_listens_later_finds_the_same():
    channel = Channel("a", "b")
    channel.report("a", heard("ear", 10.0), until=10.0)
    channel.turns["late"] = OrderedTurns("late", "1")
    channel.numbers["late"] = 0
    channel.report("late", asked("chat", 10.1), until=10.1)
    channel.report("a", heard("ear2", 11.0), until=12.0)
    assert channel.complete("late", "chat").turn_id is None, "it never heard of the transcript"
    channel.report("late", asked("chat2", 12.0), until=13.0)
    assert channel.complete("late", "chat2").session_id == "ear2"


def test_nothing_is_kept_of_what_ended_elsewhere():
    channel = Channel("a", "b")
    for number in range(50):
        at = 10.0 + number
        channel.report("a", asked(f"chat{number}", at), until=at)
        channel.report("a", TurnRequestEnded(at + 0.1, f"chat{number}", False, False), until=at + 0.5)
    name = process_name("a", "1", "")
    assert [turns.place(name, "chat3") is None for turns in channel.turns.values()] == [False, True]
    assert len(channel.turns["b"]._processes[name].places) == len(channel.turns["b"]._processes[name].answers) == 0


def test_a_gateway_that_starts_again_or_is_silent_for_long_has_ended():
    channel = Channel("a", "b")
    channel.report("a", heard("ear", 10.0), until=10.2)
    channel.numbers["a"] = 0
    channel.report("a", until=11.0, run="2")
    assert list(channel.turns["b"]._processes) == [process_name("a", "2", "")]
    channel.report("b", until=12.0 + FORGET_S)
    assert list(channel.turns["b"]._processes) == [process_name("b", "1", "")]
    assert channel.turns["a"].gaps == channel.turns["b"].gaps == 0


def test_the_end_of_a_worker_ends_its_requests():
    channel = Channel("a", "b")
    channel.report("a", heard("ear", 10.0), until=10.0, process="w1")
    place = channel.turns["a"].place(process_name("a", "1", "w1"), "ear")
    channel.report("a", TurnProcessEnded(10.5), until=11.0, process="w1")
    assert place.is_done
    assert channel.turns["a"].place(process_name("x", "1", ""), "ear") is None


def test_a_missing_report_empties_the_memory_of_all():
    channel = Channel("a", "b")
    channel.report("a", heard("ear", 10.0), until=10.0)
    channel.numbers["a"] += 1
    channel.report("a", until=10.5)
    channel.report("b", asked("chat", 10.6), until=11.0)
    assert channel.complete("b", "chat").turn_id is None
    assert [turns.gaps for turns in channel.turns.values()] == [1, 1]
