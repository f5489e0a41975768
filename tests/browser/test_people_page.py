"""The page People beside the API, and signing in: people, service tokens and sessions, which are made, ended and blocked."""

from __future__ import annotations

import signal
import time

import attrs
import pytest

from tests.browser.conftest import ADMIN, Site
from tests.browser.test_axe import FOUND, SMALL
from tests.e2e.conftest import starter
from tests.fakes.fake_openid import EMAIL, FakeOpenId, loopback_openid

pytestmark = pytest.mark.browser

PLAIN = f"""
providers: {{{{sim: {{{{}}}}}}}}
models: {{{{llm: [sim/echo]}}}}
projects: {{{{shop: {{{{}}}}, wall: {{{{}}}}}}}}
auth:
  admin_token: {ADMIN}
  oidc:
    issuer: {{issuer}}
    client_id: gw
    client_secret: client-secret-8351026789
    public_url: {{url}}
    roles:
      - {{{{claim: groups, value: staff, role: viewer}}}}
      - {{{{claim: groups, value: heads, role: admin}}}}
"""


@attrs.define
class People:
    site: Site
    provider: FakeOpenId

    def page(self) -> dict[str, object]:
        found: dict[str, object] = self.site.ask("/api/pages/people")
        return found


@pytest.fixture
def people(tmp_path):
    with loopback_openid(time.time) as provider, starter(tmp_path) as start:
        daemon = start(PLAIN.format(issuer=provider.issuer, url="http://127.0.0.1:1"))
        (tmp_path / "gw.yaml").write_text(PLAIN.format(issuer=provider.issuer, url=daemon.url))
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("reloaded")
        yield People(Site(daemon.url, {"authorization": f"Bearer {ADMIN}"}), provider)


def logged_in(people: People, view, theme: str = "light", width: int = 1280, **changes: object):
    seen = view(people.site, theme=theme, width=width, allowed=("Failed to load resource", people.provider.issuer))
    seen.page.goto(f"{people.site.url}/people")
    seen.page.get_by_label("Admin token").fill(ADMIN)
    seen.page.get_by_role("button", name="Log in").click()
    seen.page.locator("main h1", has_text="People").wait_for()
    seen.settle()
    return seen


def signed_in(people: People, view, **claims: object):
    """Sign in with the provider, in a browser of one's own."""
    people.provider.claims = claims
    seen = view(people.site, allowed=("Failed to load resource", people.provider.issuer))
    seen.page.goto(f"{people.site.url}/costs")
    seen.page.get_by_role("link", name="Sign in with your account").click()
    seen.page.locator("main h1", has_text="Costs").wait_for()
    seen.settle()
    return seen


def rows(page, card: str) -> list[str]:
    found: list[str] = page.locator(f"section[aria-label='{card}'] tbody tr").all_inner_texts()
    return found


def test_it_shows_what_the_api_says(people, view, axe):
    seen = logged_in(people, view)
    page = seen.page
    assert "No service tokens yet" in page.locator("section[aria-label='Service tokens']").inner_text()
    assert "Nobody has signed in yet." in page.locator("section[aria-label=People]").inner_text()
    signed_in(people, view)
    signed_in(people, view, sub="<b>", email="<script>alert(1)</script>@x.example", groups=["heads"])
    made = {"name": "reports", "role": "operator", "projects": ["shop"], "capture": True}
    people.site.ask("/v1/tokens", made)
    seen.open("/people", "People")
    found = people.page()
    assert [len(found[name]) for name in ("people", "logins", "tokens")] == [2, 2, 1]
    for row, person in zip(rows(page, "People"), found["people"], strict=True):
        assert [person["name"], person["role"]] == row.split("\t")[:2]
        assert row.split("\t")[2:4] == ["all projects", "1"]
    for row, login in zip(rows(page, "Sessions"), found["logins"], strict=True):
        assert row.startswith(login["name"])
        assert login["address"] in row
    (row,) = rows(page, "Service tokens")
    assert row.split("\t")[:4] == ["reports", "operator captured content", "shop", found["tokens"][0]["token_masked"]]
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width in (1280, 390, 360):
            seen.resize(width)
            page.evaluate(axe)
            assert page.evaluate(FOUND) == []
            assert page.evaluate(SMALL) == []
            assert seen.wider_than(width) == []


