"""Calls for speech and transcripts by unchanged SDKs: one for each call of a protocol that one of its owner's SDKs can make.

Each takes the gateway's address and a model, and returns the words of the answer: of a transcript, or that a tone voice speaks. It raises
what the SDK raises, or NoAnswer with what the SDK reports in an event.
"""

from __future__ import annotations

import asyncio
import io
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import spoken_text
from tests.contract.asked import SAID
from tests.contract.endpoints import TEXT
from tests.contract.vendor_matrix import NoAnswer

KEY = "any"
VOICE = "own"
RATE_HZ = 16_000
PCM = b"".join(fsk.encode(SAID, RATE_HZ)) + bytes(2 * RATE_HZ)
RECORDING = wav.header(PCM_16K, len(PCM)) + PCM
ANSWER_S = 120.0
SdkCall = Callable[[str, str], str]


def _socket(url: str) -> str:
    return url.replace("http", "ws", 1)


def _pieces(size: int = 3_200) -> Iterable[bytes]:
    return (PCM[at : at + size] for at in range(0, len(PCM), size))


def _words(pcm: bytes, rate_hz: int = RATE_HZ) -> str:
    return spoken_text(pcm, rate_hz).rstrip(".")


# ---- openai


def _openai(url: str) -> Any:
    import openai

    return openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0, timeout=ANSWER_S)


def openai_speech(url: str, model: str) -> str:
    with _openai(url) as client:
        spoken = client.audio.speech.create(model=model, voice=VOICE, input=TEXT, response_format="pcm").read()
    return _words(spoken, 24_000)


def openai_speech_events(url: str, model: str) -> str:
    options = {"model": model, "voice": VOICE, "input": TEXT, "response_format": "pcm", "stream_format": "sse"}
    with _openai(url) as client, client.audio.speech.with_streaming_response.create(**options) as response:
        events = [event for event in response.iter_lines() if event.startswith("data:")]
    audio = [json.loads(event.removeprefix("data:")).get("audio", "") for event in events]
    return _words(b"".join(b64decode(part) for part in audio), 24_000)


def openai_transcript(url: str, model: str) -> str:
    with _openai(url) as client:
        return str(client.audio.transcriptions.create(model=model, file=("a.wav", RECORDING)).text)


def openai_transcript_events(url: str, model: str) -> str:
    with _openai(url) as client, client.audio.transcriptions.create(model=model, file=("a.wav", RECORDING), stream=True) as stream:
        return str(list(stream)[-1].text)


def openai_translation(url: str, model: str) -> str:
    with _openai(url) as client:
        return str(client.audio.translations.create(model=model, file=("a.wav", RECORDING)).text)


def openai_live(url: str, model: str) -> str:
    pcm = b"".join(fsk.encode(SAID, 24_000)) + bytes(48_000)
    with _openai(url) as client, client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        connection.session.update(session={"type": "transcription", "audio": {"input": {"transcription": {"model": model}}}})
        for at in range(0, len(pcm), 4_800):
            connection.input_audio_buffer.append(audio=b64encode(pcm[at : at + 4_800]).decode())
        for event in connection:
            if event.type == "error":
                raise NoAnswer(event.error.message)
            if event.type.endswith("transcription.completed"):
                return str(event.transcript)
            if event.type.endswith("transcription.failed"):
                raise NoAnswer(event.error.message)
    raise NoAnswer("the session ended without a transcript")


# ---- deepgram


def _deepgram(url: str) -> Any:
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    names = DeepgramClientEnvironment.__init__.__code__.co_varnames
    where = {"base": url, "production": _socket(url), "agent": _socket(url), "agent_rest": url}
    return DeepgramClient(api_key=KEY, environment=DeepgramClientEnvironment(**{name: where[name] for name in names if name in where}))


def deepgram_recording(url: str, model: str) -> str:
    answer = _deepgram(url).listen.v1.media.transcribe_file(request=RECORDING, model=model)
    return str(answer.results.channels[0].alternatives[0].transcript)


def _listened(connection: Any, text_of: Callable[[Any], str]) -> str:
    """Send the recording, and return the words of the results until the server closes."""
    from deepgram.core.events import EventType

    events: list[Any] = []
    connection.on(EventType.MESSAGE, events.append)
    thread = threading.Thread(target=connection.start_listening)
    thread.start()
    for piece in _pieces():
        connection.send_media(piece)
    connection.send_close_stream()
    thread.join(ANSWER_S)
    if thread.is_alive():
        raise TimeoutError
    faults = [event for event in events if event.type in ("Error", "FatalError")]
    if faults:
        raise NoAnswer(str(faults))
    return " ".join(text for event in events if (text := text_of(event)))


