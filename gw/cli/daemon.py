"""The running gateway as the command line sees it: where it is, how to ask it, and what its refusals mean.

Address: `--url` or GW_URL, else the one in the lock file of the configured database while a gateway holds it, else the
default port on loopback. Credential: `--key` or GW_API_KEY.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import attrs
import click

from gw.cli.config_file import database_path
from gw.cli.main import ACCESS, FAILED, CommandFailed
from gw.errors import ProviderError, ProviderUnreachable
from gw.net.http_client import client
from gw.store.lock import holder
from gw.types.address import split_address
from gw.types.secret import Secret

DEFAULT_URL = "http://127.0.0.1:8080"
RECORD_TRIES = 5
RECORD_PAUSE_S = 0.02
"""A record can be asked for a moment after the answer's last byte: it is on its way into the database."""
NO_KEY = Secret("")
FACE = {"X-GW-Source": "cli"}
"""For the audit log."""
C = TypeVar("C", bound=Callable[..., Any])


class NoDaemon(CommandFailed):
    """Nothing answers at `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"no gateway answers at {url}; start one with: gw serve --demo")
        self.url = url


def daemon_options(command: C) -> C:
    """Adds `--url` and `--key`, for `Daemon.at`."""
    key = click.option("--key", envvar="GW_API_KEY", show_envvar=True, default="", help="Project key or admin token.")
    url = click.option("--url", envvar="GW_URL", show_envvar=True, help="Address of the running gateway.")
    return url(key(command))


def find_url() -> str:
    """The address of the gateway that holds the configured database, else the default one."""
    path = database_path()
    facts = holder(path) if path else None
    return str((facts or {}).get("url") or DEFAULT_URL)


class DaemonResponse:
    """An answer whose status is 2xx; `chunks()` as they arrive, or `json()`. Use inside `with daemon.open(...)`.

    `asked_at` is when the request began, in seconds of the monotonic clock: after the client's library was loaded.
    """

    def __init__(self, response: Any, asked_at: float) -> None:
        self._response = response
        self.asked_at = asked_at

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    def chunks(self) -> Iterator[bytes]:
        yield from self._response.iter_bytes()

    def json(self) -> Any:
        """Raises Failed when the body is something else."""
        try:
            return json.loads(self._response.read())
        except ValueError as error:
            raise CommandFailed(f"{self._response.url} does not answer as a gateway does") from error


@attrs.frozen(kw_only=True)
class Daemon:
    url: str
    key: Secret = NO_KEY
    named: bool = False
    """The user has said where it is: it was not looked for."""

    @classmethod
    def at(cls, url: str | None, key: str) -> Daemon:
        """What `--url` and `--key` say. Raises UsageError for what is no address."""
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
        """Send a request and yield its answer while it arrives. `content`: json, data, files, params, headers.

        Raises NoDaemon, and Failed with the gateway's own words for a refusal or an answer that breaks off.
        """
        try:
            with client(self.url, self.key) as http:
                asked_at = time.monotonic()
                with http.stream(method, path, **content) as response:
                    if not response.is_success:
                        raise _refused(response.status_code, response.read())
                    yield DaemonResponse(response, asked_at)
        except ProviderUnreachable as error:
            raise NoDaemon(self.url) from error
        except ProviderError as error:
            raise CommandFailed(str(error)) from error

    def get(self, path: str, **query: object) -> Any:
        """The JSON at `path`; members of `query` that are None are left out. Raises as `open` does."""
        params = {name: value for name, value in query.items() if value is not None}
        with self.open("GET", path, params=params) as answer:
            return answer.json()

    def send(self, method: str, path: str, body: Mapping[str, object] | None = None, **query: object) -> Any:
        """Change something; the JSON of the answer. Raises as `open` does."""
        content: dict[str, Any] = {"params": {k: v for k, v in query.items() if v is not None}, "headers": FACE}
        if body is not None:
            content["json"] = body
        with self.open(method, path, **content) as answer:
            return answer.json()

    def record(self, request_id: str) -> Mapping[str, Any] | None:
        """What the gateway recorded of a request; None when this credential may not see it."""
        for _ in range(RECORD_TRIES if request_id else 0):
            try:
                found: Mapping[str, Any] = self.get(f"/v1/requests/{request_id}")
            except DaemonRefused as refused:
                if refused.http_status != 404:
                    return None
                time.sleep(RECORD_PAUSE_S)
            else:
                return found
        return None


class DaemonRefused(CommandFailed):
    """The gateway answered with an error."""

    def __init__(self, message: str, http_status: int, code: str = "") -> None:
        barred = http_status in (401, 403) and code != "read_only"
        super().__init__(message, ACCESS if barred else FAILED)
        self.http_status = http_status
        self.code = code


def _refused(status: int, body: bytes) -> DaemonRefused:
    """The gateway's error form: {"error": {"code", "message", …}}; anything else is told by its status alone."""
    code = ""
    try:
        error = json.loads(body)["error"]
        code = str(error["code"])
        message = f"{error['message']} ({code})"
    except (ValueError, KeyError, TypeError):
        message = f"the gateway answered {status}"
    hint = "; give a key with --key or GW_API_KEY" if status == 401 else ""
    return DaemonRefused(message + hint, status, code)


def path_of(*parts: str) -> str:
    """`path_of("/v1/models", "groq/a b")`: every character of a name that could mean something is escaped."""
    first, *names = parts
    return "/".join([first, *(quote(name, safe="") for name in names)])
