"""Every route × role × reach of the role × right to captured content × project of the request, over a socket; a part by default.

What each route needs is written down here a second time, apart from `gw.web.rights`, so that a slip there is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.web.rights import NEEDS
from gw.web.routes import TABLE
from tests.contract.test_access import ADMIN
from tests.fakes.cells import SUMMARY, Cells
from tests.fakes.nightly import NIGHTLY, cells
from tests.fakes.running import Running, open_running
from tests.fakes.temporary_gateway import YAML, record, store_records

PART = 11
ALPHA, BRAVO = "alpha", "bravo"
TEXT = YAML + f"auth: {{admin_token: {ADMIN}}}\n"
ROUTES = tuple((route, path) for route in TABLE.routes for path in route.paths)

PUBLIC = {"front", "health", "ready", "openapi", "login", "logout", "session", "oidc_start", "oidc_callback", "oidc_logout"}
ANY_CREDENTIAL = {"list_models", "get_model"}
CALLS = {
    "chat_completions", "create_response", "response", "delete_response", "response_input", "embeddings", "moderations", "speech",
    "transcriptions", "translations",
}  # fmt: skip
OPERATOR = {
    "check_config", "create_model", "update_model", "delete_model", "set_fallbacks", "reset_fallbacks", "update_project", "create_key",
    "update_key", "revoke_key", "test_provider", "forget_capture", "test_alerts", "mute_alert", "unmute_alert",
    "clear_phrase_cache", "replace_pronunciations", "warm_phrase",
}  # fmt: skip
ADMINISTRATOR = {
    "create_project", "delete_project", "create_provider", "update_provider", "delete_provider", "list_tokens", "create_token",
    "get_token", "revoke_token", "page_people", "list_people", "update_person", "list_logins", "end_login",
}  # fmt: skip
"""Every other route needs a viewer."""
CAPTURE = {"read_capture", "capture_audio", "search_capture", "forget_capture", "phrase_cache"}
EVERYWHERE = {
    "metrics", "fleet", "check_config", "create_model", "update_model", "delete_model", "set_fallbacks", "reset_fallbacks",
    "create_project", "delete_project", "list_providers", "get_provider", "page_providers", "reliability", "create_provider",
    "update_provider", "delete_provider", "test_provider", "audit_log", "reconcile", "compare", "page_settings", "capture_stats",
    "list_people", "update_person", "list_logins", "end_login", "alerts", "test_alerts", "mute_alert", "unmute_alert",
    "phrase_cache", "clear_phrase_cache",
}  # fmt: skip
"""A role for some projects is not enough."""
OF_A_PROJECT = {
    "costs", "latency", "first_audio", "logs", "sessions", "conversation", "turns", "turn", "dashboard_costs", "dashboard_latency",
    "dashboard_logs", "logs_csv", "page_costs", "page_latency", "overview", "series", "histogram", "forecast", "route",
    "read_capture", "forget_capture", "search_capture", "create_key", "warm_phrase",
}  # fmt: skip
"""Routes that name a project in the query or in the body; those that name an entity of one in the path have their own."""
BY_ENTITY = {
    "get_project": "project_not_found", "update_project": "project_not_found", "get_key": "key_not_found",
    "update_key": "key_not_found", "revoke_key": "key_not_found", "request": "request_not_found",
    "list_pronunciations": "project_not_found", "replace_pronunciations": "project_not_found",
    "capture_audio": "request_not_found", "get_token": "token_not_found", "revoke_token": "token_not_found",
}  # fmt: skip


@attrs.frozen
class Holder:
    role: str
    projects: tuple[str, ...] | None
    capture: bool

    def covers(self, role: str) -> bool:
        order = ("viewer", "operator", "admin")
        return order.index(self.role) >= order.index(role)

    def reaches(self, project: str) -> bool:
        return self.projects is None or project in self.projects


HOLDERS = tuple(
    Holder(role, projects, capture)
    for role in ("viewer", "operator", "admin")
    for projects in (None, (ALPHA,), (BRAVO,), (ALPHA, BRAVO))
    for capture in (False, True)
)
TARGETS = ("", ALPHA, BRAVO)
"""Project that a request names, "" for none."""
ADMIN_HEADER = {"authorization": f"Bearer {ADMIN}"}


@attrs.define
class Setup:
    running: Running
    ids: dict[str, dict[str, str]]
    """Project → path parameter → id."""
    tokens: dict[Holder, str] = attrs.field(factory=dict)

    async def headers(self, holder: Holder) -> dict[str, str]:
        """Return the headers of a holder, whose token is made when it is first needed."""
        if holder not in self.tokens:
            body = {"name": "a token", "role": holder.role, "projects": holder.projects, "capture": holder.capture}
            self.tokens[holder] = (await make(self.running, "/v1/tokens", body))["token"]
        return {"authorization": f"Bearer {self.tokens[holder]}"}


async def make(running: Running, path: str, body: object) -> Any:
    answer = await running.ask("POST", path, body, **ADMIN_HEADER)
    assert answer.status == 200, answer.body
    return answer.json


async def set_up(running: Running) -> Setup:
    ids: dict[str, dict[str, str]] = {}
    for number, project in enumerate((ALPHA, BRAVO), 1):
        await make(running, "/v1/projects", {"project_id": project, "daily_budget": 5.0 + number})
        session, turn = f"session-{project}", f"turn-{project}"
        key = await make(running, "/v1/keys", {"project": project, "name": f"till of {project}"})
        token = await make(running, "/v1/tokens", {"name": f"token of {project}", "role": "viewer", "projects": [project]})
        ids[project] = {
            "project_id": project, "key_id": key["key_id"], "record_id": f"{number:032x}", "capture_id": session,
            "session_id": session, "turn_id": turn, "token_id": token["token_id"],
        }  # fmt: skip
        await store_records(running.gateway, record(number, project=project, session_id=session, turn_id=turn, key_id=key["key_id"]))
    return Setup(running, ids)


def needed_role(operation_id: str) -> str:
    if operation_id in ADMINISTRATOR:
        return "admin"
    return "operator" if operation_id in OPERATOR | CALLS else "viewer"


def expected(holder: Holder, operation_id: str, target: str) -> str:
    """Return `forbidden`, the code of a 404, `name one` for a request that must name a project, or `ok`."""
    if operation_id in PUBLIC:
        return "ok"
    if operation_id not in ANY_CREDENTIAL and not holder.covers(needed_role(operation_id)):
        return "forbidden"
    if operation_id in CAPTURE and not holder.capture:
        return "forbidden"
    if operation_id in EVERYWHERE and holder.projects is not None:
        return "forbidden"
    if operation_id == "capture_audio" and holder.projects is None:
        return "ok"
    if operation_id == "delete_project" and not target:
        return "project_not_found"
    if operation_id in BY_ENTITY:
        return "ok" if target and holder.reaches(target) else BY_ENTITY[operation_id]
    if operation_id == "create_token":
        if holder.projects is None or (target and holder.reaches(target)):
            return "ok"
        return "project_not_found" if target else "forbidden"
    if target and not holder.reaches(target) and operation_id in OF_A_PROJECT | CALLS | {"list_models"}:
        return "project_not_found"
    if not target and holder.projects is not None and len(holder.projects) > 1:
        if operation_id in CALLS:
            return "forbidden"
        return "name one" if operation_id in OF_A_PROJECT else "ok"
    return "ok"


NOT_THERE = {"model_id": "none/none", "modality": "video"}


def request_of(setup: Setup, operation: Any, path: str, target: str) -> tuple[str, bytes, Mapping[str, str]]:
    """Return the request's target, body and further headers."""
    ids = setup.ids.get(target, {})
    before, parameter, after = path.partition("{")
    if parameter:
        name, _, after = after.partition("}")
        before += ids.get(name) or NOT_THERE.get(name, "none")
    address = before + after
    fields: list[str] = []
    if target and any(field.name == "project" for field in operation.query):
        fields.append(f"project={target}")
    if operation.id == "histogram":
        fields.append("model=groq/openai/gpt-oss-20b")
    body: dict[str, object] = {}
    if operation.id in ("create_key", "search_capture", "warm_phrase") and target:
        body = {"project": target}
    if operation.id in ("search_capture", "warm_phrase"):
        body["text"] = "words"
    if operation.id == "create_token":
        body = {"name": "x", "role": "viewer", "projects": [target] if target else None}
    has_body = operation.method in ("POST", "PUT", "PATCH")
    headers = {"content-type": "application/json"} if has_body else {}
    if operation.id in CALLS and target:
        headers["x-gw-project"] = target
    if operation.id == "metrics":
        headers["forwarded"] = "for=192.0.2.1"
    query = "?" + "&".join(fields) if fields else ""
    return address + query, msgspec.json.encode(body) if has_body else b"", headers


