"""Send the ids of the session and of its turns with each request of a LiveKit agent, so that gw joins a turn's requests by ids alone.

    ids = TurnIds(ctx.job.id)   # in the entrypoint; any text that no other call has
    gateway = {"base_url": "http://127.0.0.1:8080/v1", "api_key": "your gateway key"}
    session = AgentSession(
        stt=deepgram.STT(base_url="http://127.0.0.1:8080/v1/listen", api_key="...", http_session=ids.http_session()),
        llm=openai.LLM(model="...", client=ids.openai(**gateway)),
        tts=cartesia.TTS(base_url="http://127.0.0.1:8080", api_key="...", http_session=ids.http_session()),
    )
    ctx.add_shutdown_callback(ids.aclose)

`openai.STT` and `openai.TTS` take `client=` as well, and every plugin that has `http_session=` takes that. A turn is a reply of the agent
(a `SpeechHandle`): the request to the language model, those that follow the results of tools, and its speech have the same turn id. A
WebSocket lives longer than a turn, and a transcript comes before it: these have the session's id, in which gw finds their turn by words.
"""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import aiohttp
import openai
from livekit.agents.voice.agent_activity import _SpeechHandleContextVar  # the reply in whose tasks a request is made

SESSION, TURN = "X-GW-Session", "X-GW-Turn"


class TurnIds:
    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id or uuid.uuid4().hex
        self._sessions: list[aiohttp.ClientSession] = []

    def headers(self) -> dict[str, str]:
        """Return the ids of a request that is made now."""
        reply = _SpeechHandleContextVar.get(None)
        return {SESSION: self.session_id} | ({} if reply is None else {TURN: f"{self.session_id}-{reply.id}"})

    def openai(self, **options: Any) -> openai.AsyncOpenAI:
        """Return a client for the plugins of OpenAI's protocol. LiveKit itself sends failed requests again."""

        async def add_ids(request: Any) -> None:
            request.headers.update(self.headers())

        http_client = openai.DefaultAsyncHttpxClient(event_hooks={"request": [add_ids]})
        return openai.AsyncOpenAI(http_client=http_client, **{"max_retries": 0} | options)

    def http_session(self) -> aiohttp.ClientSession:
        """Return the HTTP session for the other plugins."""

        async def add_ids(_: aiohttp.ClientSession, __: SimpleNamespace, request: aiohttp.TraceRequestStartParams) -> None:
            request.headers.update({SESSION: self.session_id} if "Upgrade" in request.headers else self.headers())

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(add_ids)
        self._sessions.append(aiohttp.ClientSession(trace_configs=[trace]))
        return self._sessions[-1]

    async def aclose(self) -> None:
        """Close the HTTP sessions."""
        for session in self._sessions:
            await session.close()
