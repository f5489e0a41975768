"""Leases: many processes on one account, with exchanges that are lost, repeated or late."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gw.policy.lease import Lease
from gw.policy.lease_account import LeaseAccounts
from gw.types.bank import Ask, LeaseGrant

LIMIT = 10_000


def ask(kind="budget", limit=LIMIT, used=0, open_=0, want=0, need=0, least=0):
    return Ask("a", kind, limit, used, open_, want, need, least)


def test_a_repeated_exchange_grants_once():
    bank = LeaseAccounts(0.0)
    first = bank.exchange("m", "1", 1, [ask(want=100)], 0.0).grants[0]
    again = bank.exchange("m", "1", 1, [ask(want=100)], 0.0).grants[0]
    assert (first.granted, again.granted, again.free) == (100, 100, LIMIT - 100)


def test_an_answer_that_is_lost_takes_nothing_from_the_account():
    bank = LeaseAccounts(0.0)
    bank.exchange("m", "1", 1, [ask(want=100)], 0.0)
    assert bank.exchange("m", "1", 2, [ask(open_=0, want=0)], 0.0).grants[0].free == LIMIT


def test_a_grant_is_at_most_the_free_amount_divided_by_twice_the_members():
    bank = LeaseAccounts(0.0)
    for member in "abcd":
        bank.exchange(member, "1", 1, [ask()], 0.0)
    assert bank.exchange("a", "1", 2, [ask(want=LIMIT)], 0.0).grants[0].granted == LIMIT // 8


def test_requests_that_wait_get_what_they_lack_and_the_first_one_even_beyond_the_limit():
    bank = LeaseAccounts(0.0)
    bank.exchange("a", "1", 1, [ask(used=LIMIT - 50)], 0.0)
    grant = bank.exchange("b", "1", 1, [ask(want=200, need=200, least=70)], 0.0).grants[0]
    assert (grant.granted, grant.free) == (70, -20)
    assert bank.exchange("b", "1", 2, [ask(open_=70, want=1, need=1, least=1)], 0.0).grants[0].granted == 0


def test_a_dead_member_keeps_its_budget_and_gives_back_slots_and_calls():
    bank = LeaseAccounts(0.0)
    asks = [Ask("b", "budget", 100, 0, 0, 40, 40, 40), Ask("s", "slots", 10, 0, 0, 4, 4, 4), Ask("r", "rate", 60, 0, 0, 30, 30, 30)]
    bank.exchange("dead", "1", 1, asks, 0.0)
    nothing = [Ask("b", "budget", 100, 0, 0, 0, 0, 0), Ask("s", "slots", 10, 0, 0, 0, 0, 0), Ask("r", "rate", 60, 0, 0, 0, 0, 0)]
    assert [grant.free for grant in bank.exchange("m", "1", 1, nothing, 9.0).grants] == [60, 6, 30]
    later = bank.exchange("m", "1", 2, nothing, 11.0)
    assert ([grant.free for grant in later.grants], later.members) == ([60, 10, 60], 1)


def test_a_member_that_comes_back_frees_what_its_records_do_not_have():
    bank = LeaseAccounts(0.0)
    bank.exchange("m", "1", 1, [ask(want=400, need=400)], 0.0)
    assert bank.exchange("m", "2", 1, [ask(used=150)], 1.0).grants[0].free == LIMIT - 150
    assert bank.exchange("m", "1", 9, [ask(used=400)], 2.0).replaced


def test_a_bank_that_has_just_begun_grants_no_budget_until_all_have_said_what_they_used():
    bank = LeaseAccounts(0.0, settle_s=2.5)
    young = bank.exchange("a", "1", 1, [ask(want=10, need=10, least=10)], 1.0).grants[0]
    assert (young.granted, young.wait_s) == (0, 1.5)
    bank.exchange("b", "1", 1, [ask(used=LIMIT - 5)], 2.0)
    assert bank.exchange("a", "1", 2, [ask(want=100)], 3.0).grants[0].granted == 1


def test_a_process_that_begins_anew_has_room_before_its_first_request_and_gives_it_back():
    bank, lease = LeaseAccounts(0.0), Lease("a", "budget", 1_000_000, 0.0, used=5_000)
    rooms = {}
    for number, now in enumerate((0.0, 1.0, 9.0, 11.0, 12.0), 1):
        said = lease.ask(now)
        lease.take(said, (answer := bank.exchange("a", "1", number, [said], now)).grants[0], answer.members, now)
        rooms[now] = lease.room
    assert rooms == {0.0: 1_000, 1.0: 1_000, 9.0: 1_000, 11.0: 0, 12.0: 0}
    assert bank.exchange("b", "1", 1, [ask(limit=1_000_000)], 12.0).grants[0].free == 995_000


def test_a_process_that_begins_anew_keeps_no_more_than_its_first_part_from_others():
    """Requests cost less than is reserved for them, and the process that is asked last has nothing of what is left."""
    bank = LeaseAccounts(0.0)
    leases = {member: Lease("a", "budget", LIMIT, 100.0, used=LIMIT * 3 // 10) for member in "ab"}

    def exchange(member: str, number: int, now: float) -> None:
        lease = leases[member]
        question = lease.ask(now)
        answer = bank.exchange(member, "1", number, [question], now)
        lease.take(question, answer.grants[0], answer.members, now)

    for member in "ab":
        exchange(member, 1, 100.0)
    leases["a"].require(LIMIT * 4 // 10)
    exchange("a", 2, 100.1)
    leases["a"].reserve(LIMIT * 4 // 10)
    leases["a"].settle(LIMIT * 4 // 10, LIMIT // 10)
    exchange("a", 3, 101.2)  # its next heartbeat
    leases["b"].require(LIMIT // 10)
    exchange("b", 2, 101.3)
    assert leases["b"].room >= LIMIT // 10


def test_a_process_that_begins_anew_leases_nothing_of_a_budget_that_is_at_its_end():
    bank = LeaseAccounts(0.0)
    bank.exchange("b", "1", 1, [ask(used=LIMIT - 20)], 0.0)
    lease = Lease("a", "budget", LIMIT, 0.0, used=20)
    said = lease.ask(0.0)
    lease.take(said, bank.exchange("a", "1", 1, [said], 0.0).grants[0], 2, 0.0)
    assert (lease.room, lease.free) == (0, 0)


def test_requests_of_a_bank_that_has_just_begun_are_refused_until_it_grants_and_no_longer():
    member = Member(LeaseAccounts(0.0, settle_s=2.5), "a", "budget", LIMIT)
    for now in (0.1, 2.4):  # a request at either moment must not put off the first grant
        member.lease.require(10)
        member.exchange(now)
        assert member.lease.settles_in_s(now) == pytest.approx(2.5 - now)
        assert not member.lease.must_wait(10, now + 0.05)
    assert member.lease.must_wait(10, 2.5)
    member.lease.require(10)
    member.exchange(2.5)
    assert member.lease.room >= 10
    assert member.lease.settles_in_s(2.5) == 0


def test_a_rate_refills_and_says_when_the_next_call_is_free():
    bank = LeaseAccounts(0.0)
    grant = bank.exchange("m", "1", 1, [ask("rate", 60, want=60, need=60, least=1)], 0.0).grants[0]
    assert (grant.granted, grant.free, grant.wait_s) == (60, 0, 0.0)
    assert bank.exchange("m", "1", 2, [ask("rate", 60, used=60)], 0.0).grants[0].wait_s == 0.0  # asks for nothing
    assert bank.exchange("m", "1", 3, [ask("rate", 60, used=60)], 2.5).grants[0].free == 2


class Member:
    """One process and its exchanges, without a network."""

    def __init__(self, bank, name, kind, limit):
        self.bank, self.name, self.number = bank, name, 0
        self.lease = Lease("a", kind, limit, 0.0)

    def exchange(self, now):
        self.number += 1
        said = self.lease.ask(now)
        answer = self.bank.exchange(self.name, "1", self.number, [said], now)
        self.lease.take(said, answer.grants[0], answer.members, now)

    def call(self, now):
        """Have a request, and return whether it may be made."""
        if self.lease.must_wait(1, now):
            self.lease.require(1)
        if self.lease.due(now):
            self.exchange(now)
        self.lease.mature(now)
        if self.lease.room <= 0:
            return False
        self.lease.reserve(1)
        self.lease.settle(1, 1)
        return True


def test_a_rate_that_is_used_up_is_shared_by_few_exchanges_and_stays_exact():
    bank = LeaseAccounts(0.0)
    members = [Member(bank, name, "rate", 600) for name in "abcd"]
    taken = {member.name: [] for member in members}
    for step in range(24_000):  # 120 s: each member has a request every 20 ms, five times what the rate allows
        now, member = step / 200, members[step % 4]
        if member.call(now):
            taken[member.name].append(now)
    times = sorted(now for of_one in taken.values() for now in of_one)
    assert sum(now < 60 for now in times) <= 1_200
    assert sum(60 <= now < 120 for now in times) == pytest.approx(600, rel=0.02)
    assert max(sum(at <= now < at + 60 for now in times) for at in range(60)) <= 1_200
    assert sum(member.number for member in members) / 4 / 120 < 2
    late = [sum(now >= 60 for now in of_one) for of_one in taken.values()]
    assert max(late) <= 1.2 * min(late)


def test_tokens_and_open_calls_together_are_at_most_the_limit():
    bank = LeaseAccounts(0.0)
    bank.exchange("m", "1", 1, [ask("rate", 60, want=50, need=50, least=1)], 0.0)
    assert bank.exchange("m", "1", 2, [ask("rate", 60, open_=50)], 60.0).grants[0].free == 10


def test_slots_that_others_wait_for_are_shared_evenly():
    bank = LeaseAccounts(0.0)
    members = [Member(bank, name, "slots", 6) for name in "abc"]
    for member in members:
        member.lease.waiting = 6
    first, *others = members
    for member in members:
        member.exchange(0.0)
    assert [member.lease.ceiling for member in members] == [6, 0, 0]
    first.lease.reserve(6)
    first.lease.settle(1, 0)
    first.exchange(0.3)
    first.lease.settle(4, 0)
    first.exchange(0.6)
    for member in others:
        member.exchange(0.7)
    assert [member.lease.ceiling for member in members] == [2, 2, 2]
    assert first.lease.room == 1


def test_a_slot_that_more_members_want_than_there_are_slots_passes_on():
    bank = LeaseAccounts(0.0)
    first, second = members = [Member(bank, name, "slots", 1) for name in "ab"]
    for member in members:
        member.lease.waiting = 1
        member.exchange(0.0)
    first.lease.reserve(1)
    first.exchange(0.3)
    first.lease.settle(1, 0)
    assert first.lease.room == 0  # although a request waits here
    first.exchange(0.6)
    second.exchange(0.7)
    assert second.lease.room == 1


def test_a_lease_asks_at_half_and_gives_back_what_it_does_not_use():
    bank, lease, now, number = LeaseAccounts(0.0), Lease("a", "budget", 1_000_000, 0.0), 0.0, 0

    def exchange():
        nonlocal number
        number += 1
        said = lease.ask(now)
        answer = bank.exchange("m", "1", number, [said], now)
        lease.take(said, answer.grants[0], answer.members, now)

    assert lease.must_wait(10, now)
    lease.require(10)
    exchange()
    for _ in range(50):  # a hundred each tenth of a second
        now += 0.1
        if lease.must_wait(100, now):
            lease.require(100)
        if lease.due(now):
            exchange()
        lease.reserve(100)
        lease.settle(100, 100)
    assert number < 20
    assert 500 < lease.room < 4_000
    for _ in range(20):
        now += 1.0
        if lease.changed(now):
            exchange()
    assert lease.room < 20
    assert not lease.changed(now)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 5), lost=st.sampled_from([0.0, 0.2, 0.6]))
def test_no_budget_is_overspent_whatever_is_lost(seed, members, lost):
    """Admitted amounts never exceed the limit by a whole request, and nothing stays locked away at the end."""
    chance, bank = random.Random(seed), LeaseAccounts(0.0)
    leases = [Lease("a", "budget", LIMIT, 0.0) for _ in range(members)]
    numbers, now, largest = [0] * members, 0.0, 300
    for _ in range(400):
        now += chance.random() * 0.2
        n = chance.randrange(members)
        lease, need = leases[n], chance.randint(1, largest)
        waits = lease.must_wait(need, now)
        if waits:
            lease.require(need)
        if waits or chance.random() < 0.2:
            numbers[n] += 1
            said = lease.ask(now)
            arrives, returns = chance.random() >= lost, chance.random() >= lost
            if arrives:
                answer = bank.exchange(f"m{n}", "1", numbers[n], [said], now)
                if chance.random() < 0.3:
                    bank.exchange(f"m{n}", "1", numbers[n], [said], now)
            if arrives and returns:
                lease.take(said, answer.grants[0], answer.members, now)
            else:
                lease.lost()
        if lease.room >= need:
            lease.reserve(need)
            lease.settle(need, need)
        assert sum(lease.used for lease in leases) < LIMIT + largest
    for n, lease in enumerate(leases):
        for _ in range(30):
            now += 1.0
            numbers[n] += 1
            said = lease.ask(now)
            lease.take(said, bank.exchange(f"m{n}", "1", numbers[n], [said], now).grants[0], members, now)
    used = sum(lease.used for lease in leases)
    assert sum(lease.room for lease in leases) <= 0.02 * LIMIT
    assert bank.exchange("end", "1", 1, [ask()], now).grants[0].free == pytest.approx(LIMIT - used, abs=0.02 * LIMIT)


def test_a_rate_that_is_used_up_grants_each_member_its_part_of_the_next_second_in_turn():
    bank = LeaseAccounts(0.0)
    bank.exchange("a", "1", 1, [Ask("r", "rate", 600, 0, 0, 600, 600, 1)], 0.0)
    bank.exchange("a", "1", 2, [Ask("r", "rate", 600, 600, 0, 0, 0, 0)], 0.0)
    answers = [bank.exchange(name, "1", 1, [Ask("r", "rate", 600, 0, 0, 20, 1, 1)], 0.01).grants[0] for name in "bcde"]
    assert [grant.granted for grant in answers] == [5, 4, 3, 2]  # of ten calls, divided by two, three, four and five members
    assert [grant.wait_s for grant in answers] == pytest.approx([0.09, 0.59, 0.99, 1.29])  # until the first of them
    more = [Ask("r", "rate", 600, 0, open_, 20, 1, 1) for open_ in (5, 1)]  # nobody has more than its part coming
    assert [bank.exchange(name, "1", 2, [one], 0.02).grants[0].granted for name, one in zip("be", more, strict=True)] == [0, 1]


def test_calls_to_come_end_within_two_seconds_however_many_members_ask():
    bank = LeaseAccounts(0.0)
    bank.exchange("full", "1", 1, [Ask("r", "rate", 600, 0, 0, 600, 600, 1)], 0.0)
    names = [f"m{n}" for n in range(30)]
    answers = [bank.exchange(name, "1", 1, [Ask("r", "rate", 600, 0, 0, 1, 1, 1)], 0.0).grants[0] for name in names]
    assert sum(grant.granted for grant in answers) == 19
    assert max(grant.wait_s for grant in answers if grant.granted) == pytest.approx(1.9)


def test_members_take_turns_at_a_rate_of_less_than_one_call_a_second():
    chance, bank = random.Random(1), LeaseAccounts(0.0)
    members = [Member(bank, name, "rate", 6) for name in "abcdefgh"]
    taken = {member.name: [] for member in members}
    requests = sorted((chance.random() * 1_200, n % 8) for n in range(9_600))
    heartbeats = [(second + n / 8, n) for second in range(1_200) for n in range(8)]
    for now, n in sorted(requests + heartbeats):
        member = members[n]
        if (now, n) in heartbeats[int(now) * 8 : int(now) * 8 + 8]:
            member.exchange(now)
            continue
        if member.call(now):
            taken[member.name].append(now)
    times = sorted(now for of_one in taken.values() for now in of_one)
    per_minute = [sum(minute * 60 <= now < minute * 60 + 60 for now in times) for minute in range(20)]
    assert per_minute[0] <= 12
    assert set(per_minute[1:]) <= {5, 6, 7}
    assert sum(per_minute[1:]) == pytest.approx(19 * 6, abs=1)
    gaps = [after - before for of_one in taken.values() for before, after in zip([0.0, *of_one], [*of_one, 1_200.0], strict=True)]
    assert max(gaps) < 120  # an even turn is one in 80 s
    assert max(map(len, taken.values())) <= 1.5 * min(map(len, taken.values()))


def test_who_has_waited_longest_for_a_slow_rate_may_have_the_next_call_first():
    bank = LeaseAccounts(0.0)
    for number, member in enumerate("abc", 1):
        bank.exchange(member, "1", 1, [Ask("r", "rate", 6, 0, 0, 0, 0, 0)], 0.0)
        bank.exchange(member, "1", 2, [Ask("r", "rate", 6, 0, 0, 2, 2, 1)], number / 1_000)  # six calls: the bank has none left
    for member in "abc":
        bank.exchange(member, "1", 3, [Ask("r", "rate", 6, 2, 0, 0, 0, 0)], 0.003)  # has used its two calls
    grants = {name: bank.exchange(name, "1", 4, [Ask("r", "rate", 6, 2, 0, 1, 1, 1)], 1.0).grants[0] for name in "cba"}
    assert {name: grant.granted for name, grant in grants.items()} == {"c": 0, "b": 0, "a": 1}
    waits = {name: grant.wait_s for name, grant in grants.items()}
    assert waits == pytest.approx({"c": 9, "b": 4, "a": 9}, abs=0.01)  # b may ask half a pause before the next call is due
    assert bank.exchange("b", "1", 5, [Ask("r", "rate", 6, 2, 0, 1, 1, 1)], 5.1).grants[0].granted == 0
    later = {name: bank.exchange(name, "1", 6, [Ask("r", "rate", 6, 2, 0, 1, 1, 1)], 10.5).grants[0].granted for name in "cb"}
    assert later == {"c": 0, "b": 1}


def test_a_call_of_a_slow_rate_is_kept_for_a_request_that_comes_back_for_it():
    lease = Lease("r", "rate", 6, 0.0)
    lease.require(1)
    lease.take(lease.ask(0.0), LeaseGrant(1, 0, 6, 8.0, False, None), 8, 0.0)
    assert lease.wait_s(0.0) == 8.0
    for second in (9.0, 17.0):
        lease.ask(second)
        assert lease.room == 1
    lease.ask(18.5)
    assert lease.room == 0


def test_a_request_that_comes_during_an_exchange_does_not_change_when_a_lease_with_calls_to_come_asks_again():
    """Without that, a member that asked again at once lost its place in line, and asked four times a second."""
    bank, lease = LeaseAccounts(0.0), Lease("r", "rate", 600, 0.0)
    bank.exchange("a", "1", 1, [Ask("r", "rate", 600, 0, 0, 600, 600, 1)], 0.0)
    lease.require(1)
    first = lease.ask(0.0)
    lease.require(1)
    lease.take(first, (answer := bank.exchange("b", "1", 1, [first], 0.0)).grants[0], answer.members, 0.0)
    assert not lease.due(0.01)
    last = lease.empty_until
    lease.require(1)
    second = lease.ask(0.02)
    lease.take(second, bank.exchange("b", "1", 2, [second], 0.02).grants[0], 2, 0.02)
    assert lease.empty_until >= last
    assert lease.wait_s(0.02) == pytest.approx(0.08)  # its first call is still the next one of all
