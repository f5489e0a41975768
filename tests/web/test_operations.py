"""The table of routes and the routes themselves are the same, and what the table says is done."""

from __future__ import annotations

import pytest

from gw.dialects import openai
from gw.errors import RequestError
from gw.web.app import make_reads
from gw.web.drain import Drain
from gw.web.operations import Field, Operation, Table, check_query, right_of
from gw.web.quart_app import routes_of
from gw.web.routes import TABLE

LISTING = Operation(
    id="x", method="GET", path="/v1/x/{name}", tag="X", what="", query=(Field("limit", {}, ""), Field("project", {}, "")),
    also=("/openai/v1/x/{name}",),
)  # fmt: skip


async def test_every_route_is_in_the_table_and_the_other_way_round(gateway):
    served = routes_of(gateway, Drain(), lambda method, path: False, make_reads(gateway, Drain()))
    served |= {(method, prefix + path) for method, path in openai.ROUTES for prefix in ("", "/openai")}
    assert served == {(op.method, path) for op in TABLE.operations for path in op.paths}


def test_ids_are_unique():
    ids = [op.id for op in TABLE.operations]
    assert len(ids) == len(set(ids))


def test_only_these_routes_ask_for_less_than_the_admin_token():
    assert {op.id: op.right for op in TABLE.operations if op.right != "admin"} == {
        **dict.fromkeys(("front", "health", "ready", "openapi", "login", "logout", "session"), "public"),
        **dict.fromkeys(("list_models", "get_model"), "data"),
        **dict.fromkeys(("chat_completions", "speech", "transcriptions", "translations"), "data"),
        "metrics": "metrics",
    }


@pytest.mark.parametrize(
    ("method", "rule", "found"),
    [
        ("GET", "/v1/x/<name>", True),
        ("HEAD", "/v1/x/<path:name>", True),
        ("GET", "/openai/v1/x/<path:name>", True),
        ("POST", "/v1/x/<name>", False),
        ("GET", "/v1/x", False),
    ],
)
def test_finding_an_operation(method, rule, found):
    assert (Table([LISTING]).find(method, rule) is LISTING) is found


def test_what_is_not_in_the_table_needs_the_admin_token():
    assert right_of(None) == "admin"


@pytest.mark.parametrize(
    ("pairs", "param"),
    [
        ([("limt", "5")], "limt"),
        ([("limit", "5"), ("limit", "6")], "limit"),
        ([("token", "x"), ("limit", "5"), ("Project", "x")], "Project"),
    ],
)
def test_queries_that_mean_nothing(pairs, param):
    with pytest.raises(RequestError) as caught:
        check_query(LISTING, pairs)
    assert caught.value.param == param


def test_queries_that_are_good():
    check_query(LISTING, [("limit", "5"), ("token", "x"), ("access_token", "y"), ("project", "z")])
    check_query(None, [("anything", "1")])
    check_query(TABLE.find("GET", "/v1/models"), [("after_id", "x"), ("after_id", "y")])