def test_a_session_is_ended_and_a_person_blocked(people, view):
    person, page = signed_in(people, view), logged_in(people, view).page
    page.get_by_role("button", name=f"End the session of {EMAIL}").click()
    page.get_by_role("dialog").get_by_role("button", name="End").click()
    page.locator("section[aria-label=Sessions]", has_text="None.").wait_for()
    person.page.reload()
    person.page.get_by_label("Admin token").wait_for()

    again = signed_in(people, view)
    page.reload()
    page.get_by_role("button", name=f"Block {EMAIL}").click()
    page.get_by_role("button", name=f"Unblock {EMAIL}").wait_for()
    again.page.reload()
    again.page.get_by_role("link", name="Sign in with your account").click()
    again.page.get_by_role("alert").get_by_text("You are blocked").wait_for()
    page.get_by_role("button", name=f"Unblock {EMAIL}").click()
    page.get_by_role("button", name=f"Block {EMAIL}", exact=True).wait_for()
    signed_in(people, view)


def test_a_token_is_made_and_revoked(people, view):
    page = logged_in(people, view).page
    page.get_by_role("button", name="Create token").click()
    page.get_by_label("Name").fill("ci")
    page.get_by_label("Role").select_option("operator")
    page.get_by_label("wall").check()
    page.get_by_role("button", name="Create", exact=True).click()
    token = page.locator("[data-created]").inner_text()
    (made,) = people.page()["tokens"]
    assert (made["name"], made["role"], made["projects"], made["capture"]) == ("ci", "operator", ["wall"], False)
    assert abs(made["expires_at"] - time.time() - 90 * 86_400) < 60
    project = {"authorization": f"Bearer {token}"}
    assert people.site.ask("/v1/costs", headers=project)["total"] == 0
    page.get_by_role("button", name="Revoke ci").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("No service tokens yet").wait_for()
    assert people.site.ask("/v1/costs", headers=project)["error"]["code"] == "unauthorized"


def test_an_administrator_of_a_project_sees_its_tokens_alone(people, view):
    own = people.site.ask("/v1/tokens", {"name": "of the shop", "role": "admin", "projects": ["shop"]})
    people.site.ask("/v1/tokens", {"name": "of all", "role": "viewer"})
    seen = view(people.site, allowed="401")
    seen.page.goto(f"{people.site.url}/people")
    seen.page.get_by_label("Admin token").fill(own["token"])
    seen.page.get_by_role("button", name="Log in").click()
    seen.page.locator("main h1", has_text="People").wait_for()
    seen.settle()
    assert [row.split("\t")[0] for row in rows(seen.page, "Service tokens")] == ["of the shop"]
    assert "need a role for all projects" in seen.page.locator("main").inner_text()
    assert seen.page.locator("section[aria-label=People], section[aria-label=Sessions]").count() == 0


def test_an_error_is_shown_and_loading_can_be_tried_again(people, view):
    seen = logged_in(people, view)
    page = seen.page
    page.route("**/api/pages/people", lambda route: route.abort())
    page.reload()
    page.get_by_role("alert").get_by_text("The gateway does not answer").wait_for()
    page.unroute("**/api/pages/people")
    page.get_by_role("button", name="Try again").click()
    page.locator("section[aria-label='Service tokens']").wait_for()


def test_the_page_says_that_it_loads_until_there_is_an_answer(people, view):
    page = logged_in(people, view).page
    waiting = []
    page.route("**/api/pages/people", lambda route: waiting.append(route))  # the answer waits
    with page.expect_request("**/api/pages/people"):
        page.reload()
    main = page.locator("main")
    main.locator("[aria-busy=true]").get_by_text("Loading").wait_for()
    assert main.locator("h1").inner_text() == "People"
    assert main.locator("section, [role=alert]").count() == 0
    assert main.get_by_role("button", name="Create token").is_enabled()
    until = time.monotonic() + 60
    while not waiting:
        assert time.monotonic() < until
        assert main.get_by_text("Loading").count() == 1  # the page's events are handled meanwhile
    waiting[0].continue_()
    main.locator("section[aria-label='Service tokens']").wait_for()
    assert main.locator("[aria-busy=true]").count() == 0
    assert main.get_by_text("Loading").count() == 0
