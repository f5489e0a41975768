"""A request to transcribe a recording, which may still arrive, or be fetched from an address.

Times, deadlines and prices count from the moment when all of a recording was received; until then a vendor waits for our
caller, and no fault of it says anything of its health.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from gw.errors import ProviderError, ProviderUnreachable, UpstreamCut, UpstreamSlow
from gw.providers.spec import Account, ProviderSpec, TranscribeStream
from gw.registry.catalog import Model
from gw.relay import usage_counters
from gw.relay.attempts import AttemptScope, OpenAttempt, Overtaken
from gw.relay.candidates import offered
from gw.relay.prepared_call import OpenCall, PreparedCall
from gw.relay.recording_fetch import fetched, fetches
from gw.relay.request import AnsweredRequest
from gw.relay.request_spec import RequestSpec
from gw.relay.response import UsageCounter
from gw.types.ids import Caller
from gw.types.stt import TranscribeEvent, TranscribeRequest


def transcription_spec(request: TranscribeRequest) -> RequestSpec:
    estimate = usage_counters.estimate_transcribe(request)
    return RequestSpec(
        modality="stt", requested=request.model, stream=request.stream, estimate=estimate, call="transcribe", settings=request
    )


class AnsweredTranscription(AnsweredRequest[TranscribeRequest, TranscribeStream, TranscribeEvent]):
    """A request to transcribe. A recording at an address is fetched before the first candidate that does not do so itself."""

    __slots__ = ()

    def plan(self, caller: Caller) -> None:
        super().plan(caller)
        if (call_when_received := self._request.call_when_received) is not None:
            call_when_received(self._received)

    @property
    def _arrives(self) -> bool:
        return self._request.call_when_received is not None

    def is_hedged(self) -> bool:
        return not self._request.url and not self._arrives and super().is_hedged()

    def first_event_due(self, now: float) -> float:
        return math.inf if self._arrives else super().first_event_due(now)

    def fault_of_vendor(self, error: ProviderError | None) -> ProviderError | None:
        lost = isinstance(error, (UpstreamCut, UpstreamSlow)) or (isinstance(error, ProviderUnreachable) and error.cause == "lost")
        return None if self._arrives and lost else error

    def _received(self, request: TranscribeRequest, /, *, as_expected: bool) -> None:
        """Take the complete request. The candidate that is being sent another one than that is left, and called again."""
        self._request = request
        if self._response is not None:  # the vendor did not wait for all of it
            return
        now = trio.current_time()
        self.meter.begin_now(now, usage_counters.estimate_transcribe(request))
        if not as_expected:
            self.spec = transcription_spec(request)
        if isinstance(self._open, AttemptScope):
            if as_expected:
                self._open.await_first_event(now)
            else:
                self._open.overtake()

    def _end(self, raised: BaseException | None) -> None:
        if self._arrives and self._response is None:
            for attempt in self.meter.attempts:  # no vendor bills a form or body that breaks off
                attempt.called = False
        super()._end(raised)

    def _try(self, model: Model) -> Awaitable[OpenAttempt[TranscribeStream, TranscribeEvent]]:
        fetch = self._request.fetch
        if self._arrives:
            return self._try_arriving(model)
        if fetch is None or fetches(self.candidates.catalog, model, self._request.dialect):
            return super()._try(model)
        return self._try_fetched(model, fetch)

    async def _try_arriving(self, model: Model) -> OpenAttempt[TranscribeStream, TranscribeEvent]:
        try:
            return await super()._try(model)
        except Overtaken:  # the form did not end where its file was expected to end
            self.meter.attempts[-1].called = False
        except ProviderError:
            if self._arrives:
                self.meter.attempts[-1].called = False
            raise
        return await super()._try(model)

    async def _try_fetched(
        self, model: Model, fetch: Callable[[], Awaitable[TranscribeRequest]]
    ) -> OpenAttempt[TranscribeStream, TranscribeEvent]:
        self._request = await fetched(fetch, model, is_first=not self.meter.attempts)
        self.meter.estimate = usage_counters.estimate_transcribe(self._request)
        return await super()._try(model)

    def first_content(self, stream: TranscribeStream, provider: str) -> Awaitable[list[TranscribeEvent]]:
        return stream.receive()

    def call_for(self, spec: ProviderSpec, account: Account, model: Model) -> OpenCall[TranscribeStream]:
        call, request = offered(spec.transcribe, account), self._request
        language = request.language or model.default_language
        sent = request if language == request.language else attrs.evolve(request, language=language)
        if self.meter.capture is not None and not request.url:
            sent = attrs.evolve(sent, audio=self.meter.capture.recording(request.audio, request.format))
        if self.meter.shadow is not None:
            sent = self.meter.shadow.copied(sent)
        return partial(call, sent, account)

    def prepare(self, model: Model, now: float) -> PreparedCall[TranscribeStream]:
        return self.note_billed_options(super().prepare(model, now), self._request, self.meter.attempts[-1])

    def counter_for(self, opened: OpenAttempt[TranscribeStream, TranscribeEvent]) -> UsageCounter[TranscribeEvent]:
        return usage_counters.TranscribeCounter(self._request, opened.call.spec.rounds_audio_up_to_s, self._on_text)

    def _on_text(self, text: str) -> None:
        self._turns.transcript(self.meter.place, text, self.meter.now())
        if self.meter.shadow is not None:
            self.meter.shadow.text(text)
