"""A disk that is full, and a database that will not have certain records."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import apsw


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size` bytes: what a full disk looks like to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refuse(db: apsw.Connection, *ids: str) -> None:
    """From now on the database at `db` takes no request of these ids: a fault that only such a record has."""
    names = ", ".join(f"'{name}'" for name in ids)
    db.execute(
        f"create trigger refuse before insert on requests when new.id in ({names}) begin select raise(abort, 'refused'); end"
    )
