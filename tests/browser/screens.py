"""Take the pictures of docs/screens: `python tests/browser/screens.py`, with what the `browser` session installs.

A demo with some traffic and a few entries made through the API: every page, and the overview also in the dark theme and on a narrow screen.
docs/check.py compares the folder with this list, and with the pictures that pages show.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.conftest import CHROMIUM, Site  # noqa: E402
from tests.e2e.conftest import starter  # noqa: E402
from tests.fakes.alert_receiver import SECRET, AlertReceiver, loopback_receiver  # noqa: E402

FOLDER = ROOT / "docs" / "screens"
PAGES = {
    "overview": "/", "sessions": "/sessions", "turns": "/turns", "logs": "/logs",
    "latency": "/latency?period=week&model=sim/echo&other=sim/flaky",
    "costs": "/costs?period=month", "reliability": "/reliability?period=week", "providers": "/providers",
    "models": "/models", "projects": "/projects", "keys": "/keys", "playground": "/playground", "audit": "/audit",
    "settings": "/settings", "live": "/live",
}  # fmt: skip
PICTURES = [*((name, "light", 1280) for name in (*PAGES, "turn", "alerts")), ("overview", "dark", 1280), ("overview", "light", 360)]
"""Page, theme and width of each picture."""


WITH_ALERTS = """
providers: {{sim: {{}}, backup: {{type: openai, api_key: sk-abcdefgh12345678, base_url: "http://127.0.0.1:1/v1"}}}}
models: {{llm: {{sim/echo: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}, backup/gpt-5-mini: }}}}
fallbacks: {{llm: [sim/echo]}}
projects: {{phone: {{daily_budget: 0.02, budget_action: block}}}}
alerts:
  receivers:
    oncall: {{url: "{url}", secret: {secret}}}
    team: {{type: slack, url: "http://127.0.0.1:1/services/T0/B0"}}
  disabled: [fallback_rate]
  check_s: 1
"""
"""A gateway with incidents, for the page of alerts: a spent budget and a provider that cannot be reached; one receiver is away."""


def file_name(name: str, theme: str, width: int) -> str:
    return f"{name}-{theme}{'-narrow' if width < 800 else ''}.png"


def seed(site: Site) -> None:
    for number in range(12):
        site.turn(f"turn-{number}", session=f"call-{number // 4}", project="demo" if number % 3 == 0 else "default")
        site.chat(model="default", project="default")
    site.chat(model="sim/flaky", fallback="off")
    key = {"provider_id": "backup", "provider_type": "openai", "api_key": "sk-abcdefgh12345678"}
    site.ask("/v1/providers", key)
    site.ask("/v1/models", {"modality": "llm", "provider_id": "backup", "model_name": "gpt-5-mini"})
    site.ask("/v1/projects", {"project_id": "phone", "name": "Phone line", "daily_budget": 5, "tags": ["production"]})
    site.ask("/v1/projects/phone", {"daily_budget": 7.5, "budget_action": "block"}, method="PATCH")
    site.ask("/v1/keys", {"project": "phone", "name": "agent in Berlin"})


def seed_alerts(site: Site, receiver: AlertReceiver) -> None:
    for _ in range(6):
        site.chat(model="backup/gpt-5-mini", project="phone")
    receiver.wait_for(lambda r: {rule for _, rule, _ in r.incidents} >= {"provider_failing", "budget_exceeded"})
    site.ask("/v1/alerts/prices_old/mute", {"hours": 8})


def take(browser: Browser, site: Site, name: str, path: str, theme: str, width: int) -> None:
    page = browser.new_page(color_scheme=theme, viewport={"width": width, "height": 800})  # type: ignore[arg-type]
    page.goto(site.url + path)
    page.locator("main:not(:has([aria-busy=true])) h1").first.wait_for()
    if name == "live":
        page.get_by_text("connected", exact=True).wait_for()
        for number in range(4):
            site.turn(f"{theme}-{number}")
        page.locator("tr[data-id]").nth(11).wait_for()
    page.wait_for_timeout(300)  # charts are drawn in the next frame
    page.screenshot(path=FOLDER / file_name(name, theme, width))
    page.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, starter(Path(folder)) as start, sync_playwright() as playwright:
        site = Site(start().url)
        seed(site)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        turn = next(one["turn_id"] for one in site.ask("/api/turns?limit=200") if one["fallbacks"])
        paths = {**PAGES, "turn": f"/turns/{turn}"}
        for old in FOLDER.glob("*.png"):
            old.unlink()
        for name, theme, width in PICTURES:
            if name != "alerts":
                take(browser, site, name, paths[name], theme, width)
        with loopback_receiver(time.time) as (receiver, url):
            alerted = Site(start(WITH_ALERTS.format(url=url, secret=SECRET)).url)
            seed_alerts(alerted, receiver)
            take(browser, alerted, "alerts", "/alerts", "light", 1280)
        browser.close()


if __name__ == "__main__":
    main()
