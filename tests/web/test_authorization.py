"""Hosts, origins and rights."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from gw.config.settings import Auth, CostTracking, Serve, Settings
from gw.telemetry.clock import RequestIds
from gw.types.secret import Secret
from gw.web.authorization import fenced, host_allowed, host_in
from tests.fakes.records import HandClock
from tests.fakes.temporary_gateway import ADMIN, call

TOKEN = Auth(admin_token=Secret("admin-token-8351026789"))


def settings(auth: Auth = Auth(), **serve: object) -> Settings:  # noqa: B008  # frozen
    return Settings(
        path=None,
        providers={},
        models={},
        cost_tracking=CostTracking(db_path=Path("unused.db")),
        auth=auth,
        serve=Serve(**serve),
    )


@attrs.frozen
class Access:
    settings: Settings
    current: object = None
    request_ids: RequestIds = attrs.field(factory=lambda: RequestIds(HandClock()))


class Inside:
    """The app behind the fence; notes what came through."""

    def __init__(self) -> None:
        self.scopes = []

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def inside() -> Inside:
    return Inside()


@pytest.mark.parametrize(
    ("authority", "host"),
    [("Example.ORG:8080", "example.org"), ("[::1]:8080", "::1"), ("127.0.0.1", "127.0.0.1"), ("a.example.", "a.example")],
)
def test_the_host_of_an_authority(authority, host):
    assert host_in(authority) == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "gw.localhost", "::1"])
def test_loopback_is_always_good(host):
    assert host_allowed(settings(), host)
    assert host_allowed(settings(TOKEN, host="0.0.0.0", allowed_hosts=("gw.example",)), host)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "192.0.2.7", "127.0.0.1.evil.example", ""])
def test_bound_to_loopback_nothing_else_is(host):
    assert not host_allowed(settings(), host)
    assert not host_allowed(settings(TOKEN), host)


@pytest.mark.parametrize(
    ("allowed", "host", "good"),
    [
        (("gw.example",), "gw.example", True),
        (("GW.example",), "gw.example", True),
        (("gw.example",), "other.example", False),
        (("*.example",), "a.b.example", True),
        (("*.example",), "example", False),
        (("*.example",), "notexample", False),
        (("*",), "anything.at.all", True),
    ],
)
def test_the_list_of_allowed_hosts(allowed, host, good):
    assert host_allowed(settings(allowed_hosts=allowed), host) is good


def test_beyond_loopback_addresses_are_good_and_names_where_credentials_protect():
    for auth in (Auth(), TOKEN):
        assert host_allowed(settings(auth, host="0.0.0.0"), "192.0.2.7")
        assert host_allowed(settings(auth, host="gw.example"), "gw.example")
    assert host_allowed(settings(TOKEN, host="0.0.0.0"), "gw.example")
    assert not host_allowed(settings(Auth(allow_open=True), host="0.0.0.0"), "gw.example")
    assert not host_allowed(settings(TOKEN, host="0.0.0.0", allowed_hosts=("gw.example",)), "evil.example")


async def test_a_foreign_host_is_turned_away(inside):
    app = fenced(inside, Access(settings()))
    answer = await call(app, "/v1/status", {"host": "evil.example:8080"})
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert answer.error["request_id"] == answer.headers["x-request-id"]
    assert inside.scopes == []
    assert (await call(app, "/v1/status", {"host": "localhost:8080"})).status == 200


SAME = {"origin": "http://127.0.0.1:8080"}
FOREIGN = {"origin": "http://evil.example"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        (SAME, 200),
        ({"origin": "https://127.0.0.1:8080"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        (FOREIGN, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "file://127.0.0.1:8080"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_writes_of_foreign_pages_are_turned_away(inside, headers, status):
    app = fenced(inside, Access(settings()))
    assert (await call(app, "/v1/projects", headers, method="POST")).status == status
    assert len(inside.scopes) == (status == 200)


async def test_reads_of_foreign_pages_get_no_cors_headers(inside):
    answer = await call(fenced(inside, Access(settings())), "/v1/status", FOREIGN)
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_listed_origin_may_read_and_write(inside):
    app = fenced(inside, Access(settings(cors_origins=("http://app.example",))))
    listed = {"origin": "http://app.example", "sec-fetch-site": "cross-site"}
    answer = await call(app, "/v1/chat/completions", listed, method="POST")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "http://app.example"
    assert answer.headers["access-control-expose-headers"] == "*"
    assert answer.headers["vary"] == "origin"
    assert (await call(app, "/v1/chat/completions", FOREIGN, method="POST")).status == 403


async def test_the_preflight_of_a_listed_origin(inside):
    """SDKs for browsers send headers of their own, so the answer allows what was requested, but for the dashboard's own header."""
    app = fenced(inside, Access(settings(cors_origins=("http://app.example",))))
    names = "X-Stainless-OS, x-fern-language, anthropic-dangerous-direct-browser-access, openai-organization, authorization"
    for requested, allowed in (
        (names, names.lower()),
        ("X-GW-Dashboard, xi-api-key", "xi-api-key"),
        ("x-\xe9, a b, a:b, , x-ok,x-ok", "x-ok"),
        (", ".join(f"x-{n}" for n in range(1_000)), ", ".join(f"x-{n}" for n in range(100))),
        ("a" * 101, None),
        ("", None),
    ):
        headers = {"origin": "http://app.example", "access-control-request-headers": requested}
        answer = await call(app, "/v1/chat/completions", headers, method="OPTIONS")
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers.get("access-control-allow-headers") == allowed
        assert answer.headers["access-control-allow-origin"] == "http://app.example"
        assert answer.headers["vary"] == "origin, access-control-request-headers"
    assert inside.scopes == []


