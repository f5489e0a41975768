"""Connections to PostgreSQL: how they are opened, how they end, and what their errors mean.

psycopg waits in the calling thread and steps other threads aside. A server that answers nothing (a machine that hangs, a cable
that was pulled) is noticed by the client alone: every wait for it is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import IntLoader

from gw.errors import DatabaseLocked, DatabaseUnusable, StoreUnavailable
from gw.store.postgres.dialect import translate
from gw.types.secret import Secret

SCHEMA = "gw"
OLDEST_SERVER = 14
CONNECT_S = 5
ANSWER_S = 10.0  # a server that sends nothing for so long, while it should, is given up
_STEP_S = 0.1  # psycopg looks up so often while it waits
_STREAMED_ROWS = 10_000  # of a statement whose rows are not read all at once
_CANCEL_S = 1.0  # to ask the server to cancel a statement
_DEAD_PEER: dict[str, Any] = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3}

TRANSIENT: tuple[type[Exception], ...] = (
    psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError, errors.UndefinedTable, errors.InvalidSchemaName,
    errors.InsufficientPrivilege,
)  # fmt: skip
"""Faults of the server, the network or its administrator: retrying is right. Any other is of a record, or our bug."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection on which no wait lasts longer than `answer_s`, counted anew with each byte that arrives."""

    answer_s = ANSWER_S
    stop: Callable[[], bool] | None = None
    """When it returns True, the statement that runs is cancelled, and no other begins. Called in the connection's thread, before each
    statement and ten times a second."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on what psycopg waits for; raise OperationalError when the server is silent for too long."""
        silent, stopped = 0, False
        try:
            wanted = next(work)
            while True:
                ready = yield wanted
                silent = 0 if ready else silent + 1
                if silent * _STEP_S > self.answer_s:
                    work.close()
                    self.pgconn.finish()  # what the server was doing is unknown
                    raise psycopg.OperationalError(f"the server has not answered for {self.answer_s:g} s")
                if silent and not stopped and self.stop is not None and self.stop():
                    stopped = True
                    self.cancel_safe(timeout=_CANCEL_S)
                wanted = work.send(ready)
        except StopIteration as end:
            return end.value


class PgRows:
    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows. They are all here, and psycopg converts them faster at once than one by one."""
        return iter(self._cursor.fetchall())

    @property
    def get(self) -> Any:
        row = self._cursor.fetchone()
        return row[0] if row is not None and len(row) == 1 else row


class PgConnection:
    """Runs the store's statements, see `SqlConnection`. Values become literals, so that the planner sees them.

    The server keeps its plan of a query without values: for the oldest record of all days that takes 20 times as long as the query.
    """

    def __init__(self, raw: BoundedConnection) -> None:
        self.raw = raw

    def execute(self, statements: str, bindings: Any = None, /) -> PgRows:
        if self.raw.stop is not None and self.raw.stop():
            raise errors.QueryCanceled("stopped before the statement began")
        if not bindings and statements.startswith("select "):
            return PgRows(self.raw.execute(translate(statements).replace("%%", "%").encode(), prepare=True))
        cursor = psycopg.ClientCursor(self.raw)
        cursor.execute(translate(statements).encode(), _storable(bindings or ()))
        return PgRows(cursor)

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], /) -> PgRows:
        cursor = self.raw.cursor()
        if rows := [_storable(bindings) for bindings in sequenceofbindings]:
            cursor.executemany(translate(statements).encode(), rows)
        return PgRows(cursor)

    @property
    def is_lost(self) -> bool:
        return self.raw.closed or self.raw.broken

    def close(self) -> None:
        self.raw.close()


def storable(value: object) -> object:
    """Replace NUL characters, which PostgreSQL's text cannot hold."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _storable(bindings: Mapping[str, object] | Sequence[object]) -> Mapping[str, object] | Sequence[object]:
    if isinstance(bindings, Mapping):
        return {name: storable(value) for name, value in bindings.items()}
    return [storable(value) for value in bindings]


def copy_rows(db: PgConnection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a table of ours, which is faster than inserting them."""
    with db.raw.cursor().copy(f"copy {table} ({', '.join(columns)}) from stdin".encode()) as copy:
        for row in rows:
            copy.write_row([storable(value) for value in row])


def streamed(db: PgConnection, statement: str) -> Iterator[Any]:
    """Yield the rows of a statement without bindings as they are needed. Within a transaction."""
    with db.raw.cursor(name="streamed") as cursor:
        cursor.itersize = _STREAMED_ROWS
        cursor.execute(translate(statement).replace("%%", "%").encode())
        yield from cursor


def connect(
    url: Secret, *, read_only: bool = False, statement_s: float | None = None, answer_s: float = ANSWER_S
) -> PgConnection:
    """Connect. Blocks for at most about CONNECT_S. Raises psycopg's errors, and DatabaseUnusable for an older server."""
    raw = BoundedConnection.connect(
        url.reveal(), autocommit=True, connect_timeout=CONNECT_S, application_name="gw", keepalives=1, **_DEAD_PEER
    )
    raw.answer_s = answer_s
    try:
        if (major := raw.info.server_version // 10_000) < OLDEST_SERVER:
            raise DatabaseUnusable(what=f"{named(url)} is PostgreSQL {major}; gw needs {OLDEST_SERVER} or newer")
        raw.adapters.register_loader("numeric", IntLoader)  # of sums of whole numbers
        raw.execute(sql.SQL("set search_path to {}").format(sql.Identifier(SCHEMA)))
        raw.execute("set jit to off")  # compiling a report takes longer than making it
        if read_only:
            raw.execute("set default_transaction_read_only to on")
        if statement_s is not None:
            raw.execute(sql.SQL("set statement_timeout to {}").format(sql.Literal(round(statement_s * 1_000))))
    except BaseException:
        raw.close()
        raise
    return PgConnection(raw)


def named(url: Secret) -> str:
    """Return the database in messages: without user, password and options."""
    try:
        parts = conninfo_to_dict(url.reveal())
    except psycopg.ProgrammingError:
        return "the PostgreSQL database"
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"the PostgreSQL database {parts.get('dbname') or parts.get('user') or ''} at {host}:{port}"


def describe(error: Exception, name: str) -> str:
    """Return one line for people: what is wrong with the database, and what to do."""
    what = " ".join(str(error).split()) or type(error).__name__
    match error:
        case errors.DiskFull():
            return f"{name} has no space left: {what}"
        case errors.ReadOnlySqlTransaction():
            return f"{name} takes no writes, it is a standby or set to read only: {what}"
        case errors.InsufficientPrivilege():
            return f"{name} does not let this user write: {what}"
        case errors.UndefinedTable() | errors.InvalidSchemaName():
            return f"{name} has lost tables of gw ({what}); restore a backup, or start gw again, which makes them anew"
        case _:
            return f"{name} cannot be used: {what}"


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn psycopg's errors, except those for bugs of ours, into DatabaseLocked or StoreUnavailable."""
    try:
        yield
    except errors.LockNotAvailable as error:
        raise DatabaseLocked(what=f"{name} is locked: another gateway is changing it") from error
    except msgspec.MsgspecError as error:
        raise DatabaseUnusable(what=f"{name} has a row that cannot be read: {error}") from error
    except TRANSIENT as error:
        raise StoreUnavailable(what=describe(error, name)) from error
