"""Replay: what a killed process left in its journal becomes records, once.

Finished records are inserted unless their id is there already; an intent whose request never finished becomes a record
`error` / `interrupted` with what was estimated before the call, since the vendor may charge for it. The segments go
only after the last commit, so a start that is killed replays again and changes nothing twice. Lines that cannot be read are
kept beside the database, in files that end with `.bad`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import attrs
import msgspec

from gw.store.batches import BATCH, describe_fault
from gw.store.journal_files import keep_unreadable, read_lines, segment_paths
from gw.store.record_log import log_unwritable
from gw.types.ids import split_model_id
from gw.types.usage import AttemptRecord, Intent, RequestRecord, total_usage

_SAME = sorted({*Intent.__struct_fields__} & {*RequestRecord.__struct_fields__} - {"model_id", "estimated_nusd"})
"""Fields that a record has from its first intent."""


@attrs.define
class Replayed:
    """Counts. `records` were not in the database yet; `unreadable` lines and `unwritable` records were skipped.

    `kept_in`: files with the unreadable lines.
    """

    records: int = 0
    interrupted: int = 0
    unreadable: int = 0
    unwritable: int = 0
    kept_in: tuple[str, ...] = ()

    def __iadd__(self, other: Replayed) -> Replayed:
        self.records += other.records
        self.interrupted += other.interrupted
        self.unreadable += other.unreadable
        self.unwritable += other.unwritable
        self.kept_in += other.kept_in
        return self


WritePossible = Callable[[Sequence[RequestRecord]], tuple[int, list[tuple[RequestRecord, Exception]]]]
"""Inserts records; returns how many were new, and those that cannot be written. Repeating it changes nothing."""


def replay(write: WritePossible, database: Path) -> Replayed:
    """Bring the journal's segments into the database and remove them. Blocks. `database`: the path beside which they are."""
    result = Replayed()
    unfinished: dict[str, list[Intent]] = {}
    batch: list[RequestRecord] = []
    paths = segment_paths(database)
    for path in paths:
        for _, line in read_lines(path):
            match line:
                case Intent():
                    unfinished.setdefault(line.id, []).append(line)
                case RequestRecord():
                    unfinished.pop(line.id, None)
                    batch.append(line)
                case None:
                    result.unreadable += 1
            if len(batch) == BATCH:
                result.records += _write(write, batch, result)
                batch = []
    result.records += _write(write, batch, result)
    result.interrupted = _write(write, [interrupted(intents) for intents in unfinished.values()], result)
    for path in paths:
        _remove(path, result)
    return result


def _remove(segment: Path, result: Replayed) -> None:
    """Remove a segment whose unreadable lines are safe; on a disk that takes none of them, leave it for the next start."""
    try:
        kept = keep_unreadable(segment) if result.unreadable else None
    except OSError:
        result.kept_in += (str(segment),)
        return
    if kept is not None:
        result.kept_in += (str(kept),)
    segment.unlink()


def _write(write: WritePossible, records: list[RequestRecord], result: Replayed) -> int:
    new, refused = write(records)
    result.unwritable += len(refused)
    for record, error in refused:
        log_unwritable(record, describe_fault(error))
    return new


def interrupted(intents: Iterable[Intent]) -> RequestRecord:
    """Return the record of a request that was in flight when the process died, from its intents (at least one).

    Units and cost are the sums of the estimates; the cost is unknown only when no attempt had one.
    """
    newest = {intent.attempt: intent for intent in intents}  # a live session notes again what it has sent by now
    intents = sorted(newest.values(), key=lambda intent: intent.attempt)
    first, last = intents[0], intents[-1]
    priced = [intent.estimate_nusd for intent in intents if intent.estimate_nusd is not None]
    sources = dict.fromkeys(_source(intent) for intent in intents)
    attempts = [_attempt(intent, first.timestamp, is_part=len(intents) > 1) for intent in intents]
    return RequestRecord(
        **{name: getattr(first, name) for name in _SAME},
        model_id=last.model_id,
        provider=split_model_id(last.model_id)[0],
        status="error",
        total_latency_ms=max(attempt.started_ms for attempt in attempts),
        cost_nusd=sum(priced) if priced else None,
        pricing_source=" + ".join(sources),
        usage=total_usage([intent.estimate for intent in intents], "estimated"),
        attempts=tuple(attempts),
        estimated_nusd=sum(intent.estimated_nusd for intent in intents),
        error_code="interrupted",
    )


def _source(intent: Intent) -> str:
    return "unpriced" if intent.estimate_nusd is None else "estimated"


def _attempt(intent: Intent, began: float, *, is_part: bool) -> AttemptRecord:
    started_ms = max(0.0, (intent.timestamp - began) * 1000)
    record = AttemptRecord(model_id=intent.model_id, outcome="interrupted", started_ms=started_ms, duration_ms=0.0)
    if not is_part:
        return record
    used = intent.estimate
    return msgspec.structs.replace(
        record,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        audio_seconds=used.audio_seconds or None,
        characters=used.characters or None,
        cost_nusd=intent.estimate_nusd,
        pricing_source=_source(intent),
        estimated_nusd=intent.estimated_nusd,
    )