async def test_a_preflight_from_a_public_page_to_a_private_network(inside):
    app = fenced(inside, Access(settings(cors_origins=("http://app.example",))))
    for asked in ({}, {"access-control-request-private-network": "true"}):
        answer = await call(app, "/v1/listen", {"origin": "http://app.example", **asked}, method="OPTIONS")
        assert answer.headers.get("access-control-allow-private-network") == ("true" if asked else None)


async def test_every_page_may_call_when_all_origins_are_listed(inside):
    app = fenced(inside, Access(settings(cors_origins=("*",))))
    for origin in ("http://app.example", "https://other.example:8443", "null"):
        answer = await call(app, "/v1/chat/completions", {"origin": origin, "sec-fetch-site": "cross-site"}, method="POST")
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(("origin", "through"), [(b"http://127.0.0.1:8080", True), (b"http://evil.example", False)])
async def test_sockets_of_foreign_pages_are_refused(inside, origin, through):
    sent = []

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8080"), (b"origin", origin)]
    await fenced(inside, Access(settings()))({"type": "websocket", "headers": headers}, None, send)
    assert bool(inside.scopes) is through
    assert sent == ([] if through else [{"type": "websocket.close", "code": 1008}])


async def test_lifespan_passes(inside):
    await fenced(inside, Access(settings()))({"type": "lifespan"}, None, None)
    assert inside.scopes == [{"type": "lifespan"}]


async def test_changed_settings_count_at_once(inside):
    @attrs.define
    class Changing:
        request_ids = RequestIds(HandClock())
        settings: Settings
        current: object = None

    access = Changing(settings())
    app = fenced(inside, access)
    assert (await call(app, "/", {"host": "gw.example"})).status == 403
    access.settings = settings(allowed_hosts=("gw.example",))
    assert (await call(app, "/", {"host": "gw.example"})).status == 200


async def test_a_head_that_repeats_is_looked_at_once_per_settings(inside):
    @attrs.define
    class Changing:
        request_ids = RequestIds(HandClock())
        settings: Settings
        current: object = None

    access, known = Changing(settings(allowed_hosts=("gw.example",))), {}
    app = fenced(inside, access)

    async def same_head(scope, receive, send):
        await app(scope | {"gw.known": known}, receive, send)

    for _ in range(2):
        assert (await call(same_head, "/", {"host": "gw.example"}, method="POST")).status == 200
    assert known == {"fence": access.settings}
    access.settings = settings()
    assert (await call(same_head, "/", {"host": "gw.example"}, method="POST")).status == 403
    known.clear()
    listed = settings(cors_origins=("http://app.example",))
    access.settings = listed
    for _ in range(2):
        answer = await call(same_head, "/", {"origin": "http://app.example"})
        assert answer.headers["access-control-allow-origin"] == "http://app.example"
    assert (await call(same_head, "/", FOREIGN, method="POST")).status == 403
    assert known == {}


async def test_the_whole_control_plane_is_fenced(guarded, app_of):
    app = app_of(guarded)
    for target in ("/", "/health", "/v1/status", "/api/status", "/assets/x", "/v1/metrics"):
        assert (await call(app, target, {**ADMIN, "host": "evil.example"})).status == 403


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"cookie": "gw_session=9999999999.aa"}])
async def test_wrong_credentials_are_401_and_say_so(guarded, app_of, headers):
    answer = await call(app_of(guarded), "/v1/status", headers)
    assert (answer.status, answer.error["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_wrong_header_beats_a_good_session(guarded, app_of):
    app = app_of(guarded)
    login = {"content-type": "application/json"}
    answer = await call(app, "/api/login", login, method="POST", body=b'{"token": "admin-token-8351026789"}')
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert (await call(app, "/v1/status", {"cookie": cookie})).status == 200
    assert (await call(app, "/v1/status", {"cookie": cookie, "authorization": "Bearer wrong"})).status == 401
