"""A real recogniser behind OpenAI's transcription endpoint: PocketSphinx with the English model of its wheel."""

from __future__ import annotations

import io
import json
import threading
import wave
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gw.wire.multipart import Field, FileData, MultipartDecoder, boundary_of

MODEL = "pocketsphinx"
MODEL_RATE_HZ = 16_000


def recognise(wav: bytes) -> str:
    """The words in a mono 16-bit WAV. A decoder of its own for each: they adapt to what they have heard before."""
    from pocketsphinx import Decoder

    with wave.open(io.BytesIO(wav)) as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            raise ValueError("only mono 16-bit WAV")
        pcm = _resampled(file.readframes(file.getnframes()), file.getframerate())
    decoder = Decoder(samprate=MODEL_RATE_HZ, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(pcm, full_utt=True)
    decoder.end_utt()
    best = decoder.hyp()
    return "" if best is None else str(best.hypstr)


def _resampled(pcm: bytes, rate_hz: int) -> bytes:
    """Linear interpolation, good enough for speech that is recorded at 8 kHz or more."""
    if rate_hz == MODEL_RATE_HZ:
        return pcm
    samples = array("h", pcm)
    out = array("h")
    for n in range(len(samples) * MODEL_RATE_HZ // rate_hz):
        whole, part = divmod(n * rate_hz, MODEL_RATE_HZ)
        following = samples[min(whole + 1, len(samples) - 1)]
        out.append(samples[whole] + (following - samples[whole]) * part // MODEL_RATE_HZ)
    return out.tobytes()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/audio/transcriptions":
            return self._answer(404, {"error": {"message": f"no {self.path}"}})
        decoder = MultipartDecoder(boundary_of(self.headers["Content-Type"].encode()))
        parts = decoder.feed(body)
        decoder.end()
        fields = {part.name: part.value for part in parts if isinstance(part, Field)}
        if fields.get("model") != MODEL:
            return self._answer(404, {"error": {"message": "no such model", "code": "model_not_found"}})
        try:
            text = recognise(b"".join(part.data for part in parts if isinstance(part, FileData)))
        except (ValueError, EOFError, wave.Error) as error:
            return self._answer(400, {"error": {"message": str(error), "type": "invalid_request_error"}})
        return self._answer(200, {"text": text})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass   # pytest's output is for failures


@contextmanager
def serve() -> Iterator[str]:
    """The base URL of a running server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()
