"""Making, changing and deleting: always with the API's preview first, never what gw.yaml defines."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


def _row(page, name):
    return page.locator(f'tr[data-id="{name}"]')


def test_a_provider_and_its_models(fresh, view):
    seen = view(fresh)
    page = seen.open("/providers")
    page.get_by_role("button", name="Add provider").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Id Letters").fill("backup")
    dialog.get_by_label("Type").select_option("openai")
    dialog.get_by_label("API key").fill("sk-abcdefgh12345678")
    dialog.get_by_role("button", name="Add").click()
    _row(page, "backup").wait_for()
    answer = fresh.ask("/v1/providers/backup")
    assert answer["api_key_masked"] in _row(page, "backup").inner_text()
    assert "sk-abcdefgh12345678" not in page.content()

    page.get_by_role("link", name="Models", exact=True).click()
    page.get_by_role("button", name="Add model").click()
    dialog.get_by_label("Provider").select_option("backup")
    dialog.get_by_label("Vendor's model name").fill("gpt-5-mini")
    dialog.get_by_role("button", name="Add").click()
    _row(page, "backup/gpt-5-mini").wait_for()
    page.get_by_role("button", name="Edit backup/gpt-5-mini").click()
    dialog.get_by_label("Display name").fill("Small one")
    dialog.get_by_role("button", name="Save").click()
    _row(page, "backup/gpt-5-mini").get_by_text("Small one").wait_for()
    assert fresh.ask("/v1/models/backup/gpt-5-mini")["display_name"] == "Small one"

    page.get_by_role("button", name="Edit backup/gpt-5-mini").click()
    dialog.get_by_label("Price in USD per").select_option("1M_tokens")
    dialog.get_by_label("Input", exact=True).fill("0.3")
    dialog.get_by_label("Output").fill("1.2")
    dialog.get_by_label("From (UTC day)").fill("2026-01-01")
    dialog.get_by_role("button", name="Save").click()
    _row(page, "backup/gpt-5-mini").get_by_text("$0.30/M in").wait_for()
    prices = ["input 0.3, output 1.2 per 1M tokens, since 2026-01-01"]
    assert fresh.ask("/v1/models/backup/gpt-5-mini")["prices"] == prices

    page.get_by_role("link", name="Providers", exact=True).click()
    page.get_by_role("button", name="Edit backup").click()
    dialog.get_by_label("Address").fill("https://api.example.com/v1")
    dialog.get_by_role("button", name="Save").click()
    dialog.get_by_role("alert").wait_for()  # another host asks for a new key
    dialog.get_by_label("API key").fill("sk-other-abcdefgh1234")
    dialog.get_by_role("button", name="Save").click()
    dialog.wait_for(state="detached")
    assert fresh.ask("/v1/providers/backup")["base_url"] == "https://api.example.com/v1"

    page.get_by_role("button", name="Delete backup").click()
    preview = page.locator("[data-preview]")
    preview.wait_for()
    assert preview.locator(".item").all_inner_texts() == ["backup/gpt-5-mini"]
    assert dialog.get_by_role("button", name="Delete", exact=True).is_disabled()
    dialog.get_by_label("Delete its model too").check()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    _row(page, "backup").wait_for(state="detached")
    assert "backup" not in fresh.ask("/api/status")["providers"]
    seen.troubles.clear()  # the browser's own note of the 400


def test_a_preview_deletes_nothing(fresh, view):
    fresh.ask("/v1/projects", {"project_id": "kept"})
    page = view(fresh).open("/projects")
    page.get_by_role("button", name="Delete kept").click()
    page.locator("[data-preview]", has_text="kept").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.reload()
    _row(page, "kept").wait_for()
    assert fresh.ask("/v1/projects/kept")["project_id"] == "kept"


def test_a_project(fresh, view):
    seen = view(fresh)
    page = seen.open("/projects")
    page.get_by_role("button", name="Add project").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Id Letters").fill("phone")
    dialog.get_by_label("Name").fill("Phone line")
    dialog.get_by_label("Daily budget in USD").fill("5")
    dialog.get_by_label("Tags").fill("production, de")
    dialog.get_by_role("button", name="Add").click()
    _row(page, "phone").get_by_text("0 % of $5.00").wait_for()
    answer = fresh.ask("/v1/projects/phone")
    assert (answer["name"], answer["daily_budget"], answer["tags"]) == ("Phone line", 5, ["production", "de"])
    page.get_by_role("button", name="Edit phone").click()
    dialog.get_by_label("When a budget is spent").select_option("block")
    dialog.get_by_role("button", name="Save").click()
    _row(page, "phone").get_by_text("then blocked").wait_for()
    page.get_by_role("button", name="Delete phone").click()
    page.locator("[data-preview]", has_text="phone").wait_for()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    _row(page, "phone").wait_for(state="detached")


def test_what_cannot_be_made_is_told_with_its_field(fresh, view):
    seen = view(fresh)
    page = seen.open("/projects")
    page.get_by_role("button", name="Add project").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Id Letters").fill("demo")
    dialog.get_by_role("button", name="Add").click()
    assert "demo" in dialog.get_by_role("alert").inner_text()
    seen.troubles.clear()  # the browser's own note of the 409


def test_a_key_is_shown_once_and_opens(guarded, view):
    seen = view(guarded, extra_http_headers=guarded.headers)
    page = seen.open("/keys")
    assert "gw.yaml:" in _row(page, "till").inner_text()
    assert _row(page, "till").get_by_role("button").count() == 0
    page.get_by_role("button", name="Create key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("agent")
    dialog.get_by_label("Project").select_option("shop")
    dialog.get_by_label("Expires after").select_option("30 days")
    dialog.get_by_role("button", name="Create", exact=True).click()
    key = page.locator("[data-created]").inner_text()
    assert guarded.ask("/v1/models", headers={"authorization": f"Bearer {key}"})["object"] == "list"
    page.reload()
    seen.settle()
    assert key not in page.content()
    page.get_by_role("button", name="Revoke agent").click()
    page.locator("[data-preview]", has_text="shop").wait_for()
    dialog.get_by_role("button", name="Revoke", exact=True).click()
    page.get_by_role("button", name="Revoke agent").wait_for(state="detached")
    assert guarded.ask("/v1/models", headers={"authorization": f"Bearer {key}"})["error"]["type"] == "AuthError"


def test_limits_of_a_key_are_set_and_what_it_has_spent_is_shown(fresh, view):
    key = fresh.ask("/v1/keys", {"name": "agent", "project": "default"})
    seen = view(fresh)
    page = seen.open("/keys")
    assert "none" in _row(page, key["key_id"]).inner_text()
    page.get_by_role("button", name="Edit agent").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Monthly budget in USD").fill("20")
    dialog.get_by_label("Total budget in USD").fill("100")
    dialog.get_by_label("Requests a minute").fill("60")
    dialog.get_by_label("Requests and sessions at once").fill("2")
    dialog.get_by_role("textbox", name="Models").fill("sim/*, sim/echo")
    dialog.get_by_role("textbox", name="Regions").fill("local, eu")
    dialog.get_by_label("language models").check()
    dialog.get_by_role("button", name="Save").click()
    row = _row(page, key["key_id"])
    row.locator("[data-period=month]").wait_for()
    assert row.locator("[data-period=month]").inner_text().split() == ["0", "%", "of", "$20.00", "a", "month", "then", "refused"]
    assert row.locator("[data-period=total]").inner_text().split()[:6] == ["0", "%", "of", "$100.00", "in", "all"]
    for limit in ("sim/*", "language models", "in local", "in eu", "60 a minute", "2 at once"):
        assert limit in row.inner_text()
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
    fresh.ask("/v1/chat/completions", body, headers={"authorization": f"Bearer {key['key']}"})
    [shown] = fresh.ask("/v1/keys")["keys"]
    assert (shown["monthly_budget"], shown["total_budget"]) == (20, 100)
    assert (shown["models"], shown["modalities"]) == (["sim/*", "sim/echo"], ["llm"])
    assert shown["regions"] == ["local", "eu"]
    assert (shown["requests_per_minute"], shown["max_concurrent"], shown["expires_at"]) == (60, 2, None)
    assert shown["spent_total"] > 0
    page.reload()
    seen.settle()
    spent = _row(page, key["key_id"]).locator("td.num").all_inner_texts()
    assert spent[0] == spent[1] != "$0.00"


def test_what_gw_yaml_defines_is_locked_with_its_line(guarded, view):
    seen = view(guarded, extra_http_headers=guarded.headers)
    for path, name, line in (("/providers", "sim", 3), ("/models", "sim/echo", 9), ("/projects", "shop", 14)):
        page = seen.open(path)
        row = _row(page, name).first
        assert f"gw.yaml:{line}" in row.inner_text()
        assert row.get_by_role("button", name="Edit").count() == row.get_by_role("button", name="Delete").count() == 0


def test_a_chain_is_changed_and_put_back(fresh, view):
    page = view(fresh).open("/models")
    chain = page.locator(".chain", has_text="llm")
    chain.get_by_label("Add a model to the llm chain").select_option("sim/scripted")
    chain.locator("li", has_text="sim/scripted").wait_for()
    assert fresh.ask("/v1/fallbacks")["fallbacks"]["llm"]["models"] == ["sim/flaky", "sim/echo", "sim/scripted"]
    chain.get_by_role("button", name="Move sim/scripted up").click()
    chain.locator("li").nth(1).get_by_text("sim/scripted").wait_for()
    chain.get_by_role("button", name="Remove sim/flaky").click()
    chain.locator("li", has_text="sim/flaky").wait_for(state="detached")
    assert fresh.ask("/v1/fallbacks")["fallbacks"]["llm"]["models"] == ["sim/scripted", "sim/echo"]
    chain.get_by_role("button", name="Restore gw.yaml's chain").click()
    chain.locator("li", has_text="sim/flaky").wait_for()
    assert fresh.ask("/v1/fallbacks")["fallbacks"]["llm"] == {"models": ["sim/flaky", "sim/echo"], "source": "yaml"}
