"""A vendor that speaks Google Cloud's protocols: a plain ASGI app made from the server roles of our own codecs.

Errors: google.rpc.Status as JSON, which google-api-core 2.44.0 reads (`exceptions.format_http_response_error`). Limits of a recording: the
vendor's page "Quotas and limits"; the message of one that is too long: GoogleCloudPlatform/ios-docs-samples#88. A live call ends after
305 s, or ten without audio: GoogleCloudPlatform/dotnet-docs-samples#882, googleapis/google-cloud-python#11099.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from gw.errors import ClientProtocolError
from gw.types.stt import Final
from gw.wire import google_cloud_listen, google_cloud_listen_server, google_cloud_recordings, google_cloud_speak, wav
from gw.wire.google_cloud_listen_server import GoogleCloudListenServer
from gw.wire.transcripts import segments_of
from tests.fakes.vendors.heard import by_speaker, heard
from tests.fakes.vendors.job_vendor import JobVendor
from tests.fakes.vendors.live import OpenTurn, Peer, Session, TurnListener
from tests.fakes.vendors.scripted import Answer, Entry, json_of

_TOO_LONG = "Sync input too long. For audio longer than 1 min use LongRunningRecognize with a 'uri' parameter."
_VOICES = b'{"voices":[{"languageCodes":["en-US"],"name":"en-US-Chirp3-HD-Charon","ssmlGender":"MALE","naturalSampleRateHertz":24000}]}'


@attrs.define(kw_only=True)
class FakeGoogleCloud(JobVendor):
    project: str = "acme"
    location: str = "global"
    locale: str = "en-US"
    """The language that it detects."""
    audio_within_s: float = 10.0
    call_s: float = 305.0
    """Longest time of a live call."""
    models: tuple[str, ...] = ("long", "telephony", "chirp_2", "chirp_3")

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        recognizer = google_cloud_recordings.recognizer_of(self.project, self.location)
        return {
            ("POST", google_cloud_speak.PATH): self._speak, ("GET", google_cloud_speak.VOICES_PATH): self._voices,
            ("POST", google_cloud_recordings.path_of(recognizer)): self._transcribe,
        }  # fmt: skip

    def sockets(self) -> Mapping[str, Session]:
        return {google_cloud_listen.PATH: self._listen}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-goog-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return google_cloud_speak.error_body(status, code, message)

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(_VOICES, "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = google_cloud_speak.parse(body)
        audio = json_of(body)["audioConfig"]
        entry.fields = {"audioConfig": audio, "voice": request.voice, "text": request.text, "speed": request.speed}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(400, "INVALID_ARGUMENT", f"Voice '{request.voice}' does not exist. Is it misspelled?")
            return
        await trio.sleep(self.first_token_after_s)
        pieces = [] if self.empty else list(self.recorded(request.text, request.format))
        if self.speech_fault == "stalls":
            await answer.start("application/json")
            await answer.flush()
            await trio.sleep_forever()
        if self.speech_fault:
            pieces = pieces[: 0 if self.speech_fault == "no audio" else round(len(pieces) * self.speech_share)]
        await trio.sleep(self.speech_gap_s * len(pieces))
        encoded = google_cloud_speak.encode(b"".join(pieces))
        await answer.send_complete(b'{"audioContent":' if self.malformed else encoded, "application/json")

    async def _transcribe(self, entry: Entry, body: bytes, answer: Answer) -> None:
        config, entry.audio = google_cloud_recordings.parse(body)
        features = config.features
        entry.fields = {
            "model": config.model, "languageCodes": config.language_codes, "adaptation": config.terms,
            "profanityFilter": features.profanity_filter, "diarizationConfig": features.diarization_config,
            "enableWordTimeOffsets": features.enable_word_time_offsets, "multiChannelMode": features.multi_channel_mode,
        }  # fmt: skip
        info = wav.parse(entry.audio)
        length_s = info.format.seconds(len(entry.audio) - info.data_offset) if info is not None else 1.0
        too_long = length_s > google_cloud_recordings.LONGEST_S or len(entry.audio) > google_cloud_recordings.MOST_BYTES
        if too_long or config.model not in self.models:
            why = _TOO_LONG if too_long else f'The model "{config.model}" does not exist.'
            await answer.error(400, "INVALID_ARGUMENT", why)
            return
        await trio.sleep(self.first_token_after_s)
        diarized = features.diarization_config is not None
        text = self.words_of(entry.audio)
        result = heard(text, length_s, words=features.enable_word_time_offsets or diarized, speakers=("1", "2") if diarized else ())
        if diarized:
            result = by_speaker(result)
        segments = segments_of(result) or whole(text, length_s)
        locale = self.locale if config.language_codes == ["auto"] else config.language_codes[0]
        encoded = google_cloud_recordings.encode(result, segments, locale, float(math.ceil(length_s)))
        await answer.send_complete(b'{"results":' if self.malformed else encoded, "application/json")

    async def _listen(self, peer: Peer) -> None:
        status, why = 3, ""
        try:
            with trio.move_on_after(self.call_s):
                await self._hear(peer)
                return
            status, why = 11, f"Exceeded maximum allowed stream duration of {self.call_s:.0f} seconds."
        except ClientProtocolError as error:
            why = error.what
        except trio.TooSlowError:
            status, why = 11, "Audio Timeout Error: Long duration elapsed without audio. Audio should be sent close to real time."
        peer.entry.outcome = "cut"
        await peer.close(4_000 + status, why)

    async def _hear(self, peer: Peer) -> None:
        if (first := await peer.receive()) is None:
            return
        settings = google_cloud_listen_server.parse_settings(first)
        peer.entry.fields |= {
            "recognizer": settings.recognizer, "model": settings.model, "language_codes": list(settings.languages),
            "adaptation": list(settings.terms), "profanity_filter": settings.profanity_filter,
            "enable_word_time_offsets": settings.word_times,
        }  # fmt: skip
        if settings.recognizer != google_cloud_recordings.recognizer_of(self.project, self.location):
            raise ClientProtocolError(what="Expected resource location to be this one")
        if settings.model not in self.models:
            raise ClientProtocolError(what=f'The model "{settings.model}" does not exist.')
        request = google_cloud_listen_server.request_of(settings)
        listener = self.make_listener(request.format)
        turns = TurnListener(listener, self.endpoint_s) if self.endpoint_s else OpenTurn(listener)
        await self.hear_turns(peer, GoogleCloudListenServer(settings, self.locale), turns)


def whole(text: str, length_s: float) -> tuple[Final, ...]:
    """Return the one segment of a transcript without times of words; none for silence."""
    return (Final(text=text, start_s=0.0, end_s=length_s),) if text else ()
