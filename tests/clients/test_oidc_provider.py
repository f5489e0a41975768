"""Signing in with a real OpenID provider, `oidc-provider` from npm, and being signed out by it. The test is the browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
import trio

from gw.config.parse import parse
from gw.telemetry.clock import SystemClock
from tests.contract.test_access import ADMIN
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import YAML

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
def provider_for(url: str):
    """Run the provider; yield its issuer."""
    node = shutil.which("node")
    assert node is not None, "node is not installed"
    if not (FOLDER / "node_modules").is_dir():
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {FOLDER}")
    environment = {**os.environ, "GW_URL": url, "CLIENT_SECRET": SECRET}
    with subprocess.Popen([node, "provider.mjs"], cwd=FOLDER, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Browser:
    """Follows redirects and forms, with a jar of cookies for both hosts, which differ in their ports alone."""

    def __init__(self) -> None:
        self._client = httpx2.Client(trust_env=False, follow_redirects=False, timeout=20)
        self._cookies: dict[str, dict[str, str]] = {}

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

    def go(self, address: str, method: str = "GET", **fields: object) -> httpx2.Response:
        answer = self.ask(method, address, **fields)
        while answer.status_code in (302, 303):
            address = urljoin(address, answer.headers["location"])
            answer = self.ask("GET", address)
        return answer

    def submit(self, page: httpx2.Response, **values: str) -> httpx2.Response:
        """Send the form of a page with its hidden fields and these."""
        text = page.text
        action = re.search(r'<form[^>]*action="([^"]+)"', text)
        assert action is not None, text
        hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text))
        return self.go(urljoin(str(page.url), unescape(action[1])), "POST", data={**hidden, **values})


def sign_in(browser: Browser, url: str, who: str) -> httpx2.Response:
    page = browser.go(f"{url}/api/oidc/start?back_to=/logs")
    page = browser.submit(page, login=who, password="any")
    return browser.submit(page)  # consent


async def test_people_sign_in_with_a_real_provider_and_out(tmp_path):
    async with open_running(tmp_path, PLAIN, SystemClock()) as running:
        with provider_for(running.url) as issuer, ExitStack() as closing:
            settings = parse(configured(issuer, running.url), file="gw.yaml", env={}, data_dir=tmp_path)
            await running.gateway.reload(settings)
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
    async with open_running(tmp_path, PLAIN, SystemClock()) as running:
        with provider_for(running.url) as issuer, ExitStack() as closing:
            settings = parse(configured(issuer, running.url), file="gw.yaml", env={}, data_dir=tmp_path)
            await running.gateway.reload(settings)
            browser = closing.enter_context(Browser())
            await trio.to_thread.run_sync(sign_in, browser, running.url, "ana")
            assert len((await running.get("/v1/logins", **ADMIN_HEADER)).json["logins"]) == 1
            page = await trio.to_thread.run_sync(browser.go, f"{issuer}/session/end?client_id=gw")
            await trio.to_thread.run_sync(lambda: browser.submit(page, logout="yes"))
            assert (await running.get("/v1/logins", **ADMIN_HEADER)).json["logins"] == []
            assert (await trio.to_thread.run_sync(browser.ask, "GET", f"{running.url}/v1/costs")).status_code == 401
