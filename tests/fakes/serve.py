"""Host an ASGI app on loopback, for clients that insist on a socket."""

from __future__ import annotations

from typing import Any

import hypercorn.config
import hypercorn.trio
import trio


async def serve_asgi(app: Any, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve `app` on a free port until cancelled; `started` gives `http://127.0.0.1:<port>`."""
    config = hypercorn.config.Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    config.graceful_timeout = 0.1
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(hypercorn.trio.serve, _with_lifespan(app), config)
        task_status.started(binds[0])


def _with_lifespan(app: Any) -> Any:
    """Hypercorn talks to an app before the first request; an app that returns at once makes it fail."""

    async def hosted(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})

    return hosted
