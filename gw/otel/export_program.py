"""The process that exports telemetry: `main`, started by `gw.otel.exporter`.

    stdin ──lines of committed records──▶ queue, bounded ──▶ a thread ──OTLP/HTTP──▶ collector
    stdout ◀──counters, after each message──
    stderr ◀──a line of the log, once the gateway is gone and spans were dropped──

The SDK's exporters block, and encoding takes the interpreter: so both are here. Records are encoded as they arrive, and sent with those
that came with them. While a collector is away or slow, they wait; when QUEUED of them do, the oldest are dropped and counted. When stdin
ends the gateway has ended, perhaps by kill -9: what waits is then sent for LAST_S.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import BinaryIO, cast

from gw.otel.export_messages import ExportBatch, ExportClose, ExportCounters, ExportStart, Signal, period_s
from gw.otel.otlp_sender import OtlpSender, Sent
from gw.otel.record_encoding import EncodedRecord, RecordEncoder
from gw.otel.spans import count_of, is_kept
from gw.store.pipe_messages import framed, read_message
from gw.store.record_lines import decode_record
from gw.telemetry.process_limits import keep_freed_memory
from gw.types.usage import RequestRecord

QUEUED = 10_000
"""Records that wait for the collector, about 1.5 kB each; when full, the oldest are dropped and counted."""
BATCH = 2_000
"""Spans in one request, of 1,000 requests with one call each: some 800 kB. Some services take 1 MB at most."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # between attempts while the collector is away
METRICS_EVERY_S = 60.0  # unless OTEL_METRIC_EXPORT_INTERVAL says otherwise
LAST_S = 2.0
_NICENESS = 5  # requests come first


