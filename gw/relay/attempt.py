"""Measurements of one attempt."""

from __future__ import annotations

from types import NoneType

import msgspec

from gw.errors import ProviderError, StaleConnection, UpstreamCut, UpstreamSlow
from gw.policy.respelling import RespelledText
from gw.registry.catalog import Model
from gw.relay.waste import NO_WASTE, Waste
from gw.types.model_routes import Routed
from gw.types.usage import CacheUse, Cost, Usage

_NOTHING = Usage(source="estimated")

_MAY_BE_CHARGED = (NoneType, UpstreamSlow, UpstreamCut)


class Attempt(msgspec.Struct, eq=False):
    """Measurements of one attempt. Times are monotonic seconds."""

    model: Model
    started: float
    ready_at: float | None = None
    ended: float | None = None
    error: ProviderError | None = None
    called: bool = False
    """Something was sent to the vendor, or may have been."""
    addons: tuple[str, ...] = ()
    """Options of the request that the vendor bills on top."""
    channels: int = 1
    """Channels of a recording or session that the vendor transcribes, and bills, one by one."""
    refused: bool = False
    """The model refused, in an answer."""
    hedges: bool = False
    estimate: Usage = _NOTHING
    """Units that it is sent, as far as they are known before an answer."""
    ignored_settings: tuple[str, ...] = ()
    """Settings, and later changes of settings, that the vendor did without."""
    voice: str | None = None
    usage: Usage | None = None
    """Units that the vendor may charge for, with their cost and waste; None for a call that costs nothing (`Meter.bill`)."""
    measured: Usage | None = None
    cost: Cost | None = None
    estimated_nusd: int = 0
    waste: Waste = NO_WASTE
    lost_s: float = 0.0
    cache: CacheUse = ""
    saved_nusd: int = 0
    respelled: RespelledText | None = None
    routed: Routed | None = None
    """Why a route chose it for the request."""

    def may_be_charged(self, *, is_last: bool) -> bool:
        """Return whether the vendor may charge for a call that gave no content.

        The caller did not wait for it, or it was too slow, cut or refused. After a stale connection the same request is
        sent again, so only the last of them counts.
        """
        if not self.called or self.ready_at is not None:
            return False
        charged = isinstance(self.error, _MAY_BE_CHARGED) or self.refused
        return charged or (is_last and isinstance(self.error, StaleConnection))
