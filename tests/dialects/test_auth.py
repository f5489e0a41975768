"""Every place of a credential, and the caller it stands for."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import attrs
import pytest

from gw.config.settings import Auth, AuthKey, CostTracking, Settings
from gw.dialects.auth import credential, identify, principal, query_fields, request_id
from gw.errors import AuthError, ForbiddenError, UnknownProjectError
from gw.registry.catalog import Catalog
from gw.registry.credentials import Credentials
from gw.telemetry.clock import RequestIds
from gw.types.entities import Project, StoredKey
from gw.types.ids import Link, TraceContext
from gw.types.roles import EVERYTHING
from gw.types.secret import Secret
from tests.fakes.records import HandClock

ADMIN = "admin-token-8351026789"
KEY = "gwk_shop-key-8351026789"
CLOSED = Auth(
    admin_token=Secret(ADMIN),
    keys=(
        AuthKey(key=Secret(KEY), project="shop", name="till"),
        AuthKey(key=Secret("gwk_nameless"), project="default"),
        AuthKey(key=Secret("gwk_orphan"), project="gone"),
    ),
)


@attrs.frozen
class Current:
    catalog: Catalog


@attrs.frozen
class Access:
    settings: Settings
    current: Current
    clock: HandClock
    credentials: Credentials
    request_ids: RequestIds


def access(auth: Auth = Auth(), *built: StoredKey, clock: HandClock | None = None) -> Access:  # noqa: B008  # frozen
    settings = Settings(
        path=None, providers={}, models={}, cost_tracking=CostTracking(db_path=Path("unused.db")), auth=auth
    )
    projects = {name: Project(id=name) for name in ("default", "shop")}
    clock = clock or HandClock()
    catalog = Catalog(providers={}, models={}, projects=projects, keys=built)
    return Access(settings, Current(catalog), clock, Credentials(clock), RequestIds(clock))


def made_key(key: str, **facts: object) -> StoredKey:
    return StoredKey(**{"id": "key_1", "digest": sha256(key.encode()).hexdigest(), "masked": "", "project": "shop", **facts})


def scope(*headers: tuple[bytes, bytes], query: bytes = b"") -> dict[str, object]:
    return {"type": "http", "path": "/v1/listen", "headers": list(headers), "query_string": query}


def bearer(key: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Bearer " + key.encode()


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([(b"authorization", b"Bearer K-1")], b""),
        ([(b"authorization", b"bearer  K-1 ")], b""),
        ([(b"authorization", b"Token K-1")], b""),
        ([(b"authorization", b"K-1")], b""),
        ([(b"xi-api-key", b"K-1")], b""),
        ([(b"x-api-key", b"K-1")], b""),
        ([(b"api-key", b" K-1")], b""),
        ([(b"x-goog-api-key", b"K-1")], b""),
        ([(b"sec-websocket-protocol", b"token, K-1")], b""),
        # @deepgram/sdk 5.13.0, CustomClient.mjs, getWebSocketOptions: what it offers in a browser
        ([(b"sec-websocket-protocol", b"token, K-1, x-deepgram-session-id, 3f0c")], b""),
        ([(b"sec-websocket-protocol", b"bearer,K-1")], b""),
        ([(b"sec-websocket-protocol", b"realtime, openai-insecure-api-key.K-1, openai-beta.realtime-v1")], b""),
        ([], b"model=x&token=K-1"),
        ([], b"access_token=K%2D1"),
        ([], b"api_key=K-1&x=2"),
        ([], b"key=K-1&x=2"),
        ([(b"authorization", b"Basic abc=")], b"token=K-1"),
        ([(b"sec-websocket-protocol", b"graphql-ws")], b"token=K-1"),
    ],
)
def test_every_spelling_gives_the_credential(headers, query):
    assert credential(headers, query) == b"K-1"


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([], b""),
        ([(b"authorization", b"")], b""),
        ([(b"authorization", b"Basic abc=")], b"model=x"),
        ([(b"authorization", b"Bearer ")], b"tokens=K"),
        ([(b"sec-websocket-protocol", b"openai-insecure-api-key.")], b"token="),
        ([(b"cookie", b"token=K")], b"monkey=K"),
    ],
)
def test_no_credential(headers, query):
    assert credential(headers, query) is None


def test_the_first_value_of_a_repeated_field_counts():
    assert query_fields(b"a=1&a=2&b=x+y%21", (b"a", b"b")) == {b"a": b"1", b"b": b"x y!"}


def test_open_mode_asks_for_nothing():
    result = identify(access(), scope(bearer("whatever the SDK sends")))
    assert (result.project, result.key_id, result.fallback, result.endpoint) == ("default", None, True, "/v1/listen")


@pytest.mark.parametrize("query", [b"", b"gw_project=default"])
def test_open_mode_takes_the_project_from_the_header_first(query):
    assert identify(access(), scope((b"x-gw-project", b"shop"), query=query)).project == "shop"


def test_open_mode_takes_the_project_from_the_query():
    assert identify(access(), scope(query=b"model=x&gw_project=shop")).project == "shop"


def test_an_unknown_project_lists_the_known_ones():
    with pytest.raises(UnknownProjectError) as caught:
        identify(access(), scope((b"x-gw-project", b"nope")))
    assert caught.value.available == ("default", "shop")


def test_a_key_brings_its_project():
    result = identify(access(CLOSED), scope(bearer(KEY)))
    assert (result.project, result.key_id) == ("shop", "till")
    assert identify(access(CLOSED), scope(bearer("gwk_nameless"))).key_id == "key-2"


def test_a_key_cannot_name_another_project():
    with pytest.raises(ForbiddenError):
        identify(access(CLOSED), scope(bearer(KEY), (b"x-gw-project", b"default")))
    assert identify(access(CLOSED), scope(bearer(KEY), query=b"gw_project=shop")).project == "shop"


def test_a_key_of_a_deleted_project_learns_no_names():
    with pytest.raises(UnknownProjectError) as caught:
        identify(access(CLOSED), scope(bearer("gwk_orphan")))
    assert caught.value.available == ()


def test_the_admin_token_may_name_any_project():
    assert identify(access(CLOSED), scope(bearer(ADMIN))).project == "default"
    assert identify(access(CLOSED), scope(bearer(ADMIN), (b"x-gw-project", b"shop"))).project == "shop"


@pytest.mark.parametrize("sent", [b"", b"wrong", b"\xff\xfe\x00", b"gwk_shop-key-012345678", KEY.encode() + b"0"])
def test_anything_else_is_401(sent):
    with pytest.raises(AuthError) as caught:
        identify(access(CLOSED), scope((b"xi-api-key", sent)))
    assert caught.value.status == 401
    assert not isinstance(caught.value, ForbiddenError)


def test_rights_of_a_principal():
    assert principal(access(), None).access == EVERYTHING
    assert principal(access(CLOSED), ADMIN.encode()).access == EVERYTHING
    assert principal(access(CLOSED), KEY.encode()).access is None


def test_a_key_created_through_the_api():
    closed = access(CLOSED, made_key("gwk_made"))
    caller = identify(closed, scope(bearer("gwk_made")))
    assert (caller.project, caller.key_id) == ("shop", "key_1")
    assert principal(closed, b"gwk_made").access is None
    assert identify(closed, scope(bearer(KEY))).project == "shop"
    with pytest.raises(AuthError):
        identify(access(CLOSED), scope(bearer("gwk_made")))  # revoked


def test_a_key_ends_when_it_expires():
    now = HandClock().now()
    assert identify(access(CLOSED, made_key("gwk_made", expires_at=now + 1)), scope(bearer("gwk_made")))
    with pytest.raises(AuthError, match="expired"):
        identify(access(CLOSED, made_key("gwk_made", expires_at=now)), scope(bearer("gwk_made")))


def test_in_an_open_gateway_a_key_says_the_project_and_keeps_nobody_out():
    now = HandClock().now()
    open_ = access(Auth(), made_key("gwk_made"))
    assert identify(open_, scope(bearer("gwk_made"))).project == "shop"
    assert identify(open_, scope(bearer("anything"))).project == "default"
    assert identify(open_, scope()).project == "default"
    assert principal(open_, b"gwk_made").access == EVERYTHING
    late = access(Auth(), made_key("gwk_made", expires_at=now - 1))
    assert identify(late, scope(bearer("gwk_made"))).project == "default"


def test_a_changed_configuration_counts_at_once():
    assert identify(access(CLOSED), scope(bearer(KEY))).project == "shop"
    changed = Auth(keys=(AuthKey(key=Secret("gwk_new-key-000"), project="default"),))
    with pytest.raises(AuthError):
        identify(access(changed), scope(bearer(KEY)))
    assert identify(access(changed), scope(bearer("gwk_new-key-000"))).project == "default"


def test_session_turn_and_fallback():
    result = identify(
        access(), scope((b"x-gw-session", b"call-7"), (b"x-gw-turn", b"t1"), (b"x-gw-fallback", b"Off"))
    )
    assert (result.session_id, result.turn_id, result.fallback) == ("call-7", "t1", False)
    livekit = (b"x-livekit-session-id", b"inference_1"), (b"x-livekit-job-id", b"AJ_1")
    assert identify(access(), scope(*livekit)).session_id == "AJ_1"
    assert identify(access(), scope(*livekit, (b"x-gw-session", b"call-9"))).session_id == "call-9"
    result = identify(access(), scope(query=b"gw_session=call-8&gw_turn=t%202&gw_fallback=off"))
    assert (result.session_id, result.turn_id, result.fallback) == ("call-8", "t 2", False)


TRACE = b"0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("value", "turn"),
    [
        (b"00-" + TRACE + b"-b7ad6b7169203331-01", TRACE.decode()),
        (b"01-" + TRACE + b"-b7ad6b7169203331-01-more", TRACE.decode()),
        (b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", None),
        (b"00-" + TRACE[:-1] + b"-b7ad6b7169203331-01", None),
        (b"junk", None),
    ],
)
def test_the_trace_id_is_used_as_turn_id(value, turn):
    assert identify(access(), scope((b"traceparent", value))).turn_id == turn
    both = identify(access(), scope((b"traceparent", value), (b"x-gw-turn", b"t1")))
    assert both.turn_id == "t1"


CALLERS_TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = (b"traceparent", f"00-{CALLERS_TRACE}-{SPAN}-01".encode())


def test_the_callers_span_is_kept():
    assert identify(access(), scope()).trace is None
    trace = identify(access(), scope(TRACEPARENT, (b"tracestate", b"a=1"), (b"tracestate", b"b=2"))).trace
    assert trace == TraceContext(trace_id=CALLERS_TRACE, span_id=SPAN, sampled=True, state="a=1,b=2")
    assert identify(access(), scope((b"traceparent", TRACEPARENT[1].replace(b"-01", b"-02")))).trace.sampled is False
    assert identify(access(), scope((b"tracestate", b"a=1"))).trace is None


@pytest.mark.parametrize(
    "value",
    [
        f"ff-{CALLERS_TRACE}-{SPAN}-01", f"00-{CALLERS_TRACE}-{'0' * 16}-01", f"00-{'0' * 32}-{SPAN}-01",
        f"00-{CALLERS_TRACE.upper()}-{SPAN}-01", f"00-{CALLERS_TRACE}-{SPAN}",
    ],
)  # fmt: skip
def test_a_span_that_cannot_be_is_left_out(value):
    assert identify(access(), scope((b"traceparent", value.encode()))).trace is None


@pytest.mark.parametrize("state", [b"a" * 513, b"a=\xc3\xa9", b"a=\tb"])
def test_a_trace_state_that_cannot_be_passed_on_is_left_out(state):
    trace = identify(access(), scope(TRACEPARENT, (b"tracestate", b"x" + state))).trace
    assert (trace.trace_id, trace.state) == (CALLERS_TRACE, "")


def test_odd_ids_are_cut_or_dropped():
    result = identify(access(), scope((b"x-gw-session", b"x" * 500), query=b"gw_turn=a%0d%0ab"))
    assert result.session_id == "x" * 128
    assert result.turn_id is None


def test_a_request_keeps_its_id():
    one = scope()
    gate = access()
    assert identify(gate, one).request_id == request_id(gate, one) == request_id(gate, one)
    assert len(request_id(gate, one)) == 32
    assert request_id(gate, scope()) != request_id(gate, one)


def test_a_known_head_is_identified_once_per_configuration():
    gate = access(CLOSED)
    requested = scope(bearer(KEY), (b"x-gw-session", b"s1")) | {"gw.known": {}}
    first = identify(gate, requested.copy(), dialect="openai")
    again = identify(gate, requested | {"headers": []}, dialect="openai")  # not looked at
    assert again.request_id != first.request_id
    assert (again.project, again.key_id, again.session_id) == (first.project, first.key_id, first.session_id)
    assert (again.project, again.session_id) == ("shop", "s1")
    assert identify(gate, requested.copy(), dialect="deepgram").dialect == "deepgram"
    with pytest.raises(AuthError):
        identify(access(Auth(admin_token=Secret("another-token-0123456789"))), requested.copy(), dialect="deepgram")
    with pytest.raises(UnknownProjectError):
        identify(attrs.evolve(gate, current=Current(Catalog(providers={}, models={}, projects={}))), requested.copy(), dialect="deepgram")


def test_a_known_head_is_that_of_many_connections():
    gate = access(CLOSED)
    requested = scope(bearer(KEY)) | {"gw.known": {}}
    links = [Link(), Link()]
    callers = [identify(gate, requested | {"gw.link": link}) for link in links]
    assert [caller.link is link for caller, link in zip(callers, links, strict=True)] == [True, True]
    known = requested["gw.known"]["caller"]
    assert (known.caller.link, known.catalog()) == (None, gate.current.catalog)


def test_a_key_that_ends_is_looked_at_every_time():
    clock = HandClock()
    gate = access(CLOSED, made_key("gwk_short", expires_at=clock.now() + 10), clock=clock)
    requested = scope(bearer("gwk_short")) | {"gw.known": {}}
    assert identify(gate, requested.copy()).key_id == "key_1"
    assert requested["gw.known"] == {}
