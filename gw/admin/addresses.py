"""Check of a provider's `base_url` that comes through the API.

The holder of the admin token may point a provider at any public address, but not at the network around the gateway, which
it could otherwise reach through the gateway (server-side request forgery). The address that a name resolves to is checked
when it is connected to (`Origin.public_only`).
"""

from __future__ import annotations

from collections.abc import Collection

from gw.errors import RequestError
from gw.types.address import host_of, is_never_called, is_public
from gw.types.ids import Location


def checked_base_url(value: str | None, location: Location, allowed_hosts: Collection[str]) -> str | None:
    """Return `value` without a trailing slash, None for an empty one. Raises RequestError.

    The scheme is http(s), for a local provider also tcp. Link-local and metadata addresses are refused; private ones and
    this machine are only for local providers, and for hosts in `serve.provider_base_url_hosts`.
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
    """Return whether a host is this machine, a non-public address, or an unusual spelling of one."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not is_public(host)
    except ValueError:
        last = host.rpartition(".")[2]
        return last.isdigit() or last.startswith("0x")  # 2130706433, 0x7f.1, 127.1: some resolvers accept these
