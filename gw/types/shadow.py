"""Shadow transcription: a second model that gets a share of the calls of a first one, so that the two can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

SHADOW_PROJECT = "shadow"
"""Project of the calls of second models. It exists while gw.yaml has the section `shadow`."""
CallKind = Literal["live", "recording"]


class ShadowModel(msgspec.Struct, frozen=True, kw_only=True):
    """The second model of a model."""

    model: Annotated[str, "model id of the second model"] = ""
    share: Annotated[float, msgspec.Meta(gt=0, le=1), "share of sessions that it gets as well"] = 0.05


class ShadowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Second models, who pays for them, and whose audio they get."""

    daily_budget_nusd: Annotated[int, "USD per UTC day for all second models; then none is called until midnight"] = 0
    projects: Annotated[tuple[str, ...], "projects whose audio may go to a second vendor; no other one's does"] = ()
    models: Annotated[Mapping[str, ShadowModel], "model id of transcription → its second model"] = msgspec.field(default_factory=dict)
