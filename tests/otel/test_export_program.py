"""The queue of the exporting process: bounded, the oldest go first, and every span is counted once."""

from __future__ import annotations

import threading
import tracemalloc

import msgspec

from gw.otel.export_messages import ExportCounters
from gw.otel.export_program import BATCH, ExportQueue
from gw.otel.record_encoding import RecordEncoder
from tests.fakes.records import record

ENCODE = RecordEncoder(("traces", "logs")).encode


def encoded(*ids: str):
    return [ENCODE(record(each)) for each in ids]


def test_records_are_taken_in_order_and_counted():
    queue = ExportQueue()
    batch, last = encoded(*(f"r{n}" for n in range(BATCH // 2))), encoded("last")
    queue.put(batch + last)
    assert queue.take(0) == batch
    assert queue.counters() == ExportCounters(pending=BATCH + 2)
    queue.settle(rejected=3, error="")
    queue.close(1.0)
    assert queue.take(0) == last
    queue.settle(rejected=0, error="")
    assert queue.take(0) is None
    assert queue.counters() == ExportCounters(exported=BATCH + 2 - 3, rejected=3)


def test_a_request_has_a_bounded_number_of_spans_but_one_record_at_least():
    queue = ExportQueue()
    large, small = msgspec.structs.replace(*encoded("a"), spans=BATCH + 5), msgspec.structs.replace(*encoded("b"), spans=BATCH - 3)
    queue.put([small, *encoded("c", "d"), large, *encoded("e")])
    assert [[record.spans for record in queue.take(0)] for _ in range(4)] == [[BATCH - 3, 2], [2], [BATCH + 5], [2]]
    assert queue.counters() == ExportCounters(pending=2)


def test_records_wait_for_those_that_came_with_them():
    queue, taken = ExportQueue(), []
    first, others = encoded("a"), encoded("b", "c")
    queue.put(first, is_last=False)
    taking = threading.Thread(target=lambda: taken.extend([queue.take(600.0), queue.take(0)]))
    taking.start()
    taking.join(0.2)
    assert taking.is_alive()
    queue.put(others)
    taking.join(60)
    assert taken == [first + others, []]


def test_the_oldest_make_room():
    queue = ExportQueue(limit=4)
    records = encoded(*(f"r{n}" for n in range(10)))
    queue.put(records)
    assert queue.counters() == ExportCounters(queue_full=12, pending=8)
    queue.close(0)
    assert queue.take(0) == records[6:]
    queue.failed("traces: Connection refused")
    queue.put(encoded("late"))
    queue.give_up()
    assert queue.counters() == ExportCounters(queue_full=12, unsent=10, error="traces: Connection refused")


def test_an_hour_without_a_collector_takes_no_more_memory_than_a_minute():
    queue, entries = ExportQueue(limit=100), iter(range(10**9))

    def an_hour(requests: int) -> int:
        for _ in range(requests):
            queue.put(encoded(f"r{next(entries)}"))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        after_a_minute, after_an_hour = an_hour(200), an_hour(12_000)
    finally:
        tracemalloc.stop()
    assert after_an_hour - after_a_minute < 20_000
    assert queue.counters() == ExportCounters(queue_full=2 * (12_200 - 100), pending=200)


def test_a_wait_ends_when_it_is_closed():
    queue = ExportQueue()
    waiting = threading.Thread(target=queue.wait, args=(600.0,))
    waiting.start()
    assert not queue.is_over
    queue.close(0.0)
    waiting.join(60)
    assert not waiting.is_alive()
    assert queue.is_over
    assert queue.take(600.0) is None
