"""Coming in and going out, on a gateway that asks for credentials."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser.conftest import ADMIN

pytestmark = pytest.mark.browser


def _log_in(page, token=ADMIN):
    page.get_by_label("Admin token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_log_in_stay_in_and_log_out(guarded, view):
    guarded.chat()
    seen = view(guarded, allowed="401")
    page = seen.page
    page.goto(f"{guarded.url}/costs?period=week")
    _log_in(page, "not-the-token")
    page.get_by_role("alert").wait_for()
    _log_in(page)
    page.locator("main h1", has_text="Costs").wait_for()
    seen.settle()
    assert page.url.endswith("/costs?period=week")
    answer = guarded.ask("/v1/costs?period=week")
    assert float(seen.stat("Spend").lstrip("$")) == pytest.approx(answer["total"], rel=0.05)
    assert page.evaluate("document.cookie") == ""  # HttpOnly
    page.reload()
    page.locator("main h1", has_text="Costs").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Admin token").wait_for()
    page.reload()
    page.get_by_label("Admin token").wait_for()
    assert page.locator("nav").count() == 0


def test_a_session_that_ends_asks_again_and_comes_back(guarded, view):
    seen = view(guarded, allowed="401")
    page = seen.page
    page.goto(f"{guarded.url}/models")
    _log_in(page)
    page.locator("main h1", has_text="Models").wait_for()
    page.context.clear_cookies()
    page.get_by_role("link", name="Projects", exact=True).click()
    _log_in(page)
    page.locator("main h1", has_text="Projects").wait_for()
    page.locator('tr[data-id="shop"]').wait_for()


def test_a_project_key_is_not_enough(guarded, view):
    seen = view(guarded, allowed="40")
    page = seen.page
    page.goto(guarded.url)
    _log_in(page, "gwk_shop_8351026789")
    assert "admin token" in page.get_by_role("alert").inner_text()


def test_the_live_page_asks_for_the_token_too(guarded, view):
    seen = view(guarded, allowed="401")
    page = seen.page
    page.goto(f"{guarded.url}/live")
    _log_in(page)
    page.get_by_text("connected", exact=True).wait_for()


@pytest.fixture
def elsewhere(tmp_path):
    """The port of another server on this machine, with an empty page."""
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_address[1]
        server.shutdown()


ATTEMPTS = """async (url) => {
  const body = '{"model":"sim/echo","messages":[{"role":"user","content":"from elsewhere"}]}';
  const outcomes = [];
  for (const init of [
    { mode: "no-cors", body },
    { body },
    { headers: { "X-GW-Dashboard": "1", "content-type": "application/json" }, body },
    { headers: { "X-GW-Dashboard": "1" }, body: new FormData() },
  ]) {
    try {
      const answer = await fetch(url, { method: "POST", credentials: "include", ...init });
      outcomes.push(answer.type === "opaque" ? "opaque" : answer.status);
    } catch { outcomes.push("refused"); }
  }
  return outcomes;
}"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["same site", "cross-site"])
def test_a_page_from_elsewhere_has_no_use_of_the_session(guarded, chromium, elsewhere, host):
    """Of the same site it even gets the cookie sent along: ports do not part sites."""
    context = chromium().new_context()
    page = context.new_page()
    page.goto(f"{guarded.url}/playground")
    _log_in(page)
    page.locator("main h1", has_text="Playground").wait_for()
    before = guarded.ask("/v1/logs?limit=1")
    page.goto(f"http://{host}:{elsewhere}/")
    url = f"{guarded.url}/v1/chat/completions"
    assert page.evaluate(ATTEMPTS, url) == ["opaque", "refused", "refused", "refused"]
    page.evaluate("""(url) => new Promise((done) => {
      const form = Object.assign(document.createElement("form"), { method: "post", action: url, target: "_blank" });
      document.body.append(form); form.submit(); setTimeout(done, 200);
    })""", url)
    assert guarded.ask("/v1/logs?limit=1") == before
    context.close()
