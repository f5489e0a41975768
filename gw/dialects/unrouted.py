"""404 and 405 of vendors' paths, as the vendor itself would answer: by the path's mount or family, else by the credential."""

from __future__ import annotations

from collections.abc import Iterable

from gw.dialects import anthropic, assemblyai, cartesia, deepgram, elevenlabs, ollama, openai
from gw.dialects.exchange import Dialect
from gw.dialects.request_io import Headers, header
from gw.errors import GwError
from gw.types.asgi import Scope


class NotFound(GwError, status=404, code="not_found"):
    """Nothing has this path."""

    method: str
    path: str

    @property
    def message(self) -> str:
        return f"unknown path: {self.method} {self.path}"


class MethodNotAllowed(GwError, status=405, code="method_not_allowed"):
    """The path has other methods."""

    method: str
    path: str
    allowed: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"{self.method} is not a method of {self.path}; it has {', '.join(self.allowed)}"


_MOUNTS = {
    "openai": openai.DIALECT, "livekit": openai.DIALECT, "groq": openai.DIALECT, "anthropic": anthropic.DIALECT,
    "deepgram": deepgram.DIALECT, "elevenlabs": elevenlabs.DIALECT, "cartesia": cartesia.DIALECT,
    "assemblyai": assemblyai.DIALECT, "ollama": ollama.DIALECT,
}  # fmt: skip
_FAMILIES: tuple[tuple[str, Dialect], ...] = (
    ("/v1/messages", anthropic.DIALECT), ("/v1/complete", anthropic.DIALECT), ("/v1/listen", deepgram.DIALECT),
    ("/v2/listen", deepgram.DIALECT), ("/v1/speak", deepgram.DIALECT), ("/v2/speak", deepgram.DIALECT),
    ("/v1/read", deepgram.DIALECT), ("/v1/auth", deepgram.DIALECT), ("/v1/text-to-speech", elevenlabs.DIALECT),
    ("/v1/speech-to-text", elevenlabs.DIALECT), ("/v1/text-to-dialogue", elevenlabs.DIALECT),
    ("/v1/voices", elevenlabs.DIALECT), ("/v2/voices", elevenlabs.DIALECT), ("/v1/user", elevenlabs.DIALECT),
    ("/v1/history", elevenlabs.DIALECT), ("/v1/single-use-token", elevenlabs.DIALECT), ("/tts", cartesia.DIALECT),
    ("/stt", cartesia.DIALECT), ("/voices", cartesia.DIALECT), ("/access-token", cartesia.DIALECT),
    ("/v2/transcript", assemblyai.DIALECT), ("/v2/upload", assemblyai.DIALECT), ("/v3", assemblyai.DIALECT),
)  # fmt: skip
"""First segments of the paths that only one vendor has."""


def dialect_of(scope: Scope, path: str) -> Dialect | None:
    """Return the protocol of a path that nothing serves, or of the client that sent it; None for our own paths."""
    mount = path[1:].partition("/")
    if mount[1] and mount[0] in _MOUNTS:
        return _MOUNTS[mount[0]]
    for family, dialect in _FAMILIES:
        if path == family or path.startswith(family + "/"):
            return dialect
    return by_credential(scope) or (openai.DIALECT if path.startswith("/v1/") else None)


def by_credential(scope: Scope) -> Dialect | None:
    """Return the vendor whose clients alone send such a header."""
    if header(scope, b"xi-api-key") is not None:
        return elevenlabs.DIALECT
    if header(scope, b"anthropic-version") is not None:
        return anthropic.DIALECT
    if header(scope, b"cartesia-version") is not None:
        return cartesia.DIALECT
    authorization = (header(scope, b"authorization") or b"").strip()
    if authorization[:6].lower() == b"token ":
        return deepgram.DIALECT
    return assemblyai.DIALECT if authorization and b" " not in authorization else None


def answer(dialect: Dialect, scope: Scope, path: str, methods: Iterable[str], request_id: str) -> tuple[int, bytes, Headers]:
    """Return status, body and headers of the 404, or of the 405 if the path has `methods`."""
    allowed = tuple(methods)
    error: GwError = NotFound(method=scope["method"], path=path)
    headers: Headers = [(name, request_id.encode()) for name in dialect.id_headers if name != b"x-request-id"]
    if allowed:
        error = MethodNotAllowed(method=scope["method"], path=path, allowed=allowed)
        headers.append((b"allow", ", ".join(allowed).encode()))
    return error.status, dialect.error_body(error, request_id), headers
