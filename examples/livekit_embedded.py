"""Run a LiveKit agent on a gateway inside its own process: no server, the same fallbacks, limits, budgets and records.

    async with gw.asyncio.open_gateway("gw.yaml") as g:
        session = AgentSession(stt=GatewaySTT(g.stt()), llm=GatewayLLM(g.llm()), tts=GatewayTTS(g.tts()))

A LiveKit agent runs each job in a process, and one database has one writer: give each job's gateway a `cost_tracking.db_path` of its own,
or let the processes share PostgreSQL. With jobs in threads (`JobExecutorType.THREAD`), open one gateway and use it from all of them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from livekit import rtc
from livekit.agents import APIConnectionError, llm, stt, tts, utils
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS

import gw.asyncio
from gw.errors import GwError
from gw.types.stt import Final, Interim

LISTEN_HZ, SPEAK_HZ = 16_000, 24_000


class GatewayLLM(llm.LLM):
    def __init__(self, model: gw.asyncio.AsyncioLlm) -> None:
        super().__init__()
        self.gateway_model = model

    def chat(self, *, chat_ctx: Any, tools: Any = None, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS, **_: Any) -> llm.LLMStream:
        return _Chat(self, chat_ctx=chat_ctx, tools=tools or [], conn_options=conn_options)


class _Chat(llm.LLMStream):
    async def _run(self) -> None:
        messages, _ = self._chat_ctx.to_provider_format("openai")
        tools = llm.ToolContext(self._tools).parse_function_tools("openai")
        fields = {"tools": tools} if tools else {}
        request_id = utils.shortuuid()
        try:
            async with self._llm.gateway_model.chat(messages, **fields) as reply:
                async for text in reply:
                    self._send(request_id, llm.ChoiceDelta(role="assistant", content=text))
        except GwError as error:
            raise APIConnectionError(error.message, retryable=False) from error
        calls = [llm.FunctionToolCall(call_id=call.id, name=call.name, arguments=call.arguments) for call in reply.tool_calls]
        if calls:
            self._send(request_id, llm.ChoiceDelta(role="assistant", tool_calls=calls))

    def _send(self, request_id: str, delta: llm.ChoiceDelta) -> None:
        self._event_ch.send_nowait(llm.ChatChunk(id=request_id, delta=delta))


class GatewaySTT(stt.STT):
    def __init__(self, model: gw.asyncio.AsyncioStt) -> None:
        super().__init__(capabilities=stt.STTCapabilities(streaming=True, interim_results=True))
        self.gateway_model = model

    async def _recognize_impl(self, buffer: Any, **_: Any) -> stt.SpeechEvent:
        transcript = await self.gateway_model.transcribe(rtc.combine_audio_frames(buffer).to_wav_bytes())
        return _event(stt.SpeechEventType.FINAL_TRANSCRIPT, transcript.text, transcript.language)

    def stream(self, *, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS, **_: Any) -> stt.RecognizeStream:
        return _Listen(stt=self, conn_options=conn_options, sample_rate=LISTEN_HZ)


class _Listen(stt.RecognizeStream):
    async def _run(self) -> None:
        try:
            async with self._stt.gateway_model.stream(sample_rate_hz=LISTEN_HZ) as live, asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(live))
                await self._receive(live)
                sending.cancel()
        except* GwError as errors:
            raise APIConnectionError(errors.exceptions[0].message, retryable=False) from errors

    async def _send(self, live: gw.asyncio.AsyncioTranscription) -> None:
        async for frame in self._input_ch:
            if isinstance(frame, rtc.AudioFrame):
                await live.send(bytes(frame.data))
        await live.finish()

    async def _receive(self, live: gw.asyncio.AsyncioTranscription) -> None:
        speaking = False
        async for event in live:
            if not isinstance(event, (Interim, Final)) or not event.text:
                continue
            if not speaking:
                self._event_ch.send_nowait(stt.SpeechEvent(type=stt.SpeechEventType.START_OF_SPEECH))
            speaking = isinstance(event, Interim)
            kind = stt.SpeechEventType.INTERIM_TRANSCRIPT if speaking else stt.SpeechEventType.FINAL_TRANSCRIPT
            self._event_ch.send_nowait(_event(kind, event.text, event.language))
            if not speaking:
                self._event_ch.send_nowait(stt.SpeechEvent(type=stt.SpeechEventType.END_OF_SPEECH))


def _event(kind: stt.SpeechEventType, text: str, language: str | None) -> stt.SpeechEvent:
    return stt.SpeechEvent(type=kind, alternatives=[stt.SpeechData(language=language or "", text=text)])


class GatewayTTS(tts.TTS):
    def __init__(self, model: gw.asyncio.AsyncioTts, voice: str = "") -> None:
        super().__init__(capabilities=tts.TTSCapabilities(streaming=False), sample_rate=SPEAK_HZ, num_channels=1)
        self.gateway_model = model
        self.voice = voice

    def synthesize(self, text: str, *, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS) -> tts.ChunkedStream:
        return _Speak(tts=self, input_text=text, conn_options=conn_options)


class _Speak(tts.ChunkedStream):
    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        model = self._tts.gateway_model
        output_emitter.initialize(request_id=utils.shortuuid(), sample_rate=SPEAK_HZ, num_channels=1, mime_type="audio/pcm")
        try:
            async with model.speak(self.input_text, voice=self._tts.voice, sample_rate_hz=SPEAK_HZ) as speech:
                async for samples in speech:
                    output_emitter.push(samples)
        except GwError as error:
            raise APIConnectionError(error.message, retryable=False) from error
        output_emitter.flush()
