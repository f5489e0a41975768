"""Parts of a token that authentication reads, and the caller that it remembers of a connection."""

from __future__ import annotations

import msgspec

from gw.config.settings import Auth
from gw.registry.catalog import Catalog
from gw.types.ids import Caller


class TokenClaims(msgspec.Struct):
    iss: str = ""


class KnownCaller(msgspec.Struct):
    """Caller of a connection's latest request, valid for these settings and this catalog, if its credential cannot expire."""

    auth: Auth
    catalog: Catalog
    caller: Caller