def deepgram_live(url: str, model: str) -> str:
    with _deepgram(url).listen.v1.connect(model=model, encoding="linear16", sample_rate=RATE_HZ) as connection:
        return _listened(
            connection, lambda event: event.channel.alternatives[0].transcript if event.type == "Results" and event.is_final else ""
        )


def deepgram_turns(url: str, model: str) -> str:
    with _deepgram(url).listen.v2.connect(model=model, encoding="linear16", sample_rate=RATE_HZ) as connection:
        return _listened(
            connection, lambda event: event.transcript if event.type == "TurnInfo" and event.event == "EndOfTurn" else ""
        )


def _generated(version: Any, model: str) -> str:
    pieces = version.audio.generate(text=TEXT, model=model, encoding="linear16", container="none", sample_rate=RATE_HZ)
    return _words(b"".join(pieces))


def deepgram_speech(url: str, model: str) -> str:
    return _generated(_deepgram(url).speak.v1, model)


def deepgram_speech_2(url: str, model: str) -> str:
    return _generated(_deepgram(url).speak.v2, model)


def _flushed(connection: Any) -> str:
    """Return the words that were spoken until the server has flushed."""
    pcm = b""
    for message in connection:
        if isinstance(message, bytes):
            pcm += message
        elif message.type in ("Error", "FatalError"):
            raise NoAnswer(str(message))
        elif message.type == "Flushed":
            return _words(pcm)
    raise NoAnswer("the session ended before it had spoken")


def deepgram_live_speech(url: str, model: str) -> str:
    from deepgram.speak.v1.types import SpeakV1Text

    with _deepgram(url).speak.v1.connect(model=model, encoding="linear16", sample_rate=RATE_HZ) as connection:
        connection.send_text(SpeakV1Text(text=TEXT + ". "))
        connection.send_flush()
        return _flushed(connection)


def deepgram_live_speech_2(url: str, model: str) -> str:
    from deepgram.speak.v2.types import SpeakV2Speak

    with _deepgram(url).speak.v2.connect(model=model, encoding="linear16", sample_rate=RATE_HZ) as connection:
        connection.send_speak(SpeakV2Speak(text=TEXT + ". "))
        connection.send_flush()
        return _flushed(connection)


# ---- assemblyai


def assemblyai_recording(url: str, model: str) -> str:
    import assemblyai

    client = assemblyai.Client(settings=assemblyai.Settings(api_key=KEY, base_url=url, polling_interval=0.1))
    config = assemblyai.TranscriptionConfig(speech_models=[model])
    transcript = assemblyai.Transcriber(client=client, config=config).transcribe(io.BytesIO(RECORDING))
    if transcript.error is not None:
        raise NoAnswer(transcript.error)
    return str(transcript.text)


ASSEMBLYAI_NAMES = (
    "universal-streaming-english", "u3-rt-pro", "u3-rt-pro-beta-1", "whisper-rt", "universal-3-5-pro", "universal-3-6", "universal-3-6-pro",
    "u3-pro",
)  # fmt: skip
"""Models that the SDK takes for a live session; it refuses all other names itself, so that another vendor's model goes by one of these."""


def assemblyai_live(url: str, model: str) -> str:
    from assemblyai.streaming.v3 import StreamingClient, StreamingClientOptions, StreamingEvents, StreamingParameters

    turns: list[Any] = []
    faults: list[Any] = []
    ended = threading.Event()
    client = StreamingClient(StreamingClientOptions(api_key=KEY, api_host=_socket(url)))
    client.on(StreamingEvents.Turn, lambda _, event: turns.append(event))
    client.on(StreamingEvents.Error, lambda _, event: (faults.append(event), ended.set()))
    client.on(StreamingEvents.Termination, lambda _, event: ended.set())
    client.connect(StreamingParameters(sample_rate=RATE_HZ, format_turns=False, speech_model=model))
    client.stream(_pieces())
    client.disconnect(terminate=True)
    if not ended.wait(ANSWER_S):
        raise TimeoutError
    if faults:
        raise NoAnswer(str(faults[0]))
    return " ".join(turn.transcript for turn in turns if turn.end_of_turn)


# ---- elevenlabs


def _elevenlabs(url: str) -> Any:
    from elevenlabs.client import ElevenLabs

    return ElevenLabs(api_key=KEY, base_url=url)


def _spoken_by_elevenlabs(url: str, model: str, method: str) -> Any:
    speak = getattr(_elevenlabs(url).text_to_speech, method)
    return speak(voice_id=VOICE, text=TEXT, model_id=model, output_format="pcm_16000")


def elevenlabs_speech(url: str, model: str) -> str:
    return _words(b"".join(_spoken_by_elevenlabs(url, model, "convert")))


def elevenlabs_stream(url: str, model: str) -> str:
    return _words(b"".join(_spoken_by_elevenlabs(url, model, "stream")))


def elevenlabs_timed(url: str, model: str) -> str:
    return _words(b64decode(_spoken_by_elevenlabs(url, model, "convert_with_timestamps").audio_base_64))


