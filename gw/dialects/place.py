"""A request that comes while `serve.max_in_flight` others run waits for its turn, which comes by project and key."""

from __future__ import annotations

from gw.errors import Overloaded
from gw.gateway import Gateway
from gw.relay.places import Places
from gw.types.asgi import Scope
from gw.types.ids import Caller


async def wait_for_place(gateway: Gateway, scope: Scope, caller: Caller) -> None:
    """Wait for a place of `scope["gw.places"]`. Raise Overloaded, at once if others of the caller wait already, or after PLACE_S."""
    places: Places = scope["gw.places"]
    project = gateway.current.catalog.projects.get(caller.project)
    if await places.wait(caller.project, caller.key_id or "", project.weight if project is not None else 1):
        return
    if (bearer := scope.get("gw.single_use")) is not None:
        gateway.credentials.give_back(bearer)
    raise Overloaded
