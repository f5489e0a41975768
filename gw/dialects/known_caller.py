"""Parts of a token that authentication reads, and the caller that it remembers of a head."""

from __future__ import annotations

from weakref import ref

import msgspec

from gw.config.settings import Auth
from gw.registry.catalog import Catalog
from gw.types.ids import Caller


class TokenClaims(msgspec.Struct):
    iss: str = ""


class KnownCaller(msgspec.Struct):
    """Caller of all requests with one head, valid for these settings and this catalog, if its credential cannot expire."""

    auth: Auth
    catalog: ref[Catalog]
    """Not kept: heads are remembered for as long as clients send them."""
    caller: Caller
