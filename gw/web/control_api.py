"""The control plane's HTTP API as the command line and the MCP server call it.

One process writes a database. Where a gateway holds it, calls go to that gateway over HTTP; where none does, the same
ASGI app answers in this process. So the checks, errors and audit log are the same either way.

Every command of `gw` imports this: trio and the gateway are imported where they are used.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import quote, unquote, urlencode

import attrs
import msgspec

from gw.errors import DatabaseLocked, ProviderError
from gw.net.http_client import request_blocking
from gw.store.lock_file import holder
from gw.types.asgi import ASGIApp, Message, Scope
from gw.types.secret import Secret

if TYPE_CHECKING:  # a gateway takes a third of a second to import, which a call over HTTP does without
    from gw.config.settings import Settings
    from gw.gateway import Gateway

Source = Literal["cli", "mcp"]
"""Through which face a change came, for the audit log."""
_NO_QUERY: Mapping[str, str] = {}


class ControlApi(Protocol):
    async def call(
        self, method: str, path: str, query: Mapping[str, str] = _NO_QUERY, body: Mapping[str, object] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the decoded JSON of an answer; an answer that is not JSON comes as text."""


def path_with(template: str, *values: str, **named: str) -> str:
    """Fill `/v1/models/{}` or `/v1/models/{model_id}`, with every character escaped that has a meaning in a path."""
    escaped = partial(quote, safe="")
    return template.format(*map(escaped, values), **{name: escaped(value) for name, value in named.items()})


@attrs.frozen
class HttpApi:
    """The control plane of the gateway at `url`."""

    url: str
    token: Secret
    source: Source

    async def call(
        self, method: str, path: str, query: Mapping[str, str] = _NO_QUERY, body: Mapping[str, object] | None = None
    ) -> tuple[int, Any]:
        """Call the gateway; 502 where it cannot be reached."""
        import trio

        try:
            return await trio.to_thread.run_sync(self.call_blocking, method, path, query, body)
        except ProviderError as error:
            return 502, {"error": {"code": "gateway_unreachable", "message": str(error), "hint": "is `gw serve` running?"}}

    def call_blocking(
        self, method: str, path: str, query: Mapping[str, str] = _NO_QUERY, body: Mapping[str, object] | None = None
    ) -> tuple[int, Any]:
        """Call the gateway from a thread without trio. Raises ProviderUnreachable, UpstreamCut."""
        headers = {"x-gw-source": self.source, "content-type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        address = f"{path}?{urlencode(query)}" if query else path
        status, answer = request_blocking(self.url, self.token, method, address, headers=headers, content=content)
        return status, decoded(answer)


class InProcessApi:
    """The control plane of a gateway in this process. `token` is its admin token, if it has one."""

    def __init__(self, gateway: Gateway, token: Secret, source: Source) -> None:
        from gw.web.app import make_app
        from gw.web.drain import Drain

        self._app: ASGIApp = make_app(gateway, Drain())
        self._headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"x-gw-source", source.encode())]
        if token:
            self._headers.append((b"authorization", b"Bearer " + token.reveal().encode()))

    def with_credential(self, presented: bytes) -> InProcessApi:
        """Return the same control plane for the holder of another credential."""
        other = copy(self)
        other._headers = [pair for pair in self._headers if pair[0] != b"authorization"]
        other._headers.append((b"authorization", b"Bearer " + presented))
        return other

    async def call(
        self, method: str, path: str, query: Mapping[str, str] = _NO_QUERY, body: Mapping[str, object] | None = None
    ) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        status, parts = 0, list[bytes]()
        requests: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Message:
            import trio

            if not requests:
                await trio.sleep_forever()  # the caller stays until the answer; the app cancels this at its end
            return requests.pop()

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._app(self._scope(method, path, query, len(content)), receive, send)
        return status, decoded(b"".join(parts))

    def _scope(self, method: str, path: str, query: Mapping[str, str], length: int) -> Scope:
        return {
            **{"type": "http", "asgi": {"version": "3.0", "spec_version": "2.5"}, "http_version": "1.1"},
            **{"scheme": "http", "client": ("127.0.0.1", 0), "server": ("localhost", 0), "root_path": "", "extensions": {}},
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": urlencode(query).encode("ascii"),
            "headers": [*self._headers, (b"content-length", b"%d" % length)],
        }


def decoded(body: bytes) -> Any:
    """Return the JSON that `body` is, else its text."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


@asynccontextmanager
async def open_control_api(settings: Settings, token: Secret, source: Source) -> AsyncIterator[tuple[ControlApi, str]]:
    """Yield the control plane of the configured database, and where it is, in words.

    `token` is the admin token of a gateway that already runs. Raises ConfigError, StoreUnavailable, and DatabaseLocked
    when a process holds the database and does not say at which address.
    """
    import trio

    from gw.store.configured import database_name

    path = settings.cost_tracking.db_path
    facts = await trio.to_thread.run_sync(holder, path)
    if facts is None:
        async with open_in_process(settings, source) as api:
            yield api, database_name(settings)
        return
    url = str(facts.get("url") or "")
    if not url:
        raise DatabaseLocked(what=f"{path} is held by process {facts.get('pid')}, which does not answer at any address")
    yield HttpApi(url, token, source), f"the gateway at {url}"


@asynccontextmanager
async def open_in_process(
    settings: Settings, source: Source, *, read_only: bool = False,
    learn: Callable[[Iterable[Secret]], None] | None = None,
) -> AsyncIterator[ControlApi]:  # fmt: skip
    """Open the configured database in this process and yield its control plane, with every right.

    `read_only` leaves the database as it is, and shows the configuration alone where there is no database yet. `learn` is
    called with every secret that must not get into a log. Raises ConfigError, DatabaseLocked, StoreUnavailable.
    """
    from gw.gateway import open_gateway
    from gw.store.configured import may_have_records

    token = settings.auth.admin_token or Secret(secrets.token_urlsafe())
    settings = attrs.evolve(settings, auth=msgspec.structs.replace(settings.auth, admin_token=token))
    opening = open_gateway if learn is None else partial(open_gateway, learn=learn)
    with ExitStack() as stack:
        if read_only and not may_have_records(settings):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gw-"))
            tracking = msgspec.structs.replace(settings.cost_tracking, db_path=Path(folder) / "gw.db")
            settings, read_only = attrs.evolve(settings, cost_tracking=tracking), False
        async with opening(settings, read_only=read_only) as gateway:
            yield InProcessApi(gateway, token, source)
