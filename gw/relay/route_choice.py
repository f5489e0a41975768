"""The candidates of a request for a route: the member that was chosen for it, then the others, then the chain."""

from __future__ import annotations

from gw.policy.shares import share_of
from gw.registry.catalog import Catalog, Model
from gw.relay.candidate_list import Candidates
from gw.types.entities import Project
from gw.types.ids import Caller, Modality
from gw.types.model_routes import ModelRoute, Routed, RouteMember

Members = tuple[tuple[RouteMember, Model], ...]


def session_of(caller: Caller) -> str:
    """Return what a route's choice is made by: requests with the same one get the same choice."""
    return caller.session_id or caller.conversation or caller.turn_id or caller.request_id


class RouteChooser:
    """Chooses among the members of routes."""

    def candidates(self, catalog: Catalog, project: Project, route: ModelRoute, modality: Modality, caller: Caller) -> Candidates:
        """Return the candidates of a request for a route, and why the first of them is the first."""
        members = catalog.route_members[modality, route.name]
        if caller.limits is not None and caller.limits.models:
            members = tuple([each for each in members if caller.limits.includes(each[1].provider, each[1].id)]) or members
        chosen, reason = self._by_weight(members, route, caller)
        ordered = (members[chosen], *members[:chosen], *members[chosen + 1 :])
        voices: dict[str, str] = {}
        for member, model in reversed(ordered):
            if member.voice:
                voices[model.id] = member.voice
            else:
                voices.pop(model.id, None)
        return Candidates(catalog, project, _models(catalog, project, ordered, caller), voices, routed=Routed(route.name, reason))

    @staticmethod
    def _by_weight(members: Members, route: ModelRoute, caller: Caller) -> tuple[int, str]:
        weights = [member.weight for member, _ in members]
        if not any(weights):  # a key that may use no other
            return 0, "weight 0 of 0"
        chosen = share_of(weights, route.name, session_of(caller))
        return chosen, f"weight {weights[chosen]} of {sum(weights)}"


def _models(catalog: Catalog, project: Project, ordered: Members, caller: Caller) -> tuple[Model, ...]:
    first = ordered[0][1]
    if not caller.fallback:
        return (first,)
    others = [model for _, model in ordered[1:]]
    return tuple(dict.fromkeys((first, *others, *catalog.candidates(first, project)[1:])))
