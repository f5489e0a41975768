"""The documentation's site in Chromium: found by its search, read in both themes, and nothing comes from elsewhere."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.browser.conftest import Site

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write no line for each file."""


@pytest.fixture(scope="module")
def docs_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "docs" / "build_site.py", folder], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_code_is_found_by_the_search_and_pictures_are_shown(view, docs_site, theme):
    """`view` fails at a request to another host, and at an error in the page."""
    page = view(Site(docs_site), theme=theme).page
    page.goto(f"{docs_site}/index.html")
    page.get_by_role("button", name="Search").first.click()
    page.get_by_role("combobox", name="Search").fill("budget_reserved")  # at once: lists of its beginnings would move under the click
    page.get_by_role("option").filter(has_text="Troubleshooting").click()
    page.wait_for_url("**/troubleshooting.html*")
    assert "budget_reserved" in page.locator("article").inner_text()
    for name in ("concepts/requests", "concepts/budgets", "tutorial/livekit", "dashboard"):
        page.goto(f"{docs_site}/{name}.html")
        widths = page.evaluate("Promise.all([...document.images].map(async i => { await i.decode(); return i.naturalWidth }))")
        assert widths
        assert min(widths) > 0
