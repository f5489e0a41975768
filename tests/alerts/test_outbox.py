"""Messages to one receiver: their order, pauses between tries, and when they are given up."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from structlog.testing import capture_logs

from gw.alerts.outbox import GIVE_UP_S, MOST, Outbox, together
from gw.alerts.receivers import Sender
from gw.config.alert_settings import AlertReceiver
from gw.errors import AlertsLedElsewhere, StoreUnavailable
from gw.store.alert_rows import AlertChange
from gw.types.alerts import AlertMessage, PendingMessage
from gw.types.secret import Secret
from tests.fakes.alert_receiver import SECRET, SLOW_S
from tests.fakes.alert_receiver import AlertReceiver as FakeReceiver
from tests.fakes.hosting import VirtualWallClock
from tests.fakes.net import FakeNet

CLOCK = VirtualWallClock()


def pending(number, created_at=1_728_043_200.0, receiver="a"):
    message = AlertMessage(id=f"m{number}", created_at=created_at, gateway="gw")
    return PendingMessage(receiver=receiver, message=message)


class Rows:
    """What is stored: a table of messages by id and receiver."""

    def __init__(self):
        self.waiting, self.error, self.led_elsewhere = {}, None, False

    async def write(self, change):
        if self.error is not None:
            raise self.error
        self.waiting |= {(one.message.id, one.receiver): one for one in change.pending}
        for key in change.sent:
            self.waiting.pop(key, None)

    async def confirm(self):
        if self.led_elsewhere:
            raise AlertsLedElsewhere
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def opened():
    receiver, rows = FakeReceiver(CLOCK.now), Rows()
    async with trio.open_nursery() as nursery:
        net = FakeNet(nursery)
        net.hosts["a.example", 443] = receiver.serve
        outbox = Outbox(nursery, Sender(net), CLOCK, rows.write, rows.confirm)
        outbox.follow({"a": AlertReceiver(url=Secret("https://a.example/hook"), secret=Secret(SECRET))})
        yield outbox, receiver, rows
        nursery.cancel_scope.cancel()


def ids(receiver):
    return [message["message_id"] for message in receiver.accepted]


async def add(outbox, *messages):
    await outbox.store(AlertChange(pending=messages))
    outbox.add(messages)


async def test_messages_arrive_in_order_and_are_removed(autojump_clock):
    async with opened() as (outbox, receiver, rows):
        receiver.mode = "fail"
        await add(outbox, pending(1), pending(2))
        await trio.sleep(10)
        assert rows.waiting["m1", "a"].last_error == "a.example answered 500"
        assert rows.waiting["m1", "a"].tries == receiver.tries == 4  # after 1, 2 and 4 s
        receiver.mode = "accept"
        await add(outbox, pending(3))
        await trio.sleep(10)
        assert (ids(receiver), rows.waiting) == (["m1", "m2", "m3"], {})


async def test_the_receiver_says_when_to_try_again(autojump_clock):
    async with opened() as (outbox, receiver, _):
        receiver.mode = "wait"
        await add(outbox, pending(1))
        await trio.sleep(29)
        assert receiver.tries == 1
        await trio.sleep(2)
        assert receiver.tries == 2


async def test_a_message_is_given_up_after_a_week(autojump_clock):
    async with opened() as (outbox, receiver, rows):
        receiver.mode = "fail"
        await add(outbox, pending(1))
        with capture_logs() as logs:
            await trio.sleep(GIVE_UP_S + 400)
        assert [(entry["event"], entry["message_id"]) for entry in logs if entry["log_level"] == "error"] == [("alert_given_up", "m1")]
        assert rows.waiting == {}
        receiver.mode = "accept"
        await add(outbox, pending(2, CLOCK.now()))
        await trio.sleep(1)
        assert (ids(receiver), rows.waiting) == (["m2"], {})


async def test_the_oldest_of_too_many_is_given_up(autojump_clock):
    async with opened() as (outbox, receiver, _):
        receiver.mode = "hang"
        with capture_logs() as logs:
            outbox.add(pending(number) for number in range(MOST + 3))
        assert [entry["message_id"] for entry in logs] == ["m0", "m1", "m2"]


async def test_one_that_is_accepted_while_it_is_given_up_does_not_take_the_next_one_with_it(autojump_clock):
    async with opened() as (outbox, receiver, rows):
        receiver.mode = "slow"
        await add(outbox, pending(0))
        await trio.sleep(SLOW_S / 2)
        await add(outbox, *(pending(number) for number in range(1, MOST + 1)))
        await trio.sleep(SLOW_S)
        receiver.mode = "accept"
        await trio.sleep(SLOW_S)
        assert ids(receiver) == [f"m{number}" for number in range(MOST + 1)]
        assert rows.waiting == {}


async def test_messages_for_a_receiver_that_is_gone_are_given_up(autojump_clock):
    async with opened() as (outbox, receiver, rows):
        rows.waiting = {("m1", "gone"): pending(1, receiver="gone")}
        with capture_logs() as logs:
            outbox.load([pending(1, receiver="gone"), pending(2)])
        assert [(entry["receiver"], entry["why"]) for entry in logs] == [("gone", "it is no longer configured")]
        await trio.sleep(1)
        assert (ids(receiver), rows.waiting) == (["m2"], {})


async def test_without_the_database_messages_are_sent_and_noted_later(autojump_clock):
    async with opened() as (outbox, receiver, rows):
        rows.error = StoreUnavailable(what="the disk is full")
        await add(outbox, pending(1))
        await trio.sleep(1)
        assert ids(receiver) == ["m1"]
        rows.error = None
        await add(outbox, pending(2))
        await trio.sleep(1)
        assert (ids(receiver), rows.waiting) == (["m1", "m2"], {})


async def test_nothing_is_sent_once_another_gateway_does(autojump_clock):
    accepted = []

    async def send():
        async with opened() as (outbox, receiver, rows):
            receiver.accepted, rows.led_elsewhere = accepted, True
            await add(outbox, pending(1))
            await trio.sleep(1)

    with pytest.raises(ExceptionGroup) as raised:
        await send()
    assert raised.group_contains(AlertsLedElsewhere)
    assert accepted == []


def test_of_two_changes_the_later_one_counts():
    first = AlertChange(pending=(pending(1), pending(2)), sent=(("m0", "a"),))
    second = AlertChange(pending=(pending(2, created_at=7.0),), sent=(("m1", "a"),))
    whole = together(first, second)
    assert [(one.message.id, one.message.created_at) for one in whole.pending] == [("m2", 7.0)]
    assert whole.sent == (("m0", "a"), ("m1", "a"))
