"""A real Chromium on a gateway of its own: the page as its reader sees it, against the API's own numbers.

Playwright is imported inside fixtures: without it the tests that need no browser must still be collected. Every page that
a test opens is watched: an error in its console, a refused script or style, or a request to another host fails the test.
"""

from __future__ import annotations

import io
import json
import time
import urllib.request
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import attrs
import pytest

from tests.e2e.conftest import starter

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = "/usr/bin/chromium"
FRONTEND = Path(__file__).resolve().parent.parent.parent / "frontend"
WITHIN_MS = 30_000
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WIDER = """(width) => [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > width + 1)
    .map((one) => `${one.tagName} ${one.className} ${Math.round(one.getBoundingClientRect().right)} ${one.textContent.slice(0, 40)}`)"""
RECORDED_WITHIN_S = 60.0
ADMIN = "admin-token-8351026789"
GUARDED = f"""
providers:
  sim: {{}}
  slow: {{type: sim, latency_ms: 1500}}
  stalled: {{type: sim, latency_ms: 600000}}
models:
  stt: [sim/tone]
  llm:
    sim/echo: {{display_name: Echo}}
    slow/echo: {{}}
    stalled/echo: {{}}
  tts: [sim/tone]
projects:
  shop: {{name: The shop, daily_budget: 2.0}}
auth:
  admin_token: {ADMIN}
  keys: [{{key: gwk_shop_8351026789, project: shop, name: till}}]
rate_limiting:
  sim: {{requests_per_minute: 600}}
latency: {{ttfb_warning_ms: 300}}
"""
SAID = "what is the weather in Paris"


@attrs.frozen
class Site:
    """A running gateway with its dashboard."""

    url: str
    headers: dict[str, str] = attrs.field(factory=dict)

    def ask(self, path: str, body: object = None, *, method: str = "", headers: dict[str, str] | None = None) -> Any:
        """JSON from the API; an error's body as well."""
        return self._send(path, body, method, headers or {})[1]

    def _send(self, path: str, body: object, method: str, headers: dict[str, str]) -> tuple[str, Any]:
        """Return the id of an answer that is no error, "" of an error, and the body."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json", **self.headers, **headers}
        request = urllib.request.Request(self.url + path, data, sent, method=method or ("POST" if data else "GET"))
        id_ = ""
        try:
            with urllib.request.urlopen(request) as response:
                raw, id_ = response.read(), response.headers.get("x-request-id", "")
        except HTTPError as error:
            with error:
                raw = error.read()
        return id_, json.loads(raw) if raw[:1] in (b"{", b"[") else raw

    def recorded(self, id_: str) -> Any:
        """Wait until the reports have the record of a request, and return it. On a busy machine they do not wait long enough themselves."""
        deadline = time.monotonic() + RECORDED_WITHIN_S
        while "error" in (record := self.ask(f"/v1/requests/{id_}")):
            assert time.monotonic() < deadline, f"request {id_} has no record after {RECORDED_WITHIN_S} s"
        return record

    def _call(self, path: str, body: object, headers: dict[str, str]) -> Any:
        """Call a model, and wait for the record, unless the answer is an error."""
        id_, answer = self._send(path, body, "", headers)
        if id_:
            self.recorded(id_)
        return answer

    def chat(self, said: str = "hello", model: str = "sim/echo", **headers: str) -> Any:
        body = {"model": model, "messages": [{"role": "user", "content": said}]}
        return self._call("/v1/chat/completions", body, _own(headers))

    def speak(self, text: str = SAID, **headers: str) -> bytes:
        body = {"model": "sim/tone", "input": text, "response_format": "wav"}
        spoken: bytes = self._call("/v1/audio/speech", body, _own(headers))
        return spoken

    def transcribe(self, sound: bytes, **headers: str) -> Any:
        part = b'--x\r\ncontent-disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
        body = part % (b"file", b'; filename="a.wav"', sound) + part % (b"model", b"", b"sim/tone") + b"--x--\r\n"
        sent = {"content-type": "multipart/form-data; boundary=x", **_own(headers)}
        return self._call("/v1/audio/transcriptions", body, sent)

    def turn(self, turn: str, session: str = "call-1", project: str = "default") -> None:
        """Listen, think, speak."""
        ids = {"turn": turn, "session": session, "project": project}
        heard = self.transcribe(self.speak(project=project), **ids)["text"]
        self.chat(heard, **ids)
        self.speak("It is sunny in Paris.", **ids)


def _own(headers: dict[str, str]) -> dict[str, str]:
    return {f"x-gw-{name}": value for name, value in headers.items()}


@attrs.frozen
class View:
    """A page of the dashboard, and what it asked the network for since it was opened."""

    page: Page
    site: Site
    asked: list[str]
    troubles: list[str]

    def open(self, path: str, title: str = "") -> Page:
        self.asked.clear()
        self.page.goto(self.site.url + path)
        self.page.locator("main h1", has_text=title).wait_for()
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until nothing is being read, nor begins to be with the next two frames: a page may show its title before it reads."""
        while True:
            self.page.locator("main:not(:has([aria-busy=true])) h1").first.wait_for()  # its policy forbids wait_for_function
            self.page.evaluate(TWO_FRAMES)
            if self.page.locator("main:has([aria-busy=true]) h1").count() == 0:
                return

    def wider_than(self, width: int) -> list[str]:
        """Return what does not fit into the screen, and where it ends, unless all fits within a while: charts follow their boxes."""
        deadline = time.monotonic() + WITHIN_MS / 1_000
        while self.page.evaluate("document.documentElement.scrollWidth") > width:
            self.page.evaluate(TWO_FRAMES)
            if time.monotonic() > deadline:
                return list(self.page.evaluate(WIDER, width))
        return []

    def resize(self, width: int) -> None:
        """Have the page another width, and wait until it has looked at its boxes, one frame after their new size."""
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.evaluate(TWO_FRAMES)

    def stat(self, name: str) -> str:
        return self.page.locator(f'[data-stat="{name}"]').inner_text()


