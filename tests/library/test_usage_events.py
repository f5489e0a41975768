from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from gw.library.usage_events import EVENTS, UsageFeed, call_here, event_of
from gw.telemetry.log import log_to_program
from gw.types.usage import Usage
from tests.fakes.temporary_gateway import record


def test_an_event_says_what_its_record_says():
    event = event_of(record(cost_nusd=None, usage=Usage(audio_seconds=2.5), session_id="s", turn_id="t"))
    assert (event.audio_seconds, event.cost_usd, event.session_id, event.turn_id) == (2.5, None, "s", "t")
    assert event.units == Usage(audio_seconds=2.5)


async def test_a_listener_that_never_keeps_up_loses_events_and_they_are_counted(caplog):
    log_to_program()
    events = []
    feed = UsageFeed([events.append], call_here)
    for number in range(EVENTS + 3):
        feed.finished(record(number))
    assert feed.dropped == 3
    assert caplog.text.count("usage_event_left_out") == 3
    feed.close()
    await feed.run()
    assert len(events) == EVENTS


async def test_without_listeners_nothing_is_kept(autojump_clock):
    feed = UsageFeed([], call_here)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        feed.finished(record())
        await wait_all_tasks_blocked()
        feed.close()
    assert feed.dropped == 0


async def test_what_comes_after_the_end_is_no_fault():
    events = []
    feed = UsageFeed([events.append], call_here)
    feed.close()
    feed.finished(record())
    assert events == []