def outcome(status: int, body: bytes) -> str:
    if status in (401, 403):
        return "forbidden" if status == 403 else "unauthorized"
    if status not in (404, 422):
        return "ok"
    try:
        error = msgspec.json.decode(body)["error"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return "ok"
    if not isinstance(error, dict):
        return "ok"
    code = error.get("gw", error).get("code") if isinstance(error.get("gw", error), dict) else error.get("code")
    if status == 422:
        return "name one" if "name one of your projects" in error["message"] else "ok"
    return str(code) if code in {"project_not_found", *BY_ENTITY.values()} else "ok"


async def ask(setup: Setup, holder: Holder, operation: Any, path: str, target: str) -> tuple[str, bytes]:
    address, body, headers = request_of(setup, operation, path, target)
    fields = {**headers, **await setup.headers(holder)}
    with trio.fail_after(60):
        async with setup.running.open(operation.method, address, body, **fields) as response:
            content = b"" if path == "/api/live" else await response.read(10_000_000)
            assert response.status < 500 or operation.id == "front", (response.status, content)
            return outcome(response.status, content), content


def check_cell(holder: Holder, operation: Any, target: str, found: str, content: bytes) -> None:
    assert found == expected(holder, operation.id, target), content[:300]
    hidden = [name for name in (ALPHA, BRAVO) if not holder.reaches(name) and name != target]
    assert [name for name in hidden if name.encode() in content] == [], content[:2_000]


@pytest.fixture
async def setup(tmp_path):
    async with open_running(tmp_path, TEXT) as running:
        yield await set_up(running)


async def test_every_route_role_and_project(setup, record_property):
    chosen = list(cells(ROUTES, HOLDERS, TARGETS, part=PART))
    everything = len(ROUTES) * len(HOLDERS) * len(TARGETS)
    ran = Cells(at_least=everything if NIGHTLY else everything // PART - 1)
    for (operation, path), holder, target in chosen:
        with ran.cell(f"{operation.method} {path}, {holder}, project {target or 'not named'}"):
            found, content = await ask(setup, holder, operation, path, target)
            check_cell(holder, operation, target, found, content)
    record_property(SUMMARY, ran.summary(f"{len(ROUTES)} routes × {len(HOLDERS)} holders of roles × {len(TARGETS)} projects", everything))
    ran.check()
    assert everything >= 5_000
    assert {path for (_, path), _, _ in chosen} == {path for _, path in ROUTES}
    assert {holder for _, holder, _ in chosen} == set(HOLDERS)


def test_every_route_says_what_it_needs():
    assert {route.id for route in TABLE.routes} == set(NEEDS)
    assert [route.id for route in TABLE.routes if route.need is not NEEDS[route.id]] == []


async def test_a_list_has_the_entries_of_the_roles_projects_alone(setup):
    async def listed(projects):
        get, token = setup.running.get, await setup.headers(Holder('admin', projects, False))
        return (
            [entry["project_id"] for entry in (await get("/v1/projects", **token)).json["projects"]],
            sorted(entry["project"] for entry in (await get("/v1/keys", **token)).json["keys"]),
            [entry["project_id"] for entry in (await get("/api/pages/projects", **token)).json["projects"]],
            sorted({name for entry in (await get("/v1/tokens", **token)).json["tokens"] for name in entry["projects"] or ["of all"]}),
        )

    both, everything = [ALPHA, BRAVO], ["default", "shop", ALPHA, BRAVO]
    assert await listed((ALPHA,)) == ([ALPHA], [ALPHA], [ALPHA], [ALPHA])
    assert await listed((ALPHA, BRAVO)) == (both, both, both, both)
    assert await listed(None) == (everything, both, everything, [*both, "of all"])


async def test_the_live_view_shows_the_roles_projects_alone(setup):
    token = await setup.headers(Holder('viewer', (BRAVO,), False))
    with trio.fail_after(60):
        async with setup.running.open("GET", "/api/live", **token) as response:
            assert (await response.receive_some()).startswith(b"event: running")
            await store_records(setup.running.gateway, record(70, project=ALPHA), record(71, project=BRAVO))
            seen = await response.receive_some()
    assert f"{71:032x}".encode() in seen
    assert f"{70:032x}".encode() not in seen


async def test_a_token_ends_when_it_expires_or_is_revoked(setup):
    running = setup.running
    made = [
        await make(running, "/v1/tokens", {"name": "ci", "role": "viewer", "expires_at": at})
        for at in (running.clock.now() + 60, None)
    ]
    assert made[0]["token"].startswith("gws_")

    async def statuses():
        return [(await running.get("/v1/costs", authorization=f"Bearer {each['token']}")).status for each in made]

    assert await statuses() == [200, 200]
    running.clock.at += 61
    assert await statuses() == [401, 200]
    address = f"/v1/tokens/{made[1]['token_id']}"
    assert (await running.ask("DELETE", address, **ADMIN_HEADER)).json["would_delete"]["name"] == "ci"
    assert await statuses() == [401, 200]
    await running.ask("DELETE", address + "?confirm=true", **ADMIN_HEADER)
    assert await statuses() == [401, 401]


async def test_the_token_itself_is_stored_and_shown_nowhere(setup, tmp_path):
    made = await make(setup.running, "/v1/tokens", {"name": "ci", "role": "viewer"})
    await setup.running.gateway.store.flush()
    for address in ("/v1/tokens", f"/v1/tokens/{made['token_id']}", "/v1/audit-log", "/api/pages/settings"):
        assert made["token"] not in (await setup.running.get(address, **ADMIN_HEADER)).body.decode()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if made["token"].encode() in path.read_bytes()] == []


async def test_the_audit_log_names_the_token(setup):
    operator = await setup.headers(Holder('operator', (ALPHA,), False))
    made = (await setup.running.ask("POST", "/v1/keys", {"name": "new"}, **operator)).json
    assert made["project"] == ALPHA, "the only project of the role"
    (entry,) = (await setup.running.get(f"/v1/audit-log?entity_id={made['key_id']}", **ADMIN_HEADER)).json
    tokens = (await setup.running.get("/v1/tokens", **ADMIN_HEADER)).json["tokens"]
    assert entry["actor"] in {f"a token ({token['token_id']})" for token in tokens}
    assert (await setup.running.get("/v1/audit-log?entity_type=token&limit=1", **ADMIN_HEADER)).json[0]["actor"] == "admin"


@pytest.mark.parametrize(
    ("maker", "body", "status"),
    [
        (Holder("admin", (ALPHA,), False), {"role": "admin", "projects": [ALPHA]}, 200),
        (Holder("admin", (ALPHA,), False), {"role": "viewer"}, 403),
        (Holder("admin", (ALPHA,), False), {"role": "viewer", "projects": [ALPHA, BRAVO]}, 404),
        (Holder("admin", None, False), {"role": "viewer", "capture": True}, 403),
        (Holder("admin", None, True), {"role": "admin", "capture": True}, 200),
        (Holder("operator", None, True), {"role": "viewer"}, 403),
        (Holder("admin", None, True), {"role": "viewer", "projects": []}, 422),
        (Holder("admin", None, True), {"role": "owner"}, 422),
        (Holder("admin", None, True), {"role": "viewer", "name": "two\nlines"}, 422),
        (Holder("admin", None, True), {"role": "viewer", "expires_at": 1.0}, 422),
        (Holder("admin", None, True), {"role": "viewer", "projects": ["nowhere"]}, 404),
    ],
)  # fmt: skip
async def test_nobody_grants_more_than_their_own_rights(setup, maker, body, status):
    token = await setup.headers(maker)
    assert (await setup.running.ask("POST", "/v1/tokens", {"name": "x", **body}, **token)).status == status


async def test_who_may_not_read_captured_content_does_not_decide_what_is_captured(setup):
    for capture, status in ((False, 403), (True, 422)):
        operator = await setup.headers(Holder('operator', (ALPHA,), capture))
        answer = await setup.running.ask("PATCH", f"/v1/projects/{ALPHA}", {"capture": {"text": True}}, **operator)
        assert answer.status == status  # 422: this gateway has no GW_SECRET
        answer = await setup.running.ask("PATCH", f"/v1/projects/{ALPHA}", {"daily_budget": 9.0}, **operator)
        assert answer.status == 200


async def test_an_operator_calls_models_for_a_project_of_theirs(setup):
    chat = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
    operator = await setup.headers(Holder('operator', (ALPHA,), False))
    answer = await setup.running.ask("POST", "/v1/chat/completions", chat, **operator)
    assert answer.status == 200
    await setup.running.gateway.store.flush()
    logged = (await setup.running.get(f"/v1/requests/{answer.headers['x-request-id']}", **operator)).json
    assert logged["project"] == ALPHA


async def test_a_token_keeps_its_role_on_an_open_gateway(tmp_path):
    async with open_running(tmp_path) as running:
        made = (await running.ask("POST", "/v1/tokens", {"name": "ci", "role": "viewer", "expires_at": running.clock.now() + 60})).json
        token = {"authorization": f"Bearer {made['token']}"}
        assert (await running.get("/v1/costs")).status == 200
        assert (await running.get("/v1/costs", **token)).status == 200
        assert (await running.ask("POST", "/v1/projects", {"project_id": "x"}, **token)).status == 403
        running.clock.at += 61
        assert (await running.get("/v1/costs", **token)).status == 401, "not the rights of somebody without a credential"