OpenView = Callable[..., View]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Callable[..., Browser]]:
    """`chromium()` is a browser; arguments go to its command line."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started: dict[tuple[str, ...], Browser] = {}

        def launch(*arguments: str) -> Browser:
            if arguments not in started:
                args = ["--no-sandbox", *arguments]
                started[arguments] = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
            return started[arguments]

        yield launch
        for browser in started.values():
            browser.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with starter(tmp_path_factory.mktemp("demo")) as start:
        yield Site(start().url)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A demo of the module's own."""
    with starter(tmp_path_factory.mktemp("fresh")) as start:
        yield Site(start().url)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One that asks for credentials."""
    with starter(tmp_path_factory.mktemp("guarded")) as start:
        yield Site(start(GUARDED).url, {"authorization": f"Bearer {ADMIN}"})


@pytest.fixture
def view(chromium: Callable[..., Browser]) -> Iterator[OpenView]:
    """`view(site)` is a fresh profile on that site; `allowed` says which console errors a test is about."""
    opened: list[View] = []

    def make(
        site: Site,
        *,
        theme: str = "light",
        width: int = 1280,
        allowed: str | tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
        **context: Any,
    ) -> View:
        look: dict[str, Any] = {"color_scheme": theme, "viewport": {"width": width, "height": 860}}
        profile = chromium(*arguments).new_context(**look, **context)
        profile.set_default_timeout(WITHIN_MS)
        made = View(profile.new_page(), site, [], [])
        _watch(made, (allowed,) if isinstance(allowed, str) else allowed)
        opened.append(made)
        return made

    yield make
    for made in opened:
        made.page.context.close()
        assert made.troubles == []


def _watch(view: View, allowed: tuple[str, ...]) -> None:
    def noted(kind: str, text: str) -> None:
        if not any(part in text for part in allowed):
            view.troubles.append(f"{kind}: {text}")

    def asked(url: str) -> None:
        if url.startswith(view.site.url):
            path = url.removeprefix(view.site.url)
            if path.startswith(("/api/", "/v1/")):
                view.asked.append(path)
        elif not url.startswith(("data:", "blob:")):
            noted("request to another host", url)

    view.page.on("console", lambda message: noted("console", message.text) if message.type in ("error", "warning") else None)
    view.page.on("pageerror", lambda error: noted("error", str(error)))
    view.page.on("request", lambda request: asked(request.url))


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's source, for `add_script_tag` past the page's own policy."""
    path = FRONTEND / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        pytest.fail("axe-core is not installed; run: npm ci --prefix frontend")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def voice_file(demo: Site, tmp_path: Path) -> Path:
    """The demo engine's speech at 48 kHz with silence around it: what a microphone would hear."""
    with wave.open(io.BytesIO(demo.speak())) as spoken:
        rate, sound = spoken.getframerate(), spoken.readframes(spoken.getnframes())
    silence = bytes(rate)
    path = tmp_path / "voice.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(silence + sound + 6 * silence)
    return path
