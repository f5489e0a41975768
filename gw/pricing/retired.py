"""Models that a vendor has shut down or will shut down, from the list shipped beside this file (`retired.toml`)."""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files

import attrs


@attrs.frozen(kw_only=True)
class Retired:
    """`ends`: the day from which calls fail. `successor`: its replacement; "" where the vendor has named none."""

    provider_type: str
    model: str
    ends: date
    successor: str
    source: str

    def sentence(self, today: date) -> str:
        """Return the end of a sentence that begins with the model's name."""
        when = "was shut down" if self.ends <= today else "will be shut down"
        hint = f"; its successor is {self.successor}" if self.successor else ""
        return f"{when} on {self.ends.isoformat()}{hint}"


def successor(provider_type: str, model: str) -> Retired | None:
    """Return the entry of a model in the list, else None."""
    return _known().get((provider_type, model))


@cache
def _known() -> dict[tuple[str, str], Retired]:
    """Read the list once. Raises ValueError for a model that is listed twice."""
    rows = tomllib.loads(files("gw.pricing").joinpath("retired.toml").read_text(encoding="utf-8"))["retired"]
    known: dict[tuple[str, str], Retired] = {}
    for row in rows:
        for model in row["models"]:
            if (row["provider"], model) in known:
                raise ValueError(f"retired.toml names {row['provider']}/{model} twice")
            facts = {"ends": row["ends"], "successor": row.get("successor", ""), "source": row["source"]}
            known[row["provider"], model] = Retired(provider_type=row["provider"], model=model, **facts)
    return known
