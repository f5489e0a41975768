"""The dashboard's files, and what stands in for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gw.web.static_files import CSP, PAGES, Frontend, load
from tests.fakes.temporary_gateway import call

HTML = {"accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
INDEX = b"<!doctype html><title>gw</title>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = tmp_path / "frontend_dist"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_bytes(INDEX)
    (built / "favicon.svg").write_bytes(b"<svg/>")
    (built / "build.json").write_bytes(b"{}")
    (built / "assets" / "index-3f2a.js").write_bytes(b"plain")
    (built / "assets" / "index-3f2a.js.gz").write_bytes(b"gzipped")
    (built / "assets" / "index-3f2a.js.br").write_bytes(b"brotli")
    (built / "assets" / "style-77.css").write_bytes(b"css")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (built / "assets" / "link.txt").symlink_to(tmp_path / "secret.txt")
    return built


@pytest.fixture
def built_app(gateway, app_of, folder):
    return app_of(gateway, site=load([folder]))


async def test_the_page(built_app):
    answer = await call(built_app, "/", HTML)
    assert (answer.status, answer.body) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == CSP
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
async def test_programs_get_a_small_status_at_the_root(built_app, accept):
    answer = await call(built_app, "/", {"accept": accept})
    assert (answer.status, answer.json["status"], answer.json["dashboard"]) == (200, "ok", "built")


@pytest.mark.parametrize("path", ["/costs", "/turns/abc", "/models", "/index.html"])
async def test_paths_of_the_page_s_own_router_get_the_page(built_app, path):
    answer = await call(built_app, path, HTML)
    assert (answer.status, answer.body) == (200, INDEX)


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
@pytest.mark.parametrize("path", ["/costs", "/turns/abc", "/models", "/metrics", "/healthz"])
async def test_programs_get_no_page(built_app, path, accept):
    answer = await call(built_app, path, {"accept": accept})
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nothing", "/Costs", "/v1/nothing", "/anthropic/x"])
async def test_browsers_get_no_page_where_the_dashboard_has_none(built_app, path):
    answer = await call(built_app, path, HTML)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/json")


def test_the_pages_are_those_of_the_dashboard():
    source = Path(__file__).resolve().parents[2] / "frontend" / "src" / "lib" / "pages.ts"
    assert set(re.findall(r'\{ path: "/(\w+)"', source.read_text(encoding="utf-8"))) == PAGES


async def test_assets_are_cached_for_ever_and_recognised(built_app):
    answer = await call(built_app, "/assets/style-77.css")
    assert (answer.body, answer.headers["content-type"]) == (b"css", "text/css; charset=utf-8")
    assert "immutable" in answer.headers["cache-control"]
    again = await call(built_app, "/assets/style-77.css", {"if-none-match": f'"x", W/{answer.headers["etag"]}'})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("accepted", "body", "encoding"),
    [
        ("gzip, deflate, br", b"brotli", "br"),
        ("gzip", b"gzipped", "gzip"),
        ("br;q=0, gzip;q=0.5", b"gzipped", "gzip"),
        ("identity", b"plain", None),
        ("", b"plain", None),
    ],
)
async def test_precompressed_siblings(built_app, accepted, body, encoding):
    answer = await call(built_app, "/assets/index-3f2a.js", {"accept-encoding": accepted})
    assert (answer.body, answer.headers.get("content-encoding")) == (body, encoding)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    "path",
    ["/assets/missing.js", "/assets/", "/assets/../index.html", "/assets/%2e%2e/secret.txt", "/assets/link.txt",
     "/assets/index-3f2a.js.gz", "/assets/..%2f..%2fsecret.txt"],
)  # fmt: skip
async def test_only_exact_keys_are_served(built_app, path):
    answer = await call(built_app, path)
    assert answer.status == 404
    assert b"secret" not in answer.body


async def test_the_root_serves_no_file_outside(built_app):
    for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/build.json"):
        assert (await call(built_app, path, HTML)).status == 404


async def test_head_and_post(built_app):
    assert (await call(built_app, "/assets/style-77.css", method="HEAD")).body == b""
    assert (await call(built_app, "/assets/style-77.css", method="POST")).status == 404
    assert (await call(built_app, "/", method="POST")).status == 405


async def test_without_a_build_the_page_says_how_to_make_one(app):
    for path in ("/", "/costs"):
        answer = await call(app, path, HTML)
        assert answer.status == 503
        assert b"npm run build" in answer.body
        assert answer.headers["content-type"].startswith("text/html")
    assert "npm run build" in (await call(app, "/")).json["dashboard"]


def test_the_first_folder_that_was_built_is_taken(folder, tmp_path):
    assert load([tmp_path / "nothing", folder]).built
    assert not load([tmp_path / "nothing"]).built
    assert Frontend({}).file("/index.html", "", "") is None


async def test_the_page_needs_no_credential(guarded, app_of, folder):
    app = app_of(guarded, site=load([folder]))
    for path in ("/", "/costs", "/assets/style-77.css"):
        assert (await call(app, path, HTML)).status == 200
