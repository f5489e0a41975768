"""The control plane as the tools ask it: inside this process, or over HTTP where another process holds the database.

Both speak the HTTP API, so that a tool does what the API does: the same checks, the same errors, the same audit log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode

import trio

from gw.errors import ProviderError
from gw.net.http_client import client
from gw.types.asgi import ASGIApp, Message, Scope
from gw.types.secret import Secret

SOURCE = "x-gw-source"
"""Says through which face a change came, for the audit log."""
ANSWER_BYTES = 16 * 2**20


class Api(Protocol):
    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, object] | None
    ) -> tuple[int, Any]:
        """Status and decoded JSON; what is no JSON comes as text."""
        ...


def path_with(template: str, values: Mapping[str, str]) -> str:
    """`/v1/models/{model_id}` with its parameter filled in, every character that could mean something escaped."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template


class Inside:
    """The control plane of this process."""

    def __init__(self, app: ASGIApp, admin_token: Secret) -> None:
        self._app = app
        self._headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (SOURCE.encode(), b"mcp")]
        if admin_token:
            self._headers.append((b"authorization", b"Bearer " + admin_token.reveal().encode()))

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, object] | None
    ) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        status = 0
        parts: list[bytes] = []
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if asked:
                await trio.sleep_forever()  # nobody leaves before the answer; the app cancels this at its end
            asked = True
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._app(self._scope(method, path, query, len(content)), receive, send)
        return status, _decoded(b"".join(parts))

    def _scope(self, method: str, path: str, query: Mapping[str, str], length: int) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.5"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": urlencode(query).encode("ascii"),
            "root_path": "",
            "headers": [*self._headers, (b"content-length", b"%d" % length)],
            "client": ("127.0.0.1", 0),
            "server": ("localhost", 0),
            "extensions": {},
        }


class Daemon:
    """The gateway that runs at `url`. Raises ProviderUnreachable when it does not answer."""

    def __init__(self, url: str, admin_token: Secret) -> None:
        self._url = url
        self._token = admin_token

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, object] | None
    ) -> tuple[int, Any]:
        def ask() -> tuple[int, Any]:
            headers = {SOURCE: "mcp", "content-type": "application/json"}
            content = None if body is None else json.dumps(body)
            try:
                with client(self._url, self._token) as http:
                    answer = http.request(method, path, params=dict(query), content=content, headers=headers)
                    return answer.status_code, _decoded(answer.content)
            except ProviderError as error:
                what = {"code": "gateway_unreachable", "message": str(error), "hint": "is `gw serve` running?"}
                return 502, {"error": what}

        return await trio.to_thread.run_sync(ask)


def _decoded(body: bytes) -> Any:
    if len(body) > ANSWER_BYTES:
        return {"error": {"code": "too_large", "message": "the answer is too large; ask for less"}}
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
