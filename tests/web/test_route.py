"""Routes: the table, the check of queries, and what a handler reads of its request."""

from __future__ import annotations

import pytest

from gw.dialects import openai, openai_responses
from gw.errors import RequestError
from gw.web.route import QueryField, Raw, Request, Route, RouteTable
from gw.web.routes import TABLE

LISTING = Route(
    "GET", "/v1/x/{name}", "x", "", lambda r: r.name, answers=(), tag="X", aliases=("/openai/v1/x/{name}",),
    query=(QueryField("limit", {"default": 5}, ""), QueryField("project", {}, "")),
)  # fmt: skip


def described(method, path, **fields) -> Route:
    return Route(method, path, "x", "", lambda r: r.name, answers=(), tag="X", **fields)


def test_the_data_plane_routes_in_the_table_exist():
    paths = {*openai.ROUTES, *openai_responses.routes(None)}
    served = {(method, prefix + path) for method, path in paths for prefix in ("", "/openai")}
    assert {(route.method, path) for route in TABLE.routes if route.handler is None for path in route.paths} == served


def test_ids_are_unique():
    ids = [route.id for route in TABLE.routes]
    assert len(ids) == len(set(ids))


def test_every_route_finds_itself():
    for route in TABLE.routes:
        for path in route.paths if route.handler else ():
            routes, name = TABLE.find(path.replace("{model_id}", "a/b").replace("{turn_id}", "a/b").replace("{", "").replace("}", ""))
            assert routes[route.method] is route
            assert bool(name) is ("{" in path)


def test_only_these_routes_need_no_role():
    assert {route.id: route.right for route in TABLE.routes if route.lenient} == {
        **dict.fromkeys(("front", "health", "ready", "openapi", "login", "logout", "session"), "public"),
        **dict.fromkeys(("oidc_start", "oidc_callback", "oidc_logout"), "public"),
        **dict.fromkeys(("list_models", "get_model"), "key"),
        **dict.fromkeys(("chat_completions", "embeddings", "moderations", "speech", "transcriptions", "translations"), "call"),
        **dict.fromkeys(("create_response", "response", "response_input", "delete_response"), "call"),
        "metrics": "metrics",
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/x/a", "a"),
        ("/openai/v1/x/a", "a"),
        ("/v1/x/a/", "a"),
        ("/v1/x", None),
        ("/v1/x/", None),
        ("/v1/x/a/b", None),
        ("/v1/x//", None),
        ("/deep/a/b", "a/b"),
        ("/deep//b", None),
        ("/middle/a/test", "a"),
        ("/middle/a", None),
        ("/middle//test", None),
        ("/fixed", ""),
        ("/fixed/", ""),
        ("/fixed//", None),
        ("/", ""),
    ],
)
def test_finding_a_route(path, name):
    others = [described("GET", path) for path in ("/deep/{model_id}", "/middle/{name}/test", "/fixed", "/")]
    routes, parameters = RouteTable([LISTING, *others, described("POST", "/v1/x/{name}")]).find(path)
    assert (parameters if routes else None) == name
    if path == "/v1/x/a":
        assert set(routes) == {"GET", "POST"}


def test_routes_of_the_data_plane_are_described_and_not_found():
    voice = Route("POST", "/v1/chat", "x", "", None, answers=(Raw("audio/*", {}),), tag="X")
    assert RouteTable([voice]).find("/v1/chat") == ({}, "")


@pytest.mark.parametrize(
    ("pairs", "param"),
    [
        ([("limt", "5")], "limt"),
        ([("limit", "5"), ("limit", "6")], "limit"),
        ([("token", "x"), ("limit", "5"), ("Project", "x")], "Project"),
    ],
)
def test_unknown_and_repeated_query_fields(pairs, param):
    with pytest.raises(RequestError) as caught:
        LISTING.check_query(pairs)
    assert caught.value.param == param


def test_queries_that_are_good():
    LISTING.check_query([("limit", "5"), ("token", "x"), ("access_token", "y"), ("project", "z")])
    TABLE.find("/v1/models")[0]["GET"].check_query([("after_id", "x"), ("after_id", "y")])


def test_query_values_have_defaults_and_the_first_one_counts():
    request = Request(None, LISTING, {}, "a", [("token", "x"), ("project", ""), ("project", "z")])
    assert request.query == {"limit": 5, "project": ""}
    assert Request(None, LISTING, {}).query == {"limit": 5, "project": None}
