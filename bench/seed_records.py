"""Fill a database with made-up requests, to see how reports do with many.

    python bench/seed_records.py --rows 1000000 --db FILE [--days 30] [--end UNIX] [--seed 1]
    python bench/seed_records.py --rows 10000000 --db FILE --hour 10 [--days 30] [--end UNIX] [--seed 1]
    python bench/seed_records.py --rows 10000000 --database postgresql://… [--days 30] [--end UNIX] [--hour 10] [--seed 1]

Some 24 models, 20 projects and 30 days, written by the store's own code, so that rollups are what a gateway would have
made of the same requests. The day has its busy hours, models their speeds and failure rates, and two thirds of the requests
belong to conversations of several turns. The same arguments give the same records.

In PostgreSQL, an empty database, only the last two days are written so; the server makes the others from the last complete one, with
other ids, which takes minutes instead of an hour. So does SQLite with `--hour`: the hour of the day at the end, where the callers are; by
default it is that of UTC. From 10 to 15 o'clock are the most requests.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import attrs

from gw.store.batches import write_batch
from gw.store.sqlite import open_writer, prepare_folder
from gw.types.usage import AttemptRecord, RequestRecord, Usage

DAY_S = 86_400
BATCH = 20_000
_HOURS = (1, 1, 1, 1, 1, 2, 4, 8, 14, 18, 20, 19, 15, 17, 20, 19, 16, 12, 9, 7, 5, 4, 3, 2)
_STATUSES = ("fallback", "error", "cancelled")
_FAILURES = (
    ("failed", "upstream_failed", 503),
    ("rate_limited", "rate_limited", 429),
    ("too_slow", "upstream_slow", None),
)


@attrs.frozen
class Model:
    """`usual_ms` to the first byte; `price` in nano-USD per unit."""

    id: str
    modality: str
    usual_ms: float
    price: int
    fail_rate: float


def models() -> dict[str, list[Model]]:
    """Eight of each modality, on four providers each."""
    providers = {
        "stt": ("deepgram", "openai", "assemblyai", "whisper"),
        "llm": ("openai", "groq", "anthropic", "ollama"),
        "tts": ("cartesia", "elevenlabs", "openai", "kokoro"),
    }
    usual = {"stt": 180.0, "llm": 320.0, "tts": 140.0}
    price = {"stt": 70_000, "llm": 450, "tts": 15_000}
    return {
        modality: [
            Model(
                id=f"{name}/{modality}-{size}",
                modality=modality,
                usual_ms=usual[modality] * (1 + 0.35 * n),
                price=price[modality] * (1 + n),
                fail_rate=0.01 + 0.012 * ((n + len(name)) % 5),
            )
            for n, (name, size) in enumerate((p, s) for p in names for s in ("small", "large"))
        ]
        for modality, names in providers.items()
    }


class Traffic:
    def __init__(self, rows: int, days: int, end: float, seed: int, shift: int = 0) -> None:
        """`shift`: hours by which the callers' clocks are ahead of UTC."""
        self.dice = Random(seed)
        self.models = models()
        self.projects = [f"project-{n:02}" for n in range(20)]
        self.weights = [1 / (n + 2) for n in range(20)]
        self.rows, self.days, self.end, self.shift = rows, days, end, shift
        self.made = 0

    def records(self) -> Iterator[RequestRecord]:
        """About in the order of their time, hour by hour, up to `end`."""
        first = int(self.end // 3600) - self.days * 24 + 1
        hours = range(first, first + self.days * 24)
        shares = [_HOURS[(hour + self.shift) % 24] * (0.6 if (hour // 24 + 3) % 7 > 4 else 1.0) for hour in hours]
        shares[-1] *= (self.end % 3600) / 3600
        whole, done = sum(shares), 0.0
        for hour, share in zip(hours, shares, strict=True):
            done += share
            upto = round(self.rows * done / whole)
            length = self.end % 3600 if hour == hours[-1] else 3600.0
            times = sorted(hour * 3600 + self.dice.random() * length for _ in range(upto - self.made))
            yield from self._hour(iter(times), hour)

    def _hour(self, times: Iterator[float], hour: int) -> Iterator[RequestRecord]:
        dice = self.dice
        for at in times:
            project = dice.choices(self.projects, self.weights)[0]
            if dice.random() < 0.4:
                session, turns = f"{dice.getrandbits(128):032x}", dice.randint(1, 3)
                stages = [(m, f"{session[:20]}{turn:04}") for turn in range(turns) for m in ("stt", "llm", "tts")]
                yield from (
                    self._record(when, project, modality, session, turn)
                    for (modality, turn), when in zip(stages, [at, *islice(times, len(stages) - 1)], strict=False)
                )
            else:
                yield self._record(at, project, dice.choice(("stt", "llm", "llm", "tts")), None, None)

    def _record(self, at: float, project: str, modality: str, session: str | None, turn: str | None) -> RequestRecord:
        dice = self.dice
        self.made += 1
        choice = self.models[modality]
        model = choice[min(int(dice.expovariate(0.45)), 7)]
        status, attempts, failure_ms = "success", [], 0.0
        if dice.random() < model.fail_rate:
            (outcome, code, upstream) = dice.choice(_FAILURES)
            failure_ms = round(dice.lognormvariate(math.log(150), 0.6), 3)
            attempts.append(
                AttemptRecord(
                    model_id=model.id,
                    outcome=outcome,
                    started_ms=0.2,
                    duration_ms=failure_ms,
                    error_code=code,
                    upstream_status=upstream,
                )
            )
            status = "fallback" if dice.random() < 0.7 else "error"
        elif dice.random() < 0.04:
            status = "cancelled"
        answered = status != "error"
        first = model
        if status == "fallback":
            model = choice[(choice.index(model) + 1) % 8]
        ttfb = round(dice.lognormvariate(math.log(model.usual_ms), 0.4), 3)
        rest = round(ttfb * dice.uniform(0.5, 3.0), 3)
        if answered:
            attempts.append(
                AttemptRecord(
                    model_id=model.id,
                    outcome="ok",
                    started_ms=round(failure_ms + 0.3, 3),
                    duration_ms=ttfb + rest,
                    ttfb_ms=ttfb,
                )
            )
        usage = self._usage(modality) if answered else Usage()
        units = usage.input_tokens + 4 * usage.output_tokens + usage.characters + round(usage.audio_seconds)
        return RequestRecord(
            id=f"{dice.getrandbits(128):032x}",
            timestamp=at,
            project=project,
            modality=modality,
            model_id=model.id,
            provider=model.id.partition("/")[0],
            requested_model=first.id,
            status=status,
            total_latency_ms=round(failure_ms + (ttfb + rest if answered else 0.0) + 0.4, 3),
            ttfb_ms=round(failure_ms + ttfb, 3) if answered else None,
            gateway_ms=0.4,
            cost_nusd=None if dice.random() < 0.002 else units * model.price,
            pricing_source="table",
            usage=usage,
            attempts=tuple(attempts),
            fallback_from=first.id if status == "fallback" else None,
            error_code=None if answered else attempts[0].error_code,
            stream=modality != "stt",
            session_id=session,
            turn_id=turn,
            endpoint="seed",
        )

    def _usage(self, modality: str) -> Usage:
        dice = self.dice
        if modality == "llm":
            return Usage(input_tokens=dice.randint(80, 3_000), output_tokens=dice.randint(5, 250), source="vendor")
        if modality == "stt":
            return Usage(audio_seconds=round(dice.lognormvariate(1.2, 0.6), 2), source="vendor")
        return Usage(characters=dice.randint(10, 400), source="vendor")


def seed(path: Path, rows: int, *, days: int = 30, end: float, number: int = 1, progress: bool = False) -> int:
    """Returns how many records were written. The database must not be in use."""
    began = time.monotonic()
    db = open_writer(prepare_folder(path))
    try:
        db.pragma("synchronous", "off")  # nothing is lost that could not be made again
        db.pragma("wal_autocheckpoint", 20_000)
        source, written = Traffic(rows, days, end, number).records(), 0
        while batch := list(islice(source, BATCH)):
            written += write_batch(db, batch)
            if progress:
                took = time.monotonic() - began
                left = took / written * max(0, rows - written)
                print(
                    f"\r{written:>9} of {rows}, {took:.0f} s, {left:.0f} s left ", end="", file=sys.stderr, flush=True
                )
        if progress:
            print(file=sys.stderr)
        return written
    finally:
        db.close()


def seed_copies(path: Path, rows: int, *, days: int, end: float, number: int, shift: int) -> int:
    """Return how many records there are now, of which all but the last two days are copies. The database must not be in use."""
    today = int(end // DAY_S)
    db = open_writer(prepare_folder(path))
    try:
        db.pragma("synchronous", "off")
        db.pragma("wal_autocheckpoint", 20_000)
        db.pragma("cache_size", -(2**20))  # 1 GB: the indexes of ids are written all over
        for source in last_days(rows // days, end, number, shift):
            while batch := list(islice(source, BATCH)):
                write_batch(db, batch)

        def columns_of(table: str) -> list[str]:
            return [name for _, name, *_ in db.execute(f"pragma table_info({table})")]

        for back in range(days - 2, 0, -1):
            with db:
                for statement in copies(today - 1, back, "requests", columns_of):
                    db.execute(statement)
            print(f"\r{days - back} of {days} days ", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return int(db.execute("select count(*) from requests").get)
    finally:
        db.close()


def last_days(rows: int, end: float, number: int, shift: int) -> tuple[Iterator[RequestRecord], Iterator[RequestRecord]]:
    """Return the records of the last complete day, so many, and those of the day of `end`."""
    today = int(end // DAY_S)
    complete = Traffic(rows, 1, today * DAY_S - 1, number, shift).records()
    return complete, (one for one in Traffic(rows, 1, end, number + 1, shift).records() if one.timestamp >= today * DAY_S)


COPIED = {
    "rollup_hour": 24, "rollup_day": 1, "rollup_attempt": 24, "rollup_attempt_day": 1, "first_audio_hour": 24, "first_audio_day": 1,
    "first_audio_minute": 24 * 60, "sums_minute": 24 * 60, "model_minute": 24 * 60,
    "totals_hour": 24, "totals_day": 1,
}  # fmt: skip
"""Table of sums → its buckets in a day."""
VIEWS = ("totals_hour", "totals_day")
"""Those that are made of others in SQLite."""


def seed_postgres(url: str, rows: int, *, days: int = 30, end: float, number: int = 1, shift: int = 0) -> int:
    """Return how many records there are now."""
    from gw.store.postgres.partitions import make
    from gw.store.postgres.pg_connection import connect
    from gw.store.postgres.pg_database import PostgresRecords
    from gw.types.secret import Secret

    today = int(end // DAY_S)
    database = PostgresRecords(Secret(url), "seed")
    for source in last_days(rows // days, end, number, shift):
        while batch := list(islice(source, 2_000)):
            database.write(batch)
    database.close()
    db = connect(Secret(url), answer_s=3_600).raw
    for back in range(1, days - 1):
        copy_day(db, today - 1, back)
        print(f"\r{back + 2} of {days} days ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    make(connect(Secret(url)), [today + 1])
    db.execute("analyze")
    [(count,)] = db.execute("select count(*) from requests").fetchall()
    return int(count)


def copy_day(db: Any, source: int, back: int) -> None:
    """Make a day from another one, so many days before it."""
    day, table = source - back, f"requests_day_{source - back}"
    db.execute(f"create table {table} (like requests including defaults)".encode())
    named = "select column_name from information_schema.columns where table_schema = 'gw' and table_name = %s"
    for statement in copies(source, back, table, lambda sums: [name for (name,) in db.execute(named, (sums,))]):
        db.execute(statement.encode())
    db.execute(f"alter table requests attach partition {table} for values from ({day * DAY_S}) to ({(day + 1) * DAY_S})".encode())


def copies(source: int, back: int, table: str, columns_of: Callable[[str], list[str]]) -> Iterator[str]:
    """Yield statements that make a day from another one, so many days before it, with its records in `table`."""
    from gw.store.requests import COLUMNS

    changed = {"id": f"id || '-{back}'", "timestamp": f"timestamp - {back * DAY_S}.0"}
    changed |= {name: f"{name} || '-{back}'" for name in ("session_id", "turn_id")}
    names, values = ", ".join(COLUMNS), ", ".join(changed.get(name, name) for name in COLUMNS)
    within = f"timestamp >= {source * DAY_S}.0 and timestamp < {(source + 1) * DAY_S}.0"
    yield f"insert into {table} ({names}) select {values} from requests where {within} order by timestamp"
    for sums, per_day in COPIED.items():
        columns = columns_of(sums)
        if table == "requests" and sums in VIEWS:
            continue
        others = ", ".join(name for name in columns if name != "bucket")
        of_source = f"bucket between {source * per_day} and {(source + 1) * per_day - 1}"
        yield f"insert into {sums} (bucket, {others}) select bucket - {back * per_day}, {others} from {sums} where {of_source}"
    began = f"began between {source * DAY_S} and {(source + 1) * DAY_S}"
    yield f"insert into turn_waits select began - {back * DAY_S}, project, stack, wait_ms from turn_waits where {began}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--db", type=Path)
    where.add_argument("--database", help="address of an empty PostgreSQL database")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--end", type=float, default=time.time(), help="Unix seconds; the last record is about then")
    parser.add_argument("--hour", type=int, help="hour of the day at the end, where the callers are; the other days are copies then")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shift = 0 if options.hour is None else options.hour - int(options.end // 3_600) % 24
    if options.database:
        written = seed_postgres(options.database, options.rows, days=options.days, end=options.end, number=options.seed, shift=shift)
        print(f"{written} records in PostgreSQL", file=sys.stderr)
        return
    if options.hour is None:
        written = seed(options.db, options.rows, days=options.days, end=options.end, number=options.seed, progress=True)
    else:
        written = seed_copies(options.db, options.rows, days=options.days, end=options.end, number=options.seed, shift=shift)
    print(f"{written} records in {options.db}, {options.db.stat().st_size / 2**20:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
