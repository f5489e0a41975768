"""Every route × 12 kinds of credential × 3 modes, over a socket. Generated from the table of routes; a part by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gw.web.route import Route
from tests.contract.test_access import ADMIN, DASHBOARD, ROUTES, SHOP, status_of, target_of
from tests.fakes.cells import SUMMARY, Cells
from tests.fakes.nightly import NIGHTLY, cells
from tests.fakes.running import Running, open_running
from tests.fakes.temporary_gateway import YAML

PART = 7
ADMIN_ONLY = f"auth: {{admin_token: {ADMIN}}}\n"
MODES = {
    "open": "",
    "an admin token": ADMIN_ONLY,
    "an admin token and keys": f"auth: {{admin_token: {ADMIN}, keys: [{{key: {SHOP}, project: shop}}]}}\n",
}
Headers = Mapping[str, str]
KINDS = (
    "none", "empty", "wrong", "cut short", "admin token", "project key", "expired key", "revoked key", "temporary token",
    "session of the dashboard", "session without its header", "session that was logged out",
)  # fmt: skip
NOBODY = frozenset(("none", "empty", "wrong", "cut short", "expired key", "revoked key", "session that was logged out"))


def _bearer(key: str) -> Headers:
    return {"authorization": f"Bearer {key}"}


async def _key(running: Running, **members: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await running.ask("POST", "/v1/keys", {"project": "shop", **members}, **_bearer(ADMIN))).json
    return made


async def _session(running: Running) -> Headers:
    answer = await running.ask("POST", "/api/login", {"token": ADMIN})
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def credentials(running: Running, mode: str) -> dict[str, Headers]:
    """Return the headers of each kind. A gateway without credentials has no sessions: a cookie stands for them."""
    key = (await _key(running))["key"]
    expired = (await _key(running, expires_at=running.clock.now() + 1))["key"]
    revoked = await _key(running)
    await running.ask("DELETE", f"/v1/keys/{revoked['key_id']}?confirm=true", **_bearer(ADMIN))
    grant = await running.ask("POST", "/v1/auth/grant", {"ttl_seconds": 3_600}, authorization=f"Token {key}")
    running.clock.at += 2
    none = {"cookie": "gw_session=9999999999.aa.bb"}
    session = none if mode == "open" else await _session(running)
    ended = none
    if mode != "open":
        running.clock.at += 1  # of a second, so that it is another session
        ended = await _session(running)
        await running.ask("POST", "/api/logout", **ended)
    return {
        "none": {}, "empty": _bearer(""), "wrong": _bearer("gwk_wrong_8351026789"), "cut short": _bearer(ADMIN[:-1]),
        "admin token": _bearer(ADMIN), "project key": _bearer(key), "expired key": _bearer(expired),
        "revoked key": _bearer(revoked["key"]), "temporary token": _bearer(grant.json["access_token"]),
        "session of the dashboard": {**session, **DASHBOARD, "origin": running.url}, "session without its header": session,
        "session that was logged out": {**ended, **DASHBOARD, "origin": running.url},
    }  # fmt: skip


def expected(mode: str, kind: str, operation: Route) -> int:
    """Return 401, 403, or 0 for whoever is let in."""
    right = operation.right
    if mode == "open" or right == "public" or right == "metrics":
        return 0
    if kind in NOBODY:
        return 401
    if kind in ("project key", "temporary token"):
        return 0 if right in ("key", "call") else 403
    if kind == "session without its header":
        return 401 if operation.tag == "Voice" else 0
    return 0


async def test_every_route_and_kind_in_every_mode(tmp_path, record_property):
    routes = [(operation, path) for operation, path in ROUTES if operation.id not in ("logout", "login")]
    chosen = list(cells(tuple(MODES), KINDS, routes, part=PART))
    everything = len(MODES) * len(KINDS) * len(routes)
    ran = Cells(at_least=everything if NIGHTLY else everything // PART - 1)
    for number, (mode, text) in enumerate(MODES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_running(folder, YAML + text) as running:
            headers = await credentials(running, mode)
            for kind, (operation, path) in [(kind, route) for name, kind, route in chosen if name == mode]:
                with ran.cell(f"{mode}, {kind}, {operation.method} {path}"):
                    status = await status_of(running, operation.method, target_of(path), dict(headers[kind]))
                    assert (status if status in (401, 403) else 0) == expected(mode, kind, operation), status
                    assert status < 500 or (operation.id, status) == ("front", 503), status
    record_property(SUMMARY, ran.summary(f"{len(MODES)} modes × {len(KINDS)} kinds of credential × {len(routes)} routes", everything))
    ran.check()
    assert everything >= 2_988
    assert {kind for _, kind, _ in chosen} == set(KINDS)
    assert len({path for _, _, (_, path) in chosen}) == len({path for _, path in routes})
