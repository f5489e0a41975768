"""A vendor that speaks Azure Speech's protocols: a plain ASGI app made from the server role of our own codecs.

Statuses: the vendor's page "Text to speech REST API", which has 400 for a parameter that it does not know, such as a voice, and 401 for
a wrong key. Errors of recordings are the JSON that azure-core 1.41.0 reads (`ODataV4Format`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio
from msgspec.structs import asdict

from gw.errors import ClientProtocolError
from gw.types.stt import Final, ListenEnd
from gw.wire import azure_speech_listen, azure_speech_recordings, azure_speech_speak, wav
from gw.wire.azure_speech_listen_server import AzureSpeechListenServer
from gw.wire.live_messages import Audio, Control, DirectReply
from gw.wire.transcripts import segments_of
from tests.fakes.vendors.heard import by_speaker, heard, refused
from tests.fakes.vendors.live import LiveVendor, OpenTurn, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry

_VOICES = b'[{"ShortName":"en-US-AvaMultilingualNeural","Locale":"en-US","SampleRateHertz":"24000","VoiceType":"Neural","Status":"GA"}]'


@attrs.define(kw_only=True)
class FakeAzureSpeech(LiveVendor):
    locale: str = "en-US"
    """The language that it detects."""
    endpoint_s: float = 0.0
    """Silence for which the end of a phrase waits whose last words have come; 0: it does not wait."""
    answered: AzureSpeechListenServer | None = None
    """Server of the socket opened last, for the error of a session."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        """Return the paths as they are at the host of a service, and at a resource with a name of its own."""
        return {
            (method, prefix + path.partition("?")[0]): handler
            for prefix in ("", "/tts")
            for method, path, handler in (
                ("POST", azure_speech_speak.PATH, self._speak), ("GET", azure_speech_speak.VOICES_PATH, self._voices),
                ("POST", azure_speech_recordings.PATH, self._transcribe),
            )
        }  # fmt: skip

    def sockets(self) -> Mapping[str, Session]:
        return {prefix + azure_speech_listen.PATH: self._listen for prefix in ("", "/stt")}

    def socket_error_frame(self) -> str:
        assert self.answered is not None
        return self.answered.error("Error")

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("ocp-apim-subscription-key", "")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return azure_speech_recordings.error_body(status, code, message)

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(_VOICES, "application/json")

    async def _speak(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if entry.headers.get("content-type") != "application/ssml+xml" or not entry.headers.get("user-agent"):
            await answer.error(415, "", "", b"")
            return
        request = azure_speech_speak.parse(entry.headers.get(azure_speech_speak.FORMAT_HEADER, ""), body)
        entry.fields = {"voice": request.voice, "text": request.text, "language": request.language, "speed": request.speed}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(400, "", "", b"")
            return
        await trio.sleep(self.first_token_after_s)
        await answer.start("audio/mpeg" if request.format.encoding == "mp3" else "audio/basic")
        await self.answer_speech(answer, [] if self.empty else list(self.recorded(request.text, request.format)))
        await answer.end()

    async def _transcribe(self, entry: Entry, body: bytes, answer: Answer) -> None:
        fields, entry.audio = form_of(entry, body)
        settings = azure_speech_recordings.parse_definition(fields["definition"])
        entry.fields = asdict(settings)
        if b'name="audio"' not in body:
            raise refused("The audio is missing", "audio")
        await trio.sleep(self.first_token_after_s)
        info = wav.parse(entry.audio)
        length_s = info.format.seconds(len(entry.audio) - info.data_offset) if info is not None else 1.0
        diarized = settings.diarization is not None and settings.diarization.enabled
        result = heard(self.words_of(entry.audio), length_s, speakers=("1", "2") if diarized else ())
        segments = by_speaker(result).segments if diarized else segments_of(result)
        locale = settings.locales[0] if settings.locales else self.locale
        encoded = azure_speech_recordings.encode(result, segments, locale)
        await answer.send_complete(b'{"phrases":' if self.malformed else encoded, "application/json")

    async def _listen(self, peer: Peer) -> None:
        """Hear turns of one socket, which the client ends with audio that is empty."""
        server = self.answered = AzureSpeechListenServer(peer.query)
        listener: OpenTurn | TurnListener | None = None
        while (frame := await peer.receive()) is not None:
            try:
                messages = server.receive(frame)
            except ClientProtocolError as error:
                peer.entry.outcome = "cut"
                await peer.close(1007, error.what)
                return
            if listener is None and server.request is not None:
                peer.entry.fields |= {"language": server.request.language, "terms": list(server.request.keyterms)}
                made = self.make_listener(server.request.format)
                listener = TurnListener(made, self.endpoint_s) if self.endpoint_s else OpenTurn(made)
            for message in messages:
                if isinstance(message, DirectReply):
                    await peer.send(message.frame)
                elif isinstance(message, Audio) and listener is not None:
                    peer.entry.audio += message.data
                    await peer.send(*server.encode(peer.heard(listener.feed(message.data))))
                elif message is Control.FINISH and listener is not None:
                    peer.entry.outcome = "ended"
                    finals = [event for event in listener.end() if isinstance(event, Final)]
                    await peer.send(*server.encode([*peer.heard(finals), ListenEnd()]))
