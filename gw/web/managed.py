"""The writing half of `/v1/*`: providers, models, projects, keys and fallback chains; their lists and the audit log.

The use cases check bodies and make the answers; here is only what is HTTP's: paths, query, credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gw.admin import audit, fallbacks, keys, models, projects, providers
from gw.admin.provider_check import check_provider
from gw.dialects.request_io import header
from gw.gateway import Gateway
from gw.types.entities import Actor, ActorSource
from gw.web.authorization import who
from gw.web.request_body import json_reply, no_body, query_flag, read_object, scope
from gw.web.router import Reply, Request, RouteTable, shown

if TYPE_CHECKING:
    from quart import Blueprint, Response


def blueprint(gateway: Gateway) -> Blueprint:
    from quart import Blueprint  # loaded with the first change

    routes = Blueprint("managed", __name__, url_prefix="/v1")
    _add_providers(routes, gateway)
    _add_models(routes, gateway)
    _add_projects(routes, gateway)
    _add_keys(routes, gateway)
    _add_chains(routes, gateway)
    return routes


def _actor(gateway: Gateway) -> Actor:
    """The face that asked says so itself: it tells the reader of the log where to look, and gives no right."""
    principal = who(gateway, scope(), gateway.clock.now())
    claimed = header(scope(), b"x-gw-source")
    source: ActorSource = "mcp" if claimed == b"mcp" else "cli" if claimed == b"cli" else "api"
    return Actor(source=source, name=principal.key_id or principal.kind)


def _add_providers(routes: Blueprint, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.post("/providers")
    async def create_provider() -> Response:
        return json_reply(await providers.create(registrar, await read_object(), _actor(gateway)))

    @routes.patch("/providers/<provider_id>")
    async def update_provider(provider_id: str) -> Response:
        return json_reply(await providers.update(registrar, provider_id, await read_object(), _actor(gateway)))

    @routes.delete("/providers/<provider_id>")
    async def delete_provider(provider_id: str) -> Response:
        confirm, cascade = query_flag("confirm"), query_flag("cascade")
        by = _actor(gateway)
        return json_reply(
            await providers.delete(registrar, provider_id, confirm=confirm, cascade=cascade, by=by)
        )

    @routes.post("/providers/<provider_id>/test")
    async def test_provider(provider_id: str) -> Response:
        await no_body()
        health = await check_provider(registrar.catalog.provider(provider_id), gateway.pool)
        return json_reply(health)


def _add_models(routes: Blueprint, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.post("/models")
    async def create_model() -> Response:
        return json_reply(await models.create(registrar, await read_object(), _actor(gateway)))

    @routes.patch("/models/<path:model_id>")
    async def update_model(model_id: str) -> Response:
        return json_reply(await models.update(registrar, model_id, await read_object(), _actor(gateway)))

    @routes.delete("/models/<path:model_id>")
    async def delete_model(model_id: str) -> Response:
        confirm = query_flag("confirm")
        return json_reply(await models.delete(registrar, model_id, confirm=confirm, by=_actor(gateway)))


def _add_projects(routes: Blueprint, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.post("/projects")
    async def create_project() -> Response:
        return json_reply(await projects.create(registrar, await read_object(), _actor(gateway)))

    @routes.patch("/projects/<project_id>")
    async def update_project(project_id: str) -> Response:
        return json_reply(await projects.update(registrar, project_id, await read_object(), _actor(gateway)))

    @routes.delete("/projects/<project_id>")
    async def delete_project(project_id: str) -> Response:
        confirm = query_flag("confirm")
        return json_reply(await projects.delete(registrar, project_id, confirm=confirm, by=_actor(gateway)))


def _add_keys(routes: Blueprint, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.post("/keys")
    async def create_key() -> Response:
        return json_reply(await keys.create(registrar, await read_object(), _actor(gateway)))

    @routes.delete("/keys/<key_id>")
    async def revoke_key(key_id: str) -> Response:
        confirm = query_flag("confirm")
        return json_reply(await keys.revoke(registrar, key_id, confirm=confirm, by=_actor(gateway)))


def _add_chains(routes: Blueprint, gateway: Gateway) -> None:
    registrar = gateway.registrar

    @routes.put("/fallbacks/<modality>")
    async def set_chain(modality: str) -> Response:
        return json_reply(await fallbacks.put(registrar, modality, await read_object(), _actor(gateway)))

    @routes.delete("/fallbacks/<modality>")
    async def reset_chain(modality: str) -> Response:
        return json_reply(await fallbacks.reset(registrar, modality, _actor(gateway)))


def views(gateway: Gateway) -> RouteTable:
    routes, registrar = RouteTable("/v1"), gateway.registrar

    @routes.get("/keys")
    async def list_keys(ask: Request) -> Reply:
        return shown(keys.listing(registrar))

    @routes.get("/fallbacks")
    async def list_chains(ask: Request) -> Reply:
        return shown(fallbacks.listing(registrar))

    @routes.get("/audit-log")
    async def audit_log(ask: Request) -> Reply:
        found = await audit.page(
            gateway.store,
            limit=ask.query_text("limit", str(audit.DEFAULT_ENTRIES)),
            entity_type=ask.query("entity_type"),
            entity_id=ask.query("entity_id"),
            action=ask.query("action"),
            before=ask.query("before"),
        )
        return shown(found)

    return routes
