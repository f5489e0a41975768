"""Requests to Amazon's services: the region of an address, and the signature. Not itself a provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from gw.providers.spec import Account
from gw.wire import aws_sigv4
from gw.wire.aws_sigv4 import Scope

_REGION: Final = re.compile(r"\.([a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$")
_USUAL_REGION: Final = "us-east-1"
_EXPIRES_S: Final = 300
"""Longest time for which the vendor takes a signed address of a socket."""


def region_of(host: str) -> str:
    """Return the region that the vendor's host names; for a server of the user's own that of the vendor's global addresses."""
    named = _REGION.search(host)
    return named[1] if named is not None else _USUAL_REGION


def signed_path(account: Account, service: str, path: str, fields: Mapping[str, str]) -> str:
    """Return a path with the query that signs a GET of it: the fields, and those of the signature."""
    credentials = aws_sigv4.parse_credentials(account.api_key.reveal())
    whole_path, host = account.origin.prefix.decode() + path, account.origin.authority
    return f"{path}?{aws_sigv4.sign_query(credentials, scope_of(account, service), host, whole_path, fields, _EXPIRES_S)}"


def scope_of(account: Account, service: str) -> Scope:
    """Return the scope of a signature that is made now."""
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return Scope(region_of(account.origin.host), service, time)


def signed_headers(
    account: Account, service: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> list[tuple[bytes, bytes]]:
    """Return `headers` and those of the signature."""
    credentials = aws_sigv4.parse_credentials(account.api_key.reveal())
    whole_path, host = account.origin.prefix.decode() + path, account.origin.authority
    added = aws_sigv4.sign_headers(credentials, scope_of(account, service), method, host, whole_path, "", headers, body)
    return [(name.encode(), value.encode()) for name, value in (*headers.items(), *added)]
