"""Coming in and going out, on a gateway that asks for credentials."""

from __future__ import annotations

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
    told = guarded.ask("/v1/costs?period=week")
    assert float(seen.stat("Spend").lstrip("$")) == pytest.approx(told["total"], rel=0.05)
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
    _log_in(page, "gwk_shop_0123456789")
    assert "admin token" in page.get_by_role("alert").inner_text()


def test_the_live_page_asks_for_the_token_too(guarded, view):
    seen = view(guarded, allowed="401")
    page = seen.page
    page.goto(f"{guarded.url}/live")
    _log_in(page)
    page.get_by_text("connected", exact=True).wait_for()
