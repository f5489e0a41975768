"""axe finds nothing on any page, in both themes, wide and narrow, with names that were chosen to break it.

Also: whatever can be clicked is at least 24 CSS pixels wide and high (WCAG 2.2, 2.5.8), except a link within a sentence.
"""

from __future__ import annotations

import pytest

from tests.browser.test_pages import PAGES

pytestmark = pytest.mark.browser

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
LONG = "a very long name " * 12
RIGHT_TO_LEFT = "\u202eשלום عالم\u202c"
EMOJI = "👩‍👩‍👧‍👦🏳️‍🌈 project"
FOUND = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map((one) =>
  `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + " " + node.failureSummary).join(" | ")}`)"""

SMALL = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [role=button], [role=option]")]
  .filter((one) => one.checkVisibility({visibilityProperty: true}) && !(one.localName === "a" && one.closest("p")))
  .map((one) => {
    const label = one.matches("input[type=checkbox], input[type=radio]") ? one.closest("label") : null;
    const whole = getComputedStyle(one, "::after").position === "absolute" ? one.closest("tr, li") : null;  // covers its row
    const box = (label ?? whole ?? one).getBoundingClientRect();
    return {box, text: `${one.outerHTML.slice(0, 120)}: ${box.width.toFixed(1)} x ${box.height.toFixed(1)}`};
  })
  .filter(({box}) => box.width > 1 && box.height > 1 && (box.width < 23.99 || box.height < 23.99))
  .map(({text}) => text)"""


@pytest.fixture(scope="module")
def hostile(fresh):
    for number, name in enumerate((SCRIPT, LONG, RIGHT_TO_LEFT, EMOJI)):
        project = f"p{number}"
        budget = 5 if number else 1e-6
        made = {"project_id": project, "name": name, "description": name, "daily_budget": budget, "tags": [name[:60]]}
        fresh.ask("/v1/projects", made)
        fresh.ask("/v1/keys", {"name": name, "project": project})
        fresh.turn(f"turn-{number}", session=f"s<i>{number}", project=project)
        fresh.chat(name, project=project, turn=SCRIPT)
        fresh.ask(f"/v1/projects/{project}", {"description": name + "!"}, method="PATCH")
    base_url = "https://api.example.com/" + "long/" * 30
    made = {"provider_id": "backup", "provider_type": "openai", "api_key": "sk-abcdefgh12345678", "base_url": base_url}
    fresh.ask("/v1/providers", made)
    model = "<b>bold</b>-" + "x" * 150
    made = {"modality": "llm", "provider_id": "backup", "model_name": model, "display_name": SCRIPT}
    fresh.ask("/v1/models", made)
    for _ in range(6):
        fresh.chat(model="default")
    fresh.chat(model="sim/flaky", fallback="off")
    return fresh


def _clean(seen, axe):
    seen.page.evaluate(axe)
    assert seen.page.evaluate(FOUND) == []
    assert seen.page.evaluate(SMALL) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_no_violation(hostile, view, axe, path, theme):
    seen = view(hostile, theme=theme)
    page = seen.open(path, PAGES[path])
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    _clean(seen, axe)
    seen.resize(360)
    assert seen.wider_than(360) == []
    _clean(seen, axe)


def test_a_table_that_scrolls_is_reached_by_the_keyboard(hostile, view):
    """One whose cells have nothing to focus: without its own place in the tab order, nobody without a mouse could scroll it."""
    seen = view(hostile, width=360)
    page = seen.open("/settings")
    wide = page.locator(".scroll[tabindex='0']").first
    wide.evaluate("(one) => one.addEventListener('scroll', () => (one.dataset.scrolled = one.scrollLeft))")
    wide.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".scroll[data-scrolled]").wait_for()
    page.set_viewport_size({"width": 1600, "height": 860})
    page.locator(".scroll[tabindex='0']").first.wait_for(state="detached")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_violation_in_what_opens(hostile, view, axe, theme):
    (newest,) = hostile.ask("/api/logs?limit=1")
    seen = view(hostile, theme=theme, allowed="409")
    page = seen.open(f"/logs?open={newest['id']}")
    page.get_by_role("heading", name="Repeat this request").wait_for()
    _clean(seen, axe)
    seen.open("/turns/turn-0")
    _clean(seen, axe)
    seen.open("/turns/" + SCRIPT.replace("/", "%2F").replace("<", "%3C"))
    _clean(seen, axe)
    seen.open("/providers")
    page.get_by_role("button", name="Delete backup").click()
    page.locator("[data-preview]").wait_for()
    _clean(seen, axe)
    seen.open("/projects")
    page.get_by_role("button", name="Edit p2").click()
    page.get_by_role("dialog").wait_for()
    _clean(seen, axe)
    seen.open("/")
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="sim/tone").wait_for()
    _clean(seen, axe)
    seen.open("/costs?by=project&project=p0")
    page.get_by_role("button", name="Project: p0").click()
    page.get_by_role("option", name="All projects").wait_for()
    _clean(seen, axe)
    seen.open("/latency")
    page.get_by_role("region", name="Over time").get_by_role("button", name="Table", exact=True).click()
    _clean(seen, axe)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_violation_on_the_login_page(guarded, view, axe, theme):
    seen = view(guarded, theme=theme, allowed="401")
    seen.page.goto(guarded.url)
    seen.page.get_by_label("Admin token").wait_for()
    _clean(seen, axe)


@pytest.mark.parametrize("path", PAGES)
def test_no_violation_where_there_is_nothing_yet(guarded, view, axe, path):
    seen = view(guarded, extra_http_headers=guarded.headers)
    seen.open(path, PAGES[path])
    _clean(seen, axe)
