"""Signing in with a real OpenID provider, `oidc-provider` from npm, and being signed out by it. The test is the browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2
import pytest
import trio

from gw.config.parse import parse
from gw.telemetry.clock import SystemClock
from tests.contract.test_access import ADMIN
from tests.e2e.conftest import compiled_once, starter
from tests.fakes import databases
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import YAML, SetClock

pytestmark = pytest.mark.clients
FOLDER = Path(__file__).with_name("node") / "oidc"
SECRET = "client-secret-8351026789"
PLAIN = YAML + f"auth: {{admin_token: {ADMIN}}}\n"
ADMIN_HEADER = {"authorization": f"Bearer {ADMIN}"}


def configured(issuer: str, url: str) -> str:
    return (
        YAML
        + f"auth:\n  admin_token: {ADMIN}\n  oidc:\n    issuer: {issuer}\n    client_id: gw\n    client_secret: {SECRET}\n"
        + f"    public_url: {url}\n    roles: [{{claim: groups, value: staff, role: operator, projects: [shop]}}]\n"
    )


@contextmanager
def provider_for(url: str, algorithm: str = "RS256"):
    """Run the provider; yield its issuer, and what changes its keys."""
    node = shutil.which("node")
    assert node is not None, "node is not installed"
    if not (FOLDER / "node_modules").is_dir():
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {FOLDER}")
    environment = {**os.environ, "GW_URL": url, "CLIENT_SECRET": SECRET, "ID_TOKEN_ALG": algorithm}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([node, "provider.mjs"], cwd=FOLDER, env=environment, **pipes) as process:
        assert process.stdout is not None
        assert process.stdin is not None

        def change_keys() -> None:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "changed\n"

        try:
            yield process.stdout.readline().strip(), change_keys
        finally:
            process.kill()


@asynccontextmanager
async def open_site(folder: Path, algorithm: str = "RS256", clock: SystemClock | SetClock | None = None):
    """Run a gateway, and the provider with which people sign in to it; yield both, and what changes the provider's keys."""
    async with open_running(folder, PLAIN, clock or SystemClock()) as running:
        with provider_for(running.url, algorithm) as (issuer, change_keys):
            settings = parse(configured(issuer, running.url), file="gw.yaml", env={}, data_dir=folder)
            await running.gateway.reload(settings)
            yield running, issuer, change_keys


class Browser:
    """Follows redirects and forms, with a jar of cookies for both hosts, which differ in their ports alone."""

    def __init__(self) -> None:
        self._client = httpx2.Client(trust_env=False, follow_redirects=False, timeout=20)
        self._cookies: dict[str, dict[str, str]] = {}
        self.until = ""
        """Part of an address that is not followed."""

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, method: str, address: str, **fields: object) -> httpx2.Response:
        place = urlsplit(address).netloc
        jar = self._cookies.setdefault(place, {})
        cookie = "; ".join(f"{name}={value}" for name, value in jar.items())
        answer = self._client.request(method, address, headers={"cookie": cookie} if cookie else {}, **fields)
        self._client.cookies.clear()
        for header in answer.headers.get_list("set-cookie"):
            name, _, value = header.partition(";")[0].partition("=")
            is_over = "max-age=0" in header.lower() or "expires=thu, 01 jan 1970" in header.lower()
            jar.pop(name, None) if is_over else jar.update({name: value})
        return answer

    def cookies_of(self, url: str) -> dict[str, str]:
        return self._cookies.setdefault(urlsplit(url).netloc, {})

    def go(self, address: str, method: str = "GET", **fields: object) -> httpx2.Response:
        answer = self.ask(method, address, **fields)
        while answer.status_code in (302, 303):
            address = urljoin(address, answer.headers["location"])
            if self.until and self.until in address:
                break
            answer = self.ask("GET", address)
        return answer

    def submit(self, page: httpx2.Response, **values: str) -> httpx2.Response:
        """Send the form of a page with its hidden fields and these."""
        text = page.text
        action = re.search(r'<form[^>]*action="([^"]+)"', text)
        assert action is not None, text
        hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text))
        return self.go(urljoin(str(page.url), unescape(action[1])), "POST", data={**hidden, **values})


