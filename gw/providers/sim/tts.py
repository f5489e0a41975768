"""Text-to-speech in the tone voice, whole or live."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Literal, TypeAlias

import trio

from gw.providers.sim import fsk, tone_audio
from gw.providers.sim.call import SimCall, SimSession, start_call
from gw.providers.spec import Account, SpeakSession, SpeakStream, rejected
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage

_TEXT_PIECES = 256  # pieces of live text not yet spoken, usually a token each
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")
_MOST_CHARACTERS = fsk.MAX_BYTES // 4  # a text of this length fits into one utterance whatever its characters are


class _Speech:
    """A `SpeakStream`."""

    def __init__(self, text: str, fmt: AudioFormat, call: SimCall) -> None:
        self.format = fmt
        self._text = text
        self._call = call
        self._pieces = tone_audio.spoken(text, fmt)
        self._over = False

    async def receive(self) -> list[SpeakEvent]:
        if self._over:
            raise self._call.past_the_end()
        await self._call.step()
        if (piece := next(self._pieces, None)) is not None:
            return [AudioChunk(data=piece)]
        self._over = True
        seconds = fsk.duration_s(self._text)
        return [SpeakEnd(usage=Usage(characters=len(self._text), audio_seconds=seconds, source="vendor"))]


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """Speak one utterance, a piece of about 40 ms at a time. The stream's `format` may differ from the requested one.

    Every voice sounds the same; speed and instructions are ignored. Rejects the empty text and one of more than 16,383
    characters.
    """
    call = await start_call(account, "tts")
    if not 0 < len(request.text) <= _MOST_CHARACTERS:
        detail = f"the text must have 1 to {_MOST_CHARACTERS} characters, not {len(request.text)}"
        raise rejected(account, detail, fault="caller")
    yield _Speech(request.text, tone_audio.spoken_format(request.format), call)


_Command: TypeAlias = str | Literal[0, 1]
"""Text to add, `_FLUSH` or `_CLEAR`."""
_FLUSH: Literal[0] = 0
_CLEAR: Literal[1] = 1


class _SpeakSession(SimSession[_Command]):
    """A `SpeakSession`.

    Speaks a sentence once it is complete, and the remainder at a flush or the end. Cancelling `receive` loses nothing.
    """

    def __init__(self, fmt: AudioFormat, call: SimCall) -> None:
        super().__init__(call, _TEXT_PIECES)
        self.format = fmt
        self._unspoken = ""
        self._due: deque[Iterator[SpeakEvent]] = deque()
        self._next: SpeakEvent | None = None
        self._characters = 0
        self._seconds = 0.0
        self._over = False

    async def send_text(self, text: str) -> None:
        await self._enqueue(text)

    async def flush(self) -> None:
        await self._enqueue(_FLUSH)

    async def clear(self) -> None:
        self._due.clear()
        self._next = None
        await self._enqueue(_CLEAR)

    async def receive(self) -> list[SpeakEvent]:
        while True:
            while self._next is None:
                if self._due:
                    self._next = next(self._due[0], None)
                    if self._next is None:
                        self._due.popleft()
                elif self._over:
                    raise self._call.past_the_end()
                else:
                    await self._take()
            await self._step()
            event, self._next = self._next, None
            if event is not None:  # else `clear` dropped it during the wait
                return [event]

    async def _take(self) -> None:
        try:
            command = await self._queued.receive()
        except trio.EndOfChannel:
            self._over = True
            self._speak(self._unspoken)
            usage = Usage(characters=self._characters, audio_seconds=self._seconds, source="vendor")
            self._due.append(iter([SpeakEnd(usage=usage)]))
            return
        if isinstance(command, str):
            self._characters += len(command)
            *sentences, self._unspoken = _SENTENCE_END.split(self._unspoken + command)
            for sentence in sentences:
                self._speak(sentence)
            if len(self._unspoken) > _MOST_CHARACTERS:   # a text without sentences must not pile up
                self._speak(self._unspoken)
                self._unspoken = ""
        elif command == _FLUSH:
            self._speak(self._unspoken)
            self._unspoken = ""
            self._due.append(iter([Flushed()]))
        else:
            self._unspoken = ""
            self._due.clear()

    def _speak(self, text: str) -> None:
        text = text.strip()
        for start in range(0, len(text), _MOST_CHARACTERS):
            part = text[start : start + _MOST_CHARACTERS]
            self._seconds += fsk.duration_s(part)
            self._due.append(AudioChunk(data=piece) for piece in tone_audio.spoken(part, self.format))


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """Speak text that comes in pieces, as raw audio; Flushed comes after the audio of all text before the flush."""
    call = await start_call(account, "tts")
    with closing(_SpeakSession(tone_audio.spoken_format(request.format, live=True), call)) as session:
        yield session
