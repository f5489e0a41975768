"""The dashboard's files: `/`, `/assets/*`, and `index.html` for browsers at the paths that the page's own router handles.

The built files are read once, at start, into an index by request path; only its exact keys are served, so no path can
point outside. They are small (a few hundred kB in total) and stay in memory with their precompressed siblings.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

import gw
from gw.web.reply import Reply

NOT_BUILT = (
    "The dashboard has not been built. To build it, run `npm ci && npm run build` in the folder `frontend/` "
    "and start the gateway again. The API is running."
)
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>gw: dashboard not built</title>"
    "<h1>The dashboard has not been built</h1><p>To build it, run</p><pre>cd frontend\nnpm ci\nnpm run build</pre>"
    "<p>and start the gateway again. The API is running: see <a href=/health>/health</a>, "
    "<a href=/v1/status>/v1/status</a>.</p>"
)
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; media-src 'self' blob:; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HTML = b"text/html; charset=utf-8"
_PAGE_HEADERS = ((b"content-security-policy", CSP.encode()), (b"referrer-policy", b"no-referrer"))
_FOREVER = "public, max-age=31536000, immutable"
_RECHECK = "no-cache"
_ENCODINGS = {".br": "br", ".gz": "gzip"}  # suffix of a precompressed sibling → its content encoding, best first

PAGES = frozenset((
    "live", "sessions", "turns", "logs", "latency", "costs", "reliability", "alerts", "providers", "models", "projects", "keys",
    "playground", "audit", "people", "settings",
))  # fmt: skip
"""First segments of the paths of the dashboard's pages (frontend/src/lib/pages.ts)."""


def is_page(path: str, accept: str) -> bool:
    """Return whether the dashboard's own router reads `path`, and the client wants a page: a program gets a 404 instead."""
    return "text/html" in accept and path[1:].partition("/")[0] in PAGES


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One served file. `bodies` by content encoding; `""` is the uncompressed one."""

    content_type: str
    etag: str
    cache_control: str
    bodies: Mapping[str, bytes]


class Frontend:
    """`files` by request path, such as `/assets/index-3f2a.js`. Empty = not built."""

    def __init__(self, files: Mapping[str, File]) -> None:
        self._files = files
        self._index = files.get("/index.html")

    @property
    def built(self) -> bool:
        return self._index is not None

    def page(self, accept_encoding: str, if_none_match: str) -> Reply:
        """Return `index.html`, or a page that explains how to build it."""
        if self._index is None:
            return Reply(_PAGE.encode(), _HTML, [(b"cache-control", b"no-store"), *_PAGE_HEADERS], 503)
        return _reply(self._index, accept_encoding, if_none_match)

    def file(self, path: str, accept_encoding: str, if_none_match: str) -> Reply | None:
        """Return the file at exactly this request path."""
        file = self._files.get(path)
        return _reply(file, accept_encoding, if_none_match) if file else None


def load(folders: Iterable[Path] | None = None) -> Frontend:
    """Read the first folder with an `index.html`: by default in the installed package, else in the checkout."""
    package = Path(gw.__file__).parent
    for folder in folders if folders is not None else (package / "frontend_dist", package.parent / "frontend_dist"):
        if (folder / "index.html").is_file():
            return Frontend(dict(_index_of(folder)))
    return Frontend({})


def _index_of(folder: Path) -> Iterable[tuple[str, File]]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.suffix in _ENCODINGS or path.name == "build.json":
            continue
        key = "/" + path.relative_to(folder).as_posix()
        body = path.read_bytes()
        siblings = {encoding: path.with_name(path.name + suffix) for suffix, encoding in _ENCODINGS.items()}
        bodies = {encoding: sibling.read_bytes() for encoding, sibling in siblings.items() if sibling.is_file()}
        yield key, File(
            content_type=_content_type(path),
            etag=sha256(body).hexdigest()[:24],
            cache_control=_FOREVER if key.startswith("/assets/") else _RECHECK,
            bodies={"": body, **bodies},
        )


def _content_type(path: Path) -> str:
    known = {".js": "text/javascript", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2"}
    guessed = known.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"{guessed}; charset=utf-8" if guessed.startswith("text/") else guessed


def _reply(file: File, accept_encoding: str, if_none_match: str) -> Reply:
    encoding = next((e for e in _ENCODINGS.values() if e in file.bodies and _accepts(accept_encoding, e)), "")
    etag = f'"{file.etag}{"-" + encoding if encoding else ""}"'
    headers = [(b"cache-control", file.cache_control.encode()), (b"etag", etag.encode()), (b"vary", b"accept-encoding")]
    if file.content_type.startswith("text/html"):
        headers += _PAGE_HEADERS
    if etag in (tag.strip().removeprefix("W/") for tag in if_none_match.split(",")):
        return Reply(b"", b"", headers, 304)
    if encoding:
        headers.append((b"content-encoding", encoding.encode()))
    return Reply(file.bodies[encoding], file.content_type.encode(), headers)


def _accepts(accept_encoding: str, encoding: str) -> bool:
    for item in accept_encoding.lower().split(","):
        name, _, quality = item.strip().partition(";")
        if name.strip() == encoding:
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
