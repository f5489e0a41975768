"""The gateway that a command works with: the running one over HTTP, else the configured database in this process.

Address: `--url` or GW_URL, else the one in the lock file of the configured database while a gateway holds it, else the
default port on loopback. Credential: `--key` or GW_API_KEY. A command that works on the database says so on stderr.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import attrs
import click

from gw.cli.config_file import load
from gw.cli.main import ACCESS, FAILED, CommandFailed
from gw.cli.output import aside, log_warnings
from gw.config.settings import Settings
from gw.errors import ConfigError, ProviderError, ProviderUnreachable
from gw.net.http_client import client
from gw.store.lock_file import holder
from gw.types.address import split_address
from gw.types.secret import Secret
from gw.web.control_api import HttpApi, decoded, open_in_process

DEFAULT_URL = "http://127.0.0.1:8080"
RECORD_TRIES = 5
RECORD_PAUSE_S = 0.02  # a record is on its way into the database for a moment after the answer's last byte
Request = tuple[str, str, Mapping[str, str], Mapping[str, object] | None]
"""Method, path, query and body."""


class NoDaemon(CommandFailed):
    """Nothing answers at `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"no gateway answers at {url}; start one with: gw serve --demo")
        self.url = url


class DaemonRefused(CommandFailed):
    """The gateway answered with an error."""

    def __init__(self, message: str, http_status: int, code: str = "") -> None:
        barred = http_status in (401, 403) and code != "read_only"
        super().__init__(message, ACCESS if barred else FAILED)
        self.http_status = http_status
        self.code = code


@attrs.frozen
class DaemonResponse:
    """A 2xx response, `http`, read inside `with backend.open(...)`: as `iter_bytes()` while it arrives, or as `json()`.

    `sent_at`: when the request was sent, in seconds of the monotonic clock; the client's library was loaded by then.
    """

    http: Any
    sent_at: float

    def json(self) -> Any:
        """Return the decoded body. Raises CommandFailed when it is not JSON."""
        return _checked(self.http.url, 200, decoded(self.http.read()))


@attrs.frozen(kw_only=True)
class Backend:
    """`named`: the user gave the address, so no other gateway or database will do."""

    url: str
    key: Secret = Secret("")
    named: bool = False

    @classmethod
    def at(cls, url: str | None, key: str) -> Backend:
        """Return the backend that `--url` and `--key` name. Raises UsageError for an invalid address or key."""
        address = url or find_url()
        address = (address if "://" in address else f"http://{address}").rstrip("/")
        try:
            split_address(address)
        except ValueError as error:
            raise click.UsageError(f"--url: {error}") from None
        if not key.isascii() or not key.isprintable():
            raise click.UsageError("--key may hold printable ASCII only")
        return cls(url=address, key=Secret(key), named=bool(url))

    @contextmanager
    def open(self, method: str, path: str, **content: Any) -> Iterator[DaemonResponse]:
        """Send a request to the running gateway and yield its response while it arrives.

        `content`: json, data, files, params, headers. Raises NoDaemon, DaemonRefused, and CommandFailed when the
        response breaks off.
        """
        with self._translated(), client(self.url, self.key) as http:
            sent_at = time.monotonic()
            with http.stream(method, path, **content) as response:
                if not response.is_success:
                    _checked(self.url, response.status_code, decoded(response.read()))
                yield DaemonResponse(response, sent_at)

    def get(self, path: str, **query: object) -> Any:
        """Return the JSON at `path` of the running gateway. Raises NoDaemon, DaemonRefused, CommandFailed."""
        return self._send(("GET", path, _present(query), None))

    def read(self, path: str, *, method: str = "GET", records: bool = False, **query: object) -> Any:
        """Return the JSON at `path`; without a gateway from the database, or from the configuration where there is none yet.

        `records`: only a database can answer. Raises NoDaemon where there is neither.
        """
        return self._call((method, path, _present(query), None), read_only=True, records=records)

    def change(self, method: str, path: str, body: Mapping[str, object] | None = None, **query: object) -> Any:
        """Change something through the gateway that runs, since a database has one writer; else in the database itself.

        A gateway that was named must answer. Raises GwError and the errors of `get`.
        """
        return self._call((method, path, _present(query), body))

    def _call(self, request: Request, *, read_only: bool = False, records: bool = False) -> Any:
        try:
            return self._send(request)
        except NoDaemon as missing:
            if self.named and not read_only:
                raise
            try:
                settings = load(None)
            except ConfigError as error:
                raise error if error.problems and not read_only else missing from None
            from gw.store.configured import database_name, may_have_records  # not for a command that a gateway answers

            if records and not may_have_records(settings):
                raise
            answer = _answer_in_process(settings, request, read_only=read_only)
            place = f"read from {origin(settings)}" if read_only else f"changed in {database_name(settings)}"
            aside(f"no gateway answers at {self.url}; {place}")
            return answer

    def record(self, request_id: str) -> Mapping[str, Any] | None:
        """Return the running gateway's record of a request; None when this credential may not see it."""
        for _ in range(RECORD_TRIES if request_id else 0):
            try:
                record: Mapping[str, Any] = self.get(f"/v1/requests/{request_id}")
            except DaemonRefused as refused:
                if refused.http_status != 404:
                    return None
                time.sleep(RECORD_PAUSE_S)
            else:
                return record
        return None

    def _send(self, request: Request) -> Any:
        with self._translated():
            status, answer = HttpApi(self.url, self.key, "cli").call_blocking(*request)
        return _checked(self.url, status, answer)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ProviderUnreachable as error:
            raise NoDaemon(self.url) from error
        except ProviderError as error:
            raise CommandFailed(str(error)) from error


def _answer_in_process(settings: Settings, request: Request, *, read_only: bool) -> Any:
    import trio

    learn = None if read_only else log_warnings().learn

    async def call() -> tuple[int, Any]:
        async with open_in_process(settings, "cli", read_only=read_only, learn=learn) as api:
            return await api.call(*request)

    return _checked("the database", *trio.run(call))


def backend_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--url` and `--key`, and call the command with the `backend` that they name."""

    @wraps(command)
    def with_backend(*args: Any, url: str | None, key: str, **kwargs: Any) -> None:
        command(*args, backend=Backend.at(url, key), **kwargs)

    key = click.option("--key", envvar="GW_API_KEY", show_envvar=True, default="", help="Project key or admin token.")
    url = click.option("--url", envvar="GW_URL", show_envvar=True, help="Address of the running gateway.")
    return url(key(with_backend))


def find_url() -> str:
    """Return the address of the gateway that holds the configured database, else the default one.

    A shell that only talks to the gateway often lacks the variables that its configuration needs.
    """
    try:
        facts = holder(load(None).cost_tracking.db_path) or {}
    except ConfigError:
        return DEFAULT_URL
    return str(facts.get("url") or DEFAULT_URL)


def origin(settings: Settings) -> Path | str:
    """Return what is read without a gateway: the database, or the file of the configuration where there is no database yet."""
    from gw.store.configured import database_name

    database = settings.cost_tracking.db_path
    if settings.cost_tracking.database:
        return database_name(settings)
    return database if database.exists() or settings.path is None else settings.path


def _present(query: Mapping[str, object]) -> dict[str, str]:
    """Return the members that are not None, as text; a flag is "true" or left out."""
    return {
        name: "true" if value is True else str(value)
        for name, value in query.items()
        if value is not None and value is not False
    }


def _checked(place: object, status: int, answer: Any) -> Any:
    """Return a 2xx answer. Raises DaemonRefused with the gateway's own words, CommandFailed for another program's answer."""
    if 200 <= status < 300:
        if isinstance(answer, str):
            raise CommandFailed(f"{place} does not answer as a gateway does")
        return answer
    code = ""
    try:
        error = answer["error"]
        code = str(error.get("gw", error)["code"])  # `gw`: in the errors of vendors' protocols
        message = f"{error['message']} ({code})"
    except (AttributeError, KeyError, TypeError):
        message = f"the gateway answered {status}"
    hint = "; give a key with --key or GW_API_KEY" if status == 401 else ""
    raise DaemonRefused(message + hint, status, code)
