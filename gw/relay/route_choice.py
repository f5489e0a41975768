"""The candidates of a request for a route: the member that was chosen for it, then the others, then the chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gw.policy.quickest import Quickest
from gw.policy.recent_times import RecentTimes
from gw.policy.shares import share_of
from gw.registry.catalog import Catalog, Model
from gw.relay.candidate_list import Candidates
from gw.relay.request_spec import RequestSpec
from gw.relay.residency import is_limited, within
from gw.types.entities import Project
from gw.types.ids import Caller, Modality
from gw.types.model_routes import ModelRoute, Routed, RouteMember
from gw.types.usage import NANO

Members = tuple[tuple[RouteMember, Model], ...]
CallKind = tuple[str, bool]
"""Call of the provider, and whether it streams: times of one kind say nothing of another one."""
CostOf = Callable[[Model], int | None]
"""Returns the cost of the request with a model, in nano-USD; None where no price is known."""


def session_of(caller: Caller) -> str:
    """Return what a route's choice is made by: requests with the same one get the same choice."""
    return caller.session_id or caller.conversation or caller.turn_id or caller.request_id


def kind_of(spec: RequestSpec) -> CallKind:
    return spec.call or spec.modality, spec.stream


class RouteChooser:
    """Chooses among the members of routes, with the state of those that go by latency."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.times = RecentTimes()
        self._monotonic = monotonic
        self._quickest: dict[tuple[Modality, str, CallKind], Quickest] = {}
        self._catalog: Catalog | None = None

    def candidates(
        self, catalog: Catalog, project: Project, route: ModelRoute, spec: RequestSpec, caller: Caller, cost_of: CostOf
    ) -> Candidates:
        """Return the candidates of a request for a route, and why the first of them is the first. Raise what `within` raises."""
        if catalog is not self._catalog:
            self._follow(catalog)
        members = catalog.route_members[spec.modality, route.name]
        if caller.limits is not None and caller.limits.models:
            members = tuple([each for each in members if caller.limits.includes(each[1].provider, each[1].id)]) or members
        if is_limited(project, caller):
            kept = within(tuple([model for _, model in members]), catalog, project, caller)
            members = tuple([each for each in members if each[1] in kept])
        chosen, reason = self._choice(members, route, spec, caller, cost_of)
        ordered = (members[chosen], *members[:chosen], *members[chosen + 1 :])
        voices: dict[str, str] = {}
        for member, model in reversed(ordered):
            if member.voice:
                voices[model.id] = member.voice
            else:
                voices.pop(model.id, None)
        return Candidates(catalog, project, _models(catalog, project, ordered, caller), voices, routed=Routed(route.name, reason))

    def note_wait(self, model_id: str, spec: RequestSpec, seconds: float) -> None:
        """Note the time to the first content, or how long a request waited for it in vain."""
        self.times.add(model_id, kind_of(spec), seconds, self._monotonic())

    def note_listening(self, model_id: str, seconds: float, now: float) -> None:
        """Note the time from the end of speech to the next event of a live transcription."""
        self.times.add(model_id, ("listen", True), seconds, now)

    def _follow(self, catalog: Catalog) -> None:
        """Measure the models of another catalog. Routes that are as they were keep their state."""
        before, self._catalog = self._catalog, catalog
        by_latency = [
            (modality, route) for modality, routes in catalog.routes.items() for route in routes.values() if route.prefer == "latency"
        ]
        self.times.follow(member.model for _, route in by_latency for member in route.models)
        kept = {(m, route.name) for m, route in by_latency if before and before.routes.get(m, {}).get(route.name) == route}
        self._quickest = {key: quickest for key, quickest in self._quickest.items() if key[:2] in kept}

    def _choice(
        self, members: Members, route: ModelRoute, spec: RequestSpec, caller: Caller, cost_of: CostOf
    ) -> tuple[int, str]:
        """Return the index of the chosen member, and the reason."""
        usual = [index for index, (member, _) in enumerate(members) if member.weight]
        if not usual:  # no other is allowed
            return 0, "weight 0"
        if route.prefer == "weight":
            weights = [member.weight for member, _ in members]
            chosen = share_of(weights, route.name, session_of(caller))
            return chosen, f"weight {weights[chosen]} of {sum(weights)}"
        if route.prefer == "cost":
            chosen, reason = _cheapest([cost_of(members[index][1]) for index in usual])
        else:
            chosen, reason = self._by_latency([members[index][1] for index in usual], route, spec, session_of(caller))
        return usual[chosen], reason

    def _by_latency(self, models: list[Model], route: ModelRoute, spec: RequestSpec, session: str) -> tuple[int, str]:
        kind = kind_of(spec)
        if len(models) < sum(member.weight > 0 for member in route.models):  # a key or a region that allows only some of them
            return 0, "latency: the first of those that are allowed"
        quickest = self._quickest.get((spec.modality, route.name, kind))
        if quickest is None:
            quickest = self._quickest[spec.modality, route.name, kind] = Quickest(len(models))
        chosen, is_probe = quickest.choose([self.times.of(model.id, kind) for model in models], session, self._monotonic())
        if is_probe:
            return chosen, "probe of its latency"
        p95_s = quickest.p95_s
        return chosen, "latency: too few measurements yet" if p95_s is None else f"latency: p95 {p95_s * 1_000:.0f} ms"


def _cheapest(costs: Sequence[int | None]) -> tuple[int, str]:
    known = [(nusd, index) for index, nusd in enumerate(costs) if nusd is not None]
    if not known:
        return 0, "cost: no price known"
    nusd, index = min(known)
    return index, f"cost: about ${nusd / NANO:.6f}"


def _models(catalog: Catalog, project: Project, ordered: Members, caller: Caller) -> tuple[Model, ...]:
    first = ordered[0][1]
    if not caller.fallback:
        return (first,)
    others = [model for _, model in ordered[1:]]
    return tuple(dict.fromkeys((first, *others, *catalog.candidates(first, project)[1:])))
