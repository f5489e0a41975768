"""Send the ids of the session and of its turns with each request of a Pipecat pipeline, so that gw joins a turn's requests by ids alone.

    ids = TurnIds(call_id)   # any text that no other call has
    stt = ids.of(DeepgramSTTService)(base_url="ws://127.0.0.1:8080", api_key="your gateway key", ...)
    llm = ids.of(OpenAILLMService)(base_url="http://127.0.0.1:8080/v1", api_key="your gateway key", ...)
    tts = ids.of(ElevenLabsTTSService)(url="ws://127.0.0.1:8080", api_key="your gateway key", ...)

Services of OpenAI's protocol (LLM, STT, TTS), Deepgram's STT, and every service with a WebSocket of Pipecat's own (`WebsocketService`)
send the ids. A turn is an answer of the language model: the request for it, those that follow the results of functions, and its speech over
HTTP have the same turn id. A WebSocket lives longer than a turn, and a transcript comes before it: these have the session's id, in which gw
finds their turn by words.
"""

from __future__ import annotations

import inspect
import uuid
from typing import Any

import openai
from pipecat.frames.frames import Frame, LLMContextFrame, LLMFullResponseStartFrame, TTSSpeakFrame
from pipecat.processors.frame_processor import FrameDirection

SESSION, TURN = "X-GW-Session", "X-GW-Turn"


class TurnIds:
    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id or uuid.uuid4().hex

    def of(self, service: type[Any]) -> type[Any]:
        """Return the service's class with the ids in its requests."""
        return type(service.__name__, (_WithIds, service), {"session_id": self.session_id})


class _WithIds:
    """Comes before the class of a service. An answer carries its turn id to the voice, in `LLMFullResponseStartFrame.metadata`."""

    session_id: str
    turn_id: str | None = None

    def __init__(self, **options: Any) -> None:
        if any("http_client" in inspect.signature(kind.__init__).parameters for kind in type(self).__mro__):
            options.setdefault("http_client", self._http_client())
        super().__init__(**options)

    def _http_client(self) -> openai.DefaultAsyncHttpxClient:
        async def add_ids(request: Any) -> None:
            request.headers.update({SESSION: self.session_id} | ({TURN: self.turn_id} if self.turn_id else {}))

        return openai.DefaultAsyncHttpxClient(event_hooks={"request": [add_ids]})

    def create_client(self, *args: Any, **options: Any) -> Any:
        """Return the client of a language model of OpenAI's protocol."""
        return super().create_client(*args, **options).with_options(http_client=self._http_client())

    async def _websocket_connect(self, uri: str, **options: Any) -> Any:
        headers = dict(options.pop("additional_headers", None) or {})
        return await super()._websocket_connect(uri, additional_headers=headers | {SESSION: self.session_id}, **options)

    def _build_connect_kwargs(self) -> dict[str, Any]:
        """Return the settings of a socket of Deepgram's SDK."""
        return super()._build_connect_kwargs() | {"request_options": {"additional_headers": {SESSION: self.session_id}}}

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        before = self.turn_id
        if isinstance(frame, LLMContextFrame) and frame.context.messages[-1].get("role") != "tool":
            self.turn_id = f"{self.session_id}-{frame.id}"
        elif isinstance(frame, LLMFullResponseStartFrame):
            self.turn_id = frame.metadata.get(TURN)
        elif isinstance(frame, TTSSpeakFrame):  # a text that stands in the app
            self.turn_id = f"{self.session_id}-{frame.id}"
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSSpeakFrame):
            self.turn_id = before

    async def push_frame(self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM) -> None:
        if isinstance(frame, LLMFullResponseStartFrame):
            frame.metadata.setdefault(TURN, self.turn_id)
        await super().push_frame(frame, direction)