def sign_in(browser: Browser, url: str, who: str, **changes: str) -> httpx2.Response:
    """Sign in; `changes` are made to the address at which the provider is called."""
    address = urlsplit(browser.ask("GET", f"{url}/api/oidc/start?back_to=/logs").headers["location"])
    page = browser.go(address._replace(query=urlencode(dict(parse_qsl(address.query)) | changes)).geturl())
    page = browser.submit(page, login=who, password="any")
    return browser.submit(page)  # consent


def answer_for(browser: Browser, url: str, **changes: str) -> dict[str, str]:
    """Sign in as far as the provider's answer, which does not reach the gateway yet; return its fields."""
    browser.until = "/api/oidc/callback"
    location = sign_in(browser, url, "ana", **changes).headers["location"]
    browser.until = ""
    return dict(parse_qsl(urlsplit(location).query))


def give(browser: Browser, url: str, fields: dict[str, str]) -> str:
    """Give the gateway an answer; return why it is refused, "" if it is not."""
    location = browser.ask("GET", f"{url}/api/oidc/callback?{urlencode(fields)}").headers["location"]
    return dict(parse_qsl(urlsplit(location).query)).get("sign_in_refused", "")


async def test_people_sign_in_with_a_real_provider_and_out(tmp_path):
    async with open_site(tmp_path) as (running, _, _):
        with ExitStack() as closing:
            browser, stranger = closing.enter_context(Browser()), closing.enter_context(Browser())
            page = await trio.to_thread.run_sync(sign_in, browser, running.url, "ana")
            assert str(page.url) == f"{running.url}/logs", page.text
            state = (await trio.to_thread.run_sync(browser.ask, "GET", f"{running.url}/api/session")).json()
            assert (state["name"], state["role"], state["projects"]) == ("ana@shop.example", "operator", ["shop"])

            page = await trio.to_thread.run_sync(sign_in, stranger, running.url, "bob")
            assert "sign_in_refused=no_role" in str(page.url)

            answer = await trio.to_thread.run_sync(browser.ask, "POST", f"{running.url}/api/logout")
            page = await trio.to_thread.run_sync(browser.go, answer.json()["redirect"])
            page = await trio.to_thread.run_sync(lambda: browser.submit(page, logout="yes"))
            assert str(page.url) == f"{running.url}/"
            page = await trio.to_thread.run_sync(browser.go, f"{running.url}/api/oidc/start")
            assert 'name="login"' in page.text, "the provider asks again"


async def test_the_provider_ends_the_sessions_of_a_person(tmp_path):
    async with open_site(tmp_path) as (running, issuer, _):
        with Browser() as browser:
            await trio.to_thread.run_sync(sign_in, browser, running.url, "ana")
            assert len((await running.get("/v1/logins", **ADMIN_HEADER)).json["logins"]) == 1
            page = await trio.to_thread.run_sync(browser.go, f"{issuer}/session/end?client_id=gw")
            await trio.to_thread.run_sync(lambda: browser.submit(page, logout="yes"))
            assert (await running.get("/v1/logins", **ADMIN_HEADER)).json["logins"] == []
            assert (await trio.to_thread.run_sync(browser.ask, "GET", f"{running.url}/v1/costs")).status_code == 401


async def refused(running, browser: Browser, fields: dict[str, str]) -> str:
    return await trio.to_thread.run_sync(give, browser, running.url, fields)


