"""`python -m piper.http_server`, as far as gw uses it."""

from __future__ import annotations

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from gw.types.audio import AudioFormat
from gw.wire import wav

FMT = AudioFormat(encoding="wav", sample_rate_hz=22_050)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(200, b"{}", "application/json")

    def do_POST(self):
        requested = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if requested["text"] == "die":
            os._exit(4)
        samples = b"\1\2" * 2_205
        self._answer(200, wav.header(FMT, len(samples)) + samples, "text/html; charset=utf-8")

    def _answer(self, status, body, content_type):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("-m")
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    if not Path(args.m).exists():
        raise ValueError("Unable to find voice")
    HTTPServer((args.host, args.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
