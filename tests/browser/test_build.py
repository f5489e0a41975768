"""frontend_dist is what frontend/ builds, small, and asks nobody else for anything. Needs no browser."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from gw.web import static_files

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES, BUILT = ROOT / "frontend", ROOT / "frontend_dist"
MADE_FROM = (
    *("index.html", "package.json", "package-lock.json", "public", "scripts", "src"),
    *("svelte.config.js", "tsconfig.json", "vite.config.ts"),
)
MOST_BYTES = 120_000


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for child in path.iterdir():
            yield from _files(child) if child.name != "__pycache__" else ()
    else:
        yield path


def _digest() -> str:
    """As frontend/scripts/sources.mjs computes it."""
    paths = [path for name in MADE_FROM for path in _files(SOURCES / name)]
    lines = [f"{path.relative_to(SOURCES).as_posix()} {sha256(path.read_bytes()).hexdigest()}" for path in paths]
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()


def test_the_build_is_not_older_than_its_sources():
    built = json.loads((BUILT / "build.json").read_text())["sources"]
    assert built == _digest(), "frontend/ has changed: run npm ci && npm run build in it"


def test_scripts_and_styles_stay_small():
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in _files(BUILT) if path.suffix in (".js", ".css")}
    assert len(sizes) >= 3
    assert sum(sizes.values()) <= MOST_BYTES, sizes


def test_compressed_siblings_hold_the_same():
    packed = [path for path in _files(BUILT) if path.suffix == ".gz"]
    assert packed
    for path in packed:
        assert gzip.decompress(path.read_bytes()) == path.with_suffix("").read_bytes(), path.name


def test_the_page_holds_nothing_that_its_policy_refuses():
    page = (BUILT / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
    assert {reference.partition("/")[0] for reference in re.findall(r'(?:src|href)="([^"]+)"', page)} == {""}


def test_no_file_of_the_build_names_another_host():
    named = re.compile(rb"https?://[a-z0-9.-]+", re.IGNORECASE)
    references = {match.decode() for path in _files(BUILT) if path.suffix != ".gz" for match in named.findall(path.read_bytes())}
    assert references <= {"http://www.w3.org", "https://svelte.dev"}  # an XML namespace; where svelte's errors are explained


def test_the_lock_names_no_host():
    assert "://" not in (SOURCES / "package-lock.json").read_text()


def test_the_gateway_serves_it():
    site = static_files.load()
    assert site.built
    page = site.page("", "")
    assert dict(page.headers)[b"content-security-policy"].decode() == static_files.CSP
    (script,) = re.findall(r'<script[^>]*src="([^"]+)"', page.body.decode())
    served = site.file(script, "gzip, br", "")
    assert served is not None
    headers = dict(served.headers)
    assert headers[b"cache-control"] == b"public, max-age=31536000, immutable"
    assert headers[b"content-encoding"] == b"gzip"
    assert gzip.decompress(served.body)
