"""Everything by keyboard alone, and on a screen 360 pixels wide."""

from __future__ import annotations

import pytest

from tests.browser.test_pages import PAGES

pytestmark = pytest.mark.browser

NARROW = 360


def test_jump_by_ctrl_k(demo, view):
    seen = view(demo)
    page = seen.open("/")
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Jump to")
    box.wait_for()
    page.keyboard.type("laten")
    page.keyboard.press("Enter")
    page.locator("main h1", has_text="Latency").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="model sim/tone").wait_for()
    page.keyboard.type("tone")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/logs?model=sim%2Ftone")
    page.keyboard.press("Control+k")
    box.wait_for()
    page.keyboard.press("Escape")
    box.wait_for(state="detached")


def test_search_help_and_the_way_past_the_navigation(demo, view):
    page = view(demo).open("/logs")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Request id starts with"
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_menu_by_keyboard(demo, view):
    page = view(demo).open("/")
    page.get_by_role("button", name="Project: All projects").focus()
    page.keyboard.press("Enter")
    page.get_by_role("option", name="Demo").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?project=demo")
    page.get_by_role("listbox").wait_for(state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Project: demo"


def test_the_options_of_a_menu_come_with_the_focus(demo, view):
    """A key that is pressed as soon as they are there moves from the option that is chosen."""
    page = view(demo).open("/")
    page.evaluate("""() => new MutationObserver((_, observer) => {
        if (!document.querySelector('[role=option]')) return;
        observer.disconnect();
        const soon = new MessageChannel();  // the next task, before a frame is drawn
        soon.port1.onmessage = () => { document.body.dataset.focused = document.activeElement.role ?? 'none'; };
        soon.port2.postMessage(0);
    }).observe(document.body, {childList: true, subtree: true})""")
    page.get_by_role("button", name="Project: All projects").press("Enter")
    page.locator("body[data-focused]").wait_for()
    assert page.locator("body").get_attribute("data-focused") == "option"


def test_a_row_is_opened_by_keyboard(demo, view):
    demo.chat()
    page = view(demo).open("/logs")
    page.locator("tbody a").first.focus()
    page.keyboard.press("Enter")
    drawer = page.locator("dialog.drawer[open]")
    drawer.wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")


def test_the_theme_is_kept(demo, view):
    page = view(demo, theme="light").open("/")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    dark = page.evaluate(colour)
    assert dark != light
    page.reload()
    page.locator("main h1").wait_for()
    assert page.evaluate(colour) == dark


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_cut_off_on_a_narrow_screen(demo, view, path):
    demo.turn("narrow")
    seen = view(demo, width=NARROW)
    page = seen.open(path, PAGES[path])
    assert seen.wider_than(NARROW) == []
    page.get_by_role("button", name="Pages").click()
    page.get_by_role("link", name="Overview").wait_for()
    page.get_by_role("link", name="Overview").click()
    page.locator("main h1", has_text="Overview").wait_for()