def elevenlabs_timed_stream(url: str, model: str) -> str:
    lines = _spoken_by_elevenlabs(url, model, "stream_with_timestamps")
    return _words(b"".join(b64decode(line.audio_base_64) for line in lines))


def elevenlabs_live_speech(url: str, model: str) -> str:
    realtime = _elevenlabs(url).text_to_speech
    realtime._ws_base_url = _socket(url)  # it insists on wss
    words = (word + " " for word in f"{TEXT}.".split())
    return _words(b"".join(realtime.convert_realtime(voice_id=VOICE, text=words, model_id=model, output_format="pcm_16000")))


def elevenlabs_recording(url: str, model: str) -> str:
    return str(_elevenlabs(url).speech_to_text.convert(model_id=model, file=io.BytesIO(RECORDING)).text)


def elevenlabs_live(url: str, model: str) -> str:
    from elevenlabs.realtime.connection import RealtimeEvents
    from elevenlabs.realtime.scribe import AudioFormat, CommitStrategy

    async def listen() -> str:
        options: Any = {
            "model_id": model, "audio_format": AudioFormat.PCM_16000, "sample_rate": RATE_HZ, "commit_strategy": CommitStrategy.MANUAL,
        }  # fmt: skip
        connection = await _elevenlabs(url).speech_to_text.realtime.connect(options)
        answers: asyncio.Queue[Any] = asyncio.Queue()
        connection.on(RealtimeEvents.COMMITTED_TRANSCRIPT, answers.put_nowait)
        connection.on(RealtimeEvents.ERROR, answers.put_nowait)
        connection.on(RealtimeEvents.CLOSE, lambda *_: answers.put_nowait({"error": "closed"}))
        for piece in _pieces():
            await connection.send({"audio_base_64": b64encode(piece).decode()})
        await connection.commit()
        answer = await answers.get()
        await connection.close()
        if "text" not in answer:
            raise NoAnswer(str(answer))
        return str(answer["text"])

    return asyncio.run(asyncio.wait_for(listen(), ANSWER_S))


# ---- cartesia

_RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE_HZ}
_VOICE = {"mode": "id", "id": VOICE}


def _cartesia(url: str) -> Any:
    import cartesia

    return cartesia.Cartesia(api_key=KEY, base_url=url, websocket_base_url=_socket(url), max_retries=0)


def _check(events: Iterable[Any]) -> None:
    """Raise NoAnswer if one of the events is an error."""
    for event in events:
        if event.type == "error":
            raise NoAnswer(str(event))


def cartesia_speech(url: str, model: str) -> str:
    with _cartesia(url) as client:
        return _words(client.tts.generate(model_id=model, transcript=TEXT, voice=_VOICE, output_format=_RAW).read())


def cartesia_events(url: str, model: str) -> str:
    with _cartesia(url) as client:
        events = list(client.tts.generate_sse(model_id=model, transcript=TEXT, voice=_VOICE, output_format=_RAW))
    return _words(b"".join(event.audio or b"" for event in events if event.type == "chunk"))


def cartesia_live_speech(url: str, model: str) -> str:
    with _cartesia(url) as client, client.tts.websocket_connect() as connection:
        context = connection.context(model_id=model, voice=_VOICE, output_format=_RAW)
        context.push(TEXT + ". ")
        context.no_more_inputs()
        events = list(context.receive())
    _check(events)
    return _words(b"".join(event.audio or b"" for event in events if event.type == "chunk"))


def cartesia_recording(url: str, model: str) -> str:
    with _cartesia(url) as client:
        return str(client.stt.transcribe(file=("a.wav", RECORDING, "audio/wav"), model=model).text)


def cartesia_live(url: str, model: str) -> str:
    options = {"model": model, "encoding": "pcm_s16le", "sample_rate": RATE_HZ}
    with _cartesia(url) as client, client.stt.manual_finalize.websocket(**options) as connection:
        for piece in _pieces():
            connection.send_raw(piece)
        connection.send_raw("finalize")
        connection.send_raw("close")
        events = list(connection)
    _check(events)
    return "".join(event.text for event in events if event.type == "transcript" and event.is_final).strip()


def cartesia_turns(url: str, model: str) -> str:
    options = {"model": model, "encoding": "pcm_s16le", "sample_rate": RATE_HZ}
    with _cartesia(url) as client, client.stt.auto_finalize.websocket(**options) as connection:
        for piece in _pieces():
            connection.send_raw(piece)
        connection.send({"type": "close"})
        events = list(connection)
    _check(events)
    return " ".join(event.transcript for event in events if event.type == "turn.end").strip()


# ---- LiveKit's inference service and the plugin that speaks over ElevenLabs' socket for several contexts


