"""SQL of units and money per model over a range of UTC days, as a bill is compared with."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal

import apsw
import msgspec

from gw.types.ids import Modality, split_model_id

_SUMS = """
select model_id, sum(requests), sum(cost_nusd), sum(unpriced),
    sum(input_tokens), sum(output_tokens), sum(audio_seconds), sum(characters)
from rollup_day
where bucket between ? and ? and modality = ? and provider = ?
group by model_id order by model_id"""
_RANGE = "select min(bucket), max(bucket) from rollup_day where modality = ? and provider = ?"


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is the vendor's name of it, without the provider."""

    model: str
    requests: int
    cost_nusd: int
    unpriced: int
    """Requests without a known price, whose cost is not in the sum."""
    input_tokens: int
    output_tokens: int
    audio_seconds: float
    characters: int

    def units(self, name: str) -> Decimal:
        value: float = getattr(self, name)
        return round(Decimal(value), 6)

    def __add__(self, other: ModelUsage) -> ModelUsage:
        fields = [name for name in self.__struct_fields__ if name != "model"]
        return ModelUsage(model=self.model, **{name: getattr(self, name) + getattr(other, name) for name in fields})


def usage_by_model(
    db: apsw.Connection, first_day: int, last_day: int, modality: Modality, providers: Collection[str]
) -> list[ModelUsage]:
    """Of each provider's models; both days inclusive, counted from 1970-01-01."""
    return [
        ModelUsage(
            model=split_model_id(model_id)[1],
            requests=requests,
            cost_nusd=cost,
            unpriced=unpriced,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            audio_seconds=seconds,
            characters=characters,
        )
        for provider in providers
        for model_id, requests, cost, unpriced, tokens_in, tokens_out, seconds, characters in db.execute(
            _SUMS, (first_day, last_day, modality, provider)
        )
    ]


def recorded_days(db: apsw.Connection, modality: Modality, providers: Collection[str]) -> tuple[int, int] | None:
    """The first and the last UTC day with a request; None = there is none."""
    found = [db.execute(_RANGE, (modality, provider)).get for provider in providers]
    days = [pair for pair in found if pair[0] is not None]
    return (min(first for first, _ in days), max(last for _, last in days)) if days else None
