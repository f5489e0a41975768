"""Gates of several processes as one."""

from __future__ import annotations

import pytest

from gw.types.gate_view import GateView, SlotsView, of_all_processes


def gate(breaker="closed", in_flight=0, limit=None, remaining=None, reset_s=None, **models):
    return GateView("up", breaker, in_flight, limit, remaining, reset_s, models)


@pytest.mark.parametrize(
    ("states", "joint"),
    [
        (("closed", "closed"), "closed"),
        (("closed", "open"), "open"),
        (("half_open", "open"), "open"),
        (("half_open", "half_open"), "half_open"),
        (("half_open", "closed"), "closed"),  # it has answered the other one since
        (("half_open",), "half_open"),
    ],
)
def test_the_breaker_of_all_processes(states, joint):
    assert of_all_processes({"up": gate(state)} for state in states)["up"].breaker == joint
    one_model = of_all_processes({"up": gate(m=state) if state != "closed" else gate()} for state in states)["up"]
    assert one_model.models == ({} if joint == "closed" else {"m": joint})


def test_calls_and_what_is_left_of_a_rate_add_up():
    gates = ({"up": gate(in_flight=2, limit=60, remaining=10, reset_s=1.0)}, {"up": gate(in_flight=1, limit=60, remaining=5, reset_s=3.0)})
    assert of_all_processes(gates) == {"up": gate(in_flight=3, limit=60, remaining=15, reset_s=3.0)}
    assert of_all_processes([*gates, {"up": gate(limit=60, remaining=60)}])["up"].remaining == 60


def test_a_gate_that_one_process_has_is_as_it_is_there():
    only = gate("open", 1)
    assert of_all_processes([{"up": only}, {}, {"other (shop)": gate()}]) == {"up": only, "other (shop)": gate()}


def test_a_gate_is_notable_while_something_is_to_be_said_about_it():
    assert not gate().is_notable
    assert all(view.is_notable for view in (gate("open"), gate(m="half_open"), gate(in_flight=1), gate(limit=60)))


def slots(most: int, in_use: int, *, here: int, named: bool, age_s: float = 1.0) -> SlotsView:
    return SlotsView(most, in_use, "answer" if named else "refusal", age_s, here, named)


def test_slots_that_the_vendor_named_are_those_of_all_processes_and_others_add_up():
    def of(view: SlotsView) -> GateView:
        return GateView("p", "closed", 0, None, None, None, {}, {"tts:p/m": view})

    def merged(*views: SlotsView) -> SlotsView:
        return of_all_processes([{"p": of(view)} for view in views])["p"].slots["tts:p/m"]

    named = merged(slots(10, 6, here=2, named=True, age_s=3), slots(10, 5, here=4, named=True))
    assert (named.most, named.in_use, named.age_s) == (10, 6, 1.0)
    inferred = merged(slots(4, 4, here=4, named=False), slots(3, 1, here=1, named=False))
    assert (inferred.most, inferred.in_use) == (7, 5)
    both = merged(slots(4, 4, here=4, named=False), slots(10, 3, here=3, named=True))
    assert (both.most, both.in_use) == (10, 7)