def _with_http(use: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            return await use(http)

    return asyncio.run(asyncio.wait_for(run(), ANSWER_S))


def livekit_live(url: str, model: str) -> str:
    from livekit import rtc
    from livekit.agents import APIConnectOptions, inference, stt

    async def listen(http: Any) -> str:
        ears = inference.STT(
            model=model, language="en", sample_rate=RATE_HZ, http_session=http, base_url=url + "/livekit/v1", api_key=KEY, api_secret=KEY,
            conn_options=APIConnectOptions(max_retry=0),
        )  # fmt: skip
        async with ears.stream() as stream:
            for piece in _pieces(1_600):
                stream.push_frame(rtc.AudioFrame(piece, RATE_HZ, 1, len(piece) // 2))
            stream.end_input()
            events = [event async for event in stream]
        await ears.aclose()
        return " ".join(event.alternatives[0].text for event in events if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT)

    return str(_with_http(listen))


async def _said_by(voice: Any) -> str:
    pcm = b""
    async with voice.stream() as speech:
        speech.push_text(TEXT + ". ")
        speech.end_input()
        async for event in speech:
            pcm += bytes(event.frame.data)
    await voice.aclose()
    return _words(pcm, 24_000)


def livekit_speech(url: str, model: str) -> str:
    from livekit.agents import APIConnectOptions, inference

    async def speak(http: Any) -> str:
        return await _said_by(
            inference.TTS(
                model=model, voice=VOICE, sample_rate=24_000, http_session=http, base_url=url + "/livekit/v1", api_key=KEY, api_secret=KEY,
                conn_options=APIConnectOptions(max_retry=0),
            )
        )  # fmt: skip

    return str(_with_http(speak))


def elevenlabs_contexts(url: str, model: str) -> str:
    from livekit.plugins import elevenlabs

    async def speak(http: Any) -> str:
        return await _said_by(
            elevenlabs.TTS(model=model, voice_id=VOICE, encoding="pcm_24000", api_key=KEY, base_url=url + "/v1", http_session=http)
        )

    return str(_with_http(speak))


SDK_CALLS: Mapping[tuple[str, str], SdkCall] = {
    ("openai", "POST /v1/audio/speech"): openai_speech,
    ("openai", "POST /v1/audio/speech, as events"): openai_speech_events,
    ("openai", "POST /v1/audio/transcriptions"): openai_transcript,
    ("openai", "POST /v1/audio/transcriptions, as events"): openai_transcript_events,
    ("openai", "POST /v1/audio/translations"): openai_translation,
    ("openai", "WS /v1/realtime"): openai_live,
    ("deepgram", "POST /v1/listen"): deepgram_recording,
    ("deepgram", "WS /v1/listen"): deepgram_live,
    ("deepgram", "WS /v2/listen"): deepgram_turns,
    ("deepgram", "POST /v1/speak"): deepgram_speech,
    ("deepgram", "POST /v2/speak"): deepgram_speech_2,
    ("deepgram", "WS /v1/speak"): deepgram_live_speech,
    ("deepgram", "WS /v2/speak"): deepgram_live_speech_2,
    ("assemblyai", "POST /v2/upload, /v2/transcript"): assemblyai_recording,
    ("assemblyai", "WS /v3/ws"): assemblyai_live,
    ("elevenlabs", "POST /v1/text-to-speech/{voice}"): elevenlabs_speech,
    ("elevenlabs", "POST /v1/text-to-speech/{voice}/stream"): elevenlabs_stream,
    ("elevenlabs", "POST /v1/text-to-speech/{voice}/with-timestamps"): elevenlabs_timed,
    ("elevenlabs", "POST /v1/text-to-speech/{voice}/stream/with-timestamps"): elevenlabs_timed_stream,
    ("elevenlabs", "WS /v1/text-to-speech/{voice}/stream-input"): elevenlabs_live_speech,
    ("elevenlabs", "WS /v1/text-to-speech/{voice}/multi-stream-input"): elevenlabs_contexts,
    ("elevenlabs", "POST /v1/speech-to-text"): elevenlabs_recording,
    ("elevenlabs", "WS /v1/speech-to-text/realtime"): elevenlabs_live,
    ("cartesia", "POST /tts/bytes"): cartesia_speech,
    ("cartesia", "POST /tts/sse"): cartesia_events,
    ("cartesia", "WS /tts/websocket"): cartesia_live_speech,
    ("cartesia", "POST /stt"): cartesia_recording,
    ("cartesia", "WS /stt/websocket"): cartesia_live,
    ("cartesia", "WS /stt/turns/websocket"): cartesia_turns,
    ("livekit", "WS /livekit/v1/stt"): livekit_live,
    ("livekit", "WS /livekit/v1/tts"): livekit_speech,
}  # fmt: skip
"""Protocol and call, as docs/matrix.md names them → the call by an SDK."""
