"""Bodies that are larger than any change needs: refused before they are parsed, which would hold up every other caller."""

from __future__ import annotations

import json
import re

from gw.web.router import ADMIN_BODY_BYTES, PUBLIC_BODY_BYTES
from gw.web.routes import TABLE
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import YAML

ADMIN = "admin-token-8351026789"
AUTH = {"authorization": f"Bearer {ADMIN}"}
GUARDED = YAML + f"auth: {{admin_token: {ADMIN}}}\n"
LARGE = {"reconcile", "check_config"}


def of_size(size: int) -> bytes:
    """Return a JSON object of `size` bytes with a member that no route has."""
    begin = b'{"x":"'
    return begin + b"x" * (size - len(begin) - 2) + b'"}'


def target_of(path: str) -> str:
    """Return the path with a name in place of its parameter."""
    return re.sub(r"{\w+}", "llm", path)


async def test_every_change_has_a_largest_body(tmp_path):
    cells = 0
    async with open_running(tmp_path, GUARDED) as running:
        for route in TABLE.routes:
            if route.handler is None or route.method in ("GET", "DELETE"):
                continue
            limit = PUBLIC_BODY_BYTES if route.right == "public" else ADMIN_BODY_BYTES
            for size in (limit, limit + 1):
                answer = await running.ask(route.method, target_of(route.path), of_size(size), **AUTH)
                if route.body is None:
                    assert (answer.status, answer.error["message"]) == (422, "the body must be empty"), route.id
                elif size > limit and route.id not in LARGE:
                    assert (answer.status, answer.error["limit_bytes"]) == (413, limit), (route.id, answer.body)
                else:
                    assert answer.status in (404, 422), (route.id, answer.body)
                    assert answer.error["code"] != "too_large"
                cells += 1
    assert cells == 2 * 23


async def test_a_small_body_where_none_is_read_names_its_member(tmp_path):
    async with open_running(tmp_path, GUARDED) as running:
        answer = await running.ask("POST", "/v1/providers/sim/test", json.dumps({"deep": True}).encode(), **AUTH)
    assert (answer.status, answer.error["param"]) == (422, "deep")


async def test_who_may_not_change_anything_gets_no_size(tmp_path):
    async with open_running(tmp_path, GUARDED) as running:
        answer = await running.ask("POST", "/v1/projects", of_size(ADMIN_BODY_BYTES + 1), **{**AUTH, "authorization": "Bearer x"})
    assert answer.status == 401
