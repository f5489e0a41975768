"""The gateway as `GET /v1/status` shows it: providers, worker processes, and the slots of vendors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gw.admin.listings import ProviderState, provider_states
from gw.admin.process_status import JournalStatus, WorkerStatus, journal_status, worker_status
from gw.admin.schemas import Schema, from_attributes
from gw.registry.catalog import Catalog
from gw.store.journal_use import JournalUse
from gw.types.gate_view import GateView, SlotsSource, SlotsView
from gw.types.ids import MODALITIES, Modality
from gw.types.worker_state import WorkerState


class ModelSlots(Schema):
    """Calls at once that the vendor of a model allows. `in_use` includes those of other clients of the account, as far as known."""

    provider: str
    """With the project in parentheses where the project has its own key."""
    modality: Modality
    model: str
    most: int
    in_use: int
    source: SlotsSource
    """answer: the vendor named the number; refusal: it had no slot for a call."""
    age_s: float


class GatewayStatus(Schema):
    providers: dict[str, ProviderState]
    model_count: int
    project_count: int
    journal: JournalStatus
    workers: list[WorkerStatus]
    """Processes that serve apps; empty where one process does everything."""
    slots: list[ModelSlots]
    """Calls at once that vendors allow, as far as their answers tell. What is minutes old is left out."""


def status(
    catalog: Catalog, journals: JournalUse, workers: Sequence[WorkerState], gates: Mapping[str, GateView]
) -> GatewayStatus:  # fmt: skip
    """Return what the gateway holds. `gates` by the name of the provider, with the project where it has a key of its own."""
    return GatewayStatus(
        providers=provider_states(catalog),
        model_count=len({model.id for model in catalog.models.values()}),
        project_count=len(catalog.projects),
        journal=journal_status(journals),
        workers=[worker_status(worker) for worker in workers],
        slots=[slots_of(name, key, view) for name, gate in gates.items() for key, view in gate.slots.items()],
    )


def slots_of(gate: str, key: str, view: SlotsView) -> ModelSlots:
    """Return the slots of `<modality>:<model id>`."""
    named, _, model = key.partition(":")
    modality = next(modality for modality in MODALITIES if modality == named)
    return from_attributes(ModelSlots, view, provider=gate, modality=modality, model=model)