class ExportQueue:
    """Records that wait, and the counters of what became of the others. Any thread may use it."""

    def __init__(self, limit: int = QUEUED) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._records: deque[EncodedRecord] = deque()
        self._in_hand = 0
        self._waiting = 0
        self._is_due = False
        self._exported = self._full = self._rejected = self._unsent = 0
        self._error = ""
        self._closing_at: float | None = None

    def put(self, records: Sequence[EncodedRecord], *, is_last: bool = True) -> None:
        """Add records; drop and count the oldest where there is no room. More that belong to them follow unless `is_last`."""
        with self._changed:
            self._is_due = is_last
            self._records.extend(records)
            self._waiting += sum([record.spans for record in records])
            while len(self._records) > self._limit:
                dropped = self._records.popleft().spans
                self._waiting -= dropped
                self._full += dropped
            self._changed.notify_all()

    def reject(self, record: RequestRecord) -> None:
        """Count the spans of a record that cannot be encoded."""
        with self._changed:
            self._rejected += count_of(record)
            self._error = "a record has a text or a number that no message of OTLP can hold"

    def close(self, within_s: float) -> None:
        """End `take` when nothing waits, or after `within_s`."""
        with self._changed:
            self._closing_at = time.monotonic() + within_s
            self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """Return whether the time to send what waits is over."""
        return self._closing_at is not None and time.monotonic() >= self._closing_at

    def wait(self, seconds: float) -> None:
        """Wait, but not when closing: then there is little time."""
        with self._changed:
            if self._closing_at is None:
                self._changed.wait_for(lambda: self._closing_at is not None, seconds)
            else:
                time.sleep(min(0.1, seconds))

    def take(self, timeout_s: float) -> list[EncodedRecord] | None:
        """Wait for records and return some; none after `timeout_s`, None when closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._records or self._closing_at is not None, timeout_s)
            if not self._records:
                return None if self._closing_at is not None else []
            self._changed.wait_for(lambda: self._is_due or self._waiting >= BATCH or self._closing_at is not None)
            return self._next_batch()

    def _next_batch(self) -> list[EncodedRecord]:
        if self._waiting <= BATCH:
            batch, self._in_hand = list(self._records), self._waiting
            self._records.clear()
        else:
            batch, self._in_hand = [], 0
            while not batch or self._in_hand + self._records[0].spans <= BATCH:
                batch.append(record := self._records.popleft())
                self._in_hand += record.spans
        self._waiting -= self._in_hand
        return batch

    def failed(self, error: str) -> None:
        """Note why the records in hand are not accepted yet, or an export of another kind failed."""
        with self._changed:
            self._error = error

    def settle(self, *, rejected: int, error: str) -> None:
        """Count the spans of the records in hand; `rejected` of them were not accepted."""
        with self._changed:
            rejected = min(rejected, self._in_hand)
            self._exported += self._in_hand - rejected
            self._rejected += rejected
            self._in_hand, self._error = 0, error

    def give_up(self) -> None:
        """Count all that waits as dropped."""
        with self._changed:
            self._unsent += self._in_hand + self._waiting
            if self._in_hand or self._waiting:
                self._error = self._error or "the collector did not answer in time"
            self._in_hand = self._waiting = 0
            self._records.clear()

    def counters(self) -> ExportCounters:
        with self._changed:
            return ExportCounters(
                exported=self._exported, queue_full=self._full, rejected=self._rejected, unsent=self._unsent,
                pending=self._waiting + self._in_hand, error=self._error,
            )  # fmt: skip


class ExportProgram:
    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._queue = ExportQueue()

    def run(self) -> None:
        """Take records in until the gateway closes or ends; meanwhile a thread sends them."""
        start: ExportStart | None = read_message(self._source)
        if start is None:
            return
        self._start = start
        self._sender = OtlpSender(start)
        self._metrics = self._sender.metrics if "metrics" in start.signals else None
        self._encoder = RecordEncoder(start.signals, self._metrics)
        thread = threading.Thread(target=self._export, daemon=True)
        thread.start()
        closing = self._read_batches()
        within_s = LAST_S if closing is None else closing.within_s
        self._queue.close(within_s)
        thread.join(within_s + 0.5)  # a request that is under way does not end sooner than it does
        self._queue.give_up()
        with suppress(BrokenPipeError):
            self._answer()
        if closing is None:
            self._log_unsent()
        os._exit(0)  # a thread that waits for a collector does not hold up the end

    def _read_batches(self) -> ExportClose | None:
        """Answer batches until the gateway closes; return None if it has ended without that."""
        while (message := read_message(self._source)) is not None:
            if isinstance(message, ExportClose):
                return message
            batch = cast("ExportBatch", message)
            self._queue.put([*self._encoded(batch.lines)], is_last=batch.is_last)
            with suppress(BrokenPipeError):
                self._answer()
        return None

    def _encoded(self, lines: Sequence[bytes]) -> Iterator[EncodedRecord]:
        """Count records, and yield those that are sampled, encoded; one after the other, since one stays in the processor's cache."""
        ratio, metrics, encode = self._start.ratio, self._metrics, self._encoder.encode
        has_entries = any(each != "metrics" for each in self._start.signals)
        for line in lines:
            record = decode_record(line)
            if has_entries and is_kept(record, ratio):
                try:
                    yield encode(record)
                except ValueError:
                    self._queue.reject(record)
            elif metrics is not None:
                metrics.observe(record)

    def _log_unsent(self) -> None:
        """Say how many spans are lost. The gateway, which counts them otherwise, was killed; its log may still be read."""
        counters = self._queue.counters()
        if counters.unsent:
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            line = {"timestamp": now, "level": "warning", "event": "otlp_spans_dropped", "why": counters.error, "unsent": counters.unsent}
            with suppress(OSError):
                print(json.dumps(line), file=sys.stderr, flush=True)

    def _answer(self) -> None:
        self._sink.write(framed(self._queue.counters()))
        self._sink.flush()

    def _export(self) -> None:
        """Send what waits until the queue is closed, and metrics when they are due."""
        every_s = period_s(os.environ, "OTEL_METRIC_EXPORT_INTERVAL", METRICS_EVERY_S)
        metrics_at = time.monotonic() + every_s
        while (records := self._queue.take(max(0.0, metrics_at - time.monotonic()))) is not None:
            if records and not self._send_batch(records):
                return
            if time.monotonic() >= metrics_at:
                metrics_at = time.monotonic() + every_s
                self._send_metrics()
        self._send_metrics()

    def _send_batch(self, records: list[EncodedRecord]) -> bool:
        """Send records until each signal is accepted or refused for good; return False when there is no time left.

        The first signal, that of the spans unless only logs are exported, says what became of the records.
        """
        first, *others = [each for each in self._start.signals if each != "metrics"]
        sent = self._send_until_settled(first, records)
        if sent is None:
            return False
        self._queue.settle(rejected=sent.rejected if sent.rejected or not sent.error else sys.maxsize, error=sent.error)
        for each in others:
            sent = self._send_until_settled(each, records)
            if sent is None:
                return False
            if sent.error:
                self._queue.failed(sent.error)
        return True

    def _send_until_settled(self, each: Signal, records: list[EncodedRecord]) -> Sent | None:
        pause_s = FIRST_PAUSE_S
        entries = [record.traces if each == "traces" else record.logs for record in records]
        while (sent := self._sender.send(each, entries)).again:
            self._queue.failed(sent.error)
            if self._queue.is_over:
                return None
            self._queue.wait(sent.retry_after_s or pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return sent

    def _send_metrics(self) -> None:
        if "metrics" in self._start.signals:
            sent = self._sender.send("metrics", ())
            if sent.error:
                self._queue.failed(sent.error)


def main() -> None:
    for sent_to_all in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the gateway ends this process when it has stopped
        signal.signal(sent_to_all, signal.SIG_IGN)
    os.nice(_NICENESS)
    logging.disable()  # the SDK logs each fault; the gateway logs what the counters say, once
    keep_freed_memory()
    gc.freeze()  # the modules' objects stay; what records are made of is not worth a look at all of them
    ExportProgram(sys.stdin.buffer, sys.stdout.buffer).run()