async def test_answers_of_the_provider_count_once_here_and_there(tmp_path):
    async with open_site(tmp_path) as (running, _, _):
        with ExitStack() as closing:
            browser, thief = closing.enter_context(Browser()), closing.enter_context(Browser())
            answer = await trio.to_thread.run_sync(answer_for, browser, running.url)
            assert answer.keys() == {"code", "state", "iss"}
            assert await refused(running, browser, answer | {"iss": "https://evil.example"}) == "mix_up"
            answer = await trio.to_thread.run_sync(answer_for, thief, running.url)
            assert await refused(running, browser, answer) == "state", "begun in another browser"
            victim = closing.enter_context(Browser())
            stolen = await trio.to_thread.run_sync(answer_for, victim, running.url)
            assert await refused(running, thief, answer | {"code": stolen["code"]}) == "provider", "it belongs to another verifier"
            other = closing.enter_context(Browser())
            good = await trio.to_thread.run_sync(answer_for, other, running.url)
            kept = dict(other.cookies_of(running.url))
            assert await refused(running, other, good) == ""
            assert await refused(running, other, good) == "state", "the browser has no sign-in any more"
            other.cookies_of(running.url).update(kept)
            assert await refused(running, other, good) == "replay"
            last = closing.enter_context(Browser())
            again = await trio.to_thread.run_sync(answer_for, last, running.url)
            assert await refused(running, last, again | {"code": good["code"]}) == "provider", "a code is good for one exchange"


async def test_a_request_that_was_changed_on_the_way_gives_no_session(tmp_path):
    other = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636, appendix B
    async with open_site(tmp_path) as (running, _, _):
        for name, value, reason in (("nonce", "x", "nonce"), ("state", "x", "state"), ("code_challenge", other, "provider")):
            with Browser() as browser:
                answer = await trio.to_thread.run_sync(partial(answer_for, browser, running.url, **{name: value}))
                assert await refused(running, browser, answer) == reason, name


@pytest.mark.parametrize(("algorithm", "reason"), [("PS256", ""), ("ES256", ""), ("Ed25519", ""), ("HS256", "signature")])
async def test_signatures_of_the_provider(tmp_path, algorithm, reason):
    async with open_site(tmp_path, algorithm) as (running, _, _):
        with Browser() as browser:
            assert await refused(running, browser, await trio.to_thread.run_sync(answer_for, browser, running.url)) == reason


async def test_the_provider_changes_its_keys(tmp_path, monkeypatch):
    monkeypatch.setattr("gw.net.openid_provider.REFRESH_S", 0.0)
    async with open_site(tmp_path) as (running, _, change_keys):
        for _ in range(2):
            with Browser() as browser:
                assert await refused(running, browser, await trio.to_thread.run_sync(answer_for, browser, running.url)) == ""
            await trio.to_thread.run_sync(change_keys)


async def test_clocks_of_the_gateway_and_the_provider_may_differ_by_a_minute(tmp_path):
    clock = SetClock()
    async with open_site(tmp_path, clock=clock) as (running, _, _):
        for ahead_s, reason in ((30, ""), (-30, ""), (700, "expired"), (-700, "expired")):
            clock.at = SystemClock().now() + ahead_s
            with Browser() as browser:
                assert await refused(running, browser, await trio.to_thread.run_sync(answer_for, browser, running.url)) == reason


def test_any_worker_on_postgresql_signs_people_in_and_out(tmp_path):
    workers = "serve: {workers: 2}\n" + f"cost_tracking: {{database: '{databases.fresh_url()}'}}\n"
    with ExitStack() as closing:
        closing.callback(databases.remove_server)
        daemon = closing.enter_context(starter(tmp_path))(PLAIN + workers, **compiled_once(tmp_path))
        issuer, _ = closing.enter_context(provider_for(daemon.url))
        (tmp_path / "gw.yaml").write_text(configured(issuer, daemon.url) + workers)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for('"reloaded"')
        admin = closing.enter_context(httpx2.Client(trust_env=False, base_url=daemon.url, headers=ADMIN_HEADER))
        ana, bob = closing.enter_context(Browser()), closing.enter_context(Browser())
        assert str(sign_in(ana, daemon.url, "ana").url) == f"{daemon.url}/logs"
        assert "sign_in_refused=no_role" in str(sign_in(bob, daemon.url, "bob").url)
        [login] = admin.get("/v1/logins").json()["logins"]
        assert login["name"] == "ana@shop.example"
        page = ana.go(f"{issuer}/session/end?client_id=gw")
        ana.submit(page, logout="yes")
        assert admin.get("/v1/logins").json()["logins"] == []
        assert ana.ask("GET", f"{daemon.url}/v1/costs").status_code == 401
        assert daemon.stop() == 0
