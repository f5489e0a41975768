"""Speech over HTTP, for every dialect: read from a body, or from a stream of events. Not itself a provider."""

from __future__ import annotations

from gw.errors import UpstreamProtocolError
from gw.net.http1 import HttpResponse
from gw.providers.http_call import Decoder, EventStream, is_text
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, VendorBilled
from gw.types.usage import Usage, VendorFigure
from gw.wire import wav

_MOST_ID_CHARACTERS = 100


def headed(requested: AudioFormat, samples: AudioFormat) -> tuple[AudioFormat, bytes]:
    """Return the format of 16-bit samples as a WAV or as raw PCM, as requested, and the header that goes first ("" for PCM)."""
    encoding: Encoding = "wav" if requested.encoding == "wav" else "pcm_s16le"
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=samples.sample_rate_hz, channels=samples.channels)
    return fmt, wav.header(fmt, None) if encoding == "wav" else b""


def said_of(response: HttpResponse, figure_header: bytes, unit: str, id_header: bytes = b"") -> VendorBilled | None:
    """Return what the head of a response says of the speech: the figure that is billed, and the request's id; None for neither."""
    figure = _figure(response, figure_header, unit)
    id_ = (response.header(id_header) or b"").decode("latin-1") if id_header else ""
    if not (id_.isascii() and id_.isprintable() and len(id_) <= _MOST_ID_CHARACTERS):
        id_ = ""
    return VendorBilled(figure=figure, request_id=id_) if figure is not None or id_ else None


def _figure(response: HttpResponse, header: bytes, unit: str) -> VendorFigure | None:
    """Return the figure that a response header has; None where it is missing or no plausible number."""
    value = (response.header(header) or b"").strip()
    whole, _, fraction = value.partition(b".")
    if not (whole.isdigit() and len(value) < 16 and (not fraction or fraction.isdigit())):
        return None
    return VendorFigure(amount=float(value), unit=unit)


class SpeechEvents(EventStream[SpeakEvent]):
    """A `SpeakStream` of an answer that is a stream of events. `said`: what the vendor says of it in the head."""

    def __init__(
        self, response: HttpResponse, provider: str, decoder: Decoder[SpeakEvent], fmt: AudioFormat,
        said: VendorBilled | None = None,
    ) -> None:  # fmt: skip
        super().__init__(response, provider, decoder)
        self.format = fmt
        self._said = said

    async def receive(self) -> list[SpeakEvent]:
        events = await super().receive()
        if self._said is not None:
            events.insert(0, self._said)
            self._said = None
        return events


class SpeechAudio:
    """A `SpeakStream` of an answer that is the audio itself.

    The header of a WAV shows its real rate. `said`: what the vendor says of it in the head; characters that it bills are the usage as
    well. `characters`: those that the vendor bills, where it does not say so and they are not those of the text.
    Raises UpstreamProtocolError, when made, for an answer of text or JSON.
    """

    def __init__(
        self, response: HttpResponse, provider: str, fmt: AudioFormat, said: VendorBilled | None = None,
        characters: int | None = None,
    ) -> None:  # fmt: skip
        if is_text(response):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        self._response = response
        self._provider = provider
        self._said = said
        self._characters = characters
        self._empty = True
        self.format = fmt

    async def receive(self) -> list[SpeakEvent]:
        data = await self._response.receive_some()
        if not data:
            return [SpeakEnd(usage=self._usage())]
        if self._empty and self.format.encoding == "wav" and (info := wav.parse(data)) is not None:
            self.format = info.format
        first, self._empty = self._empty, False
        if first and self._said is not None:
            return [self._said, AudioChunk(data=data)]
        return [AudioChunk(data=data)]

    def _usage(self) -> Usage | None:
        figure = self._said.figure if self._said is not None else None
        if figure is None or figure.unit != "characters":
            return None if self._characters is None else Usage(characters=self._characters, source="measured")
        return Usage(characters=int(figure.amount), source="vendor", vendor_figure=figure)
