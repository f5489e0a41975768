"""Backups, by SQLite's backup API, of a database that may be in use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import trio

from gw.errors import StoreUnavailable
from gw.store.sqlite import make_private, open_reader, translated

PAGES = 1_000  # pages copied in one step, 4 MB

Progress = Callable[[int, int], None]
"""Called with the pages copied and their total, in the thread that copies. An error that it raises ends the copy."""


async def back_up(source: Path, target: Path, *, on_progress: Progress | None = None) -> int:
    """Run `copy` in a thread; when cancelled it ends within a step and leaves nothing behind."""

    def step(done: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        if on_progress is not None:
            on_progress(done, total)

    return await trio.to_thread.run_sync(partial(copy, source, target, on_step=step))


def copy(source: Path, target: Path, *, on_step: Progress) -> int:
    """Copy the database as it is now, whatever its schema; return the size in bytes. Others may write meanwhile.

    The copy (0600) is made beside `target` and renamed when it has passed the check. Blocks. Raises
    StoreUnavailable, also when `target` exists.
    """
    draft = target.with_name(f"{target.name}.part")
    if target.exists():
        raise StoreUnavailable(what=f"{target} exists; a backup does not replace a file")
    make_private(draft)
    try:
        with translated(source), closing(open_reader(source, any_schema=True)) as db:
            # One snapshot for all steps: without it SQLite starts again after every write in between.
            db.execute("begin")
            _ = db.pragma("schema_version")
            with closing(apsw.Connection(str(draft))) as new:
                _fill(new, db, on_step)
                new.pragma("journal_mode", "delete")
                if (problem := new.pragma("integrity_check", 1)) != "ok":
                    raise StoreUnavailable(what=f"the copy of {source} is damaged: {problem}")
        draft.rename(target)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot write {target}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    return target.stat().st_size


def _fill(new: apsw.Connection, db: apsw.Connection, on_step: Progress) -> None:
    with new.backup("main", db, "main") as work:
        while not work.done:
            work.step(PAGES)
            on_step(work.page_count - work.remaining, work.page_count)
