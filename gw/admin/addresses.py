"""May this address be a provider's `base_url`, when it comes through the API?

Whoever has the admin token may point a provider anywhere a vendor could be, but not at this machine's surroundings: a
gateway that calls what it is told to is a way into the network it stands in. What a name resolves to is checked when it
is connected to (`Origin.public_only`).
"""

from __future__ import annotations

from collections.abc import Collection

from gw.errors import RequestError
from gw.types.address import host_of, is_never_called, is_public
from gw.types.ids import Location


def checked_base_url(value: str | None, location: Location, allowed_hosts: Collection[str]) -> str | None:
    """`value` without its last slash; None for none.

    http(s) only, of a local provider also tcp, without user or query. Link-local and metadata addresses never; private ones
    and this machine only for a local provider, or where `serve.provider_base_url_hosts` names the host. Raises RequestError.
    """
    if not value:
        return None
    try:
        host = host_of(value, tcp=location == "local")
    except ValueError as error:
        raise RequestError(what=f"base_url: {error}", param="base_url") from None
    if is_never_called(host):
        raise RequestError(what="base_url is a link-local or metadata address, which is never called", param="base_url")
    if location == "cloud" and host not in {h.lower() for h in allowed_hosts} and _is_inside(host):
        what = "base_url is a private address; list its host in serve.provider_base_url_hosts to allow it"
        raise RequestError(what=what, param="base_url")
    return value.rstrip("/")


def _is_inside(host: str) -> bool:
    """A name of this machine, an address that is not of the public internet, or an odd spelling of one."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not is_public(host)
    except ValueError:
        last = host.rpartition(".")[2]
        return last.isdigit() or last.startswith("0x")  # 2130706433, 0x7f.1, 127.1: some resolvers take these
