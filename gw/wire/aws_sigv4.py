"""Amazon's Signature Version 4: headers that sign a request.

Source: botocore 1.43.117, `auth.py` (`SigV4Auth`), which a test compares with this. botocore itself is not used:
importing its signer takes a quarter of a second, in which no audio moves, and 24 MB (measured with Python 3.11).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

_ALGORITHM = "AWS4-HMAC-SHA256"
_END = "aws4_request"
_UNRESERVED = "-_.~"


class AwsCredentials(msgspec.Struct, frozen=True, gc=False):
    access_key_id: str
    secret_access_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        return "AwsCredentials()"


def parse_credentials(key: str) -> AwsCredentials:
    """Return the parts of `ACCESS_KEY_ID:SECRET_ACCESS_KEY`, or of that and `:SESSION_TOKEN`."""
    id_, _, rest = key.partition(":")
    secret, _, token = rest.partition(":")
    return AwsCredentials(id_, secret, token)


class Scope(msgspec.Struct, frozen=True, gc=False):
    """Place and time at which a signature is valid. `time`: in UTC, as `20261126T100000Z`."""

    region: str
    service: str
    time: str

    @property
    def name(self) -> str:
        return f"{self.time[:8]}/{self.region}/{self.service}/{_END}"


def sign_headers(
    credentials: AwsCredentials, scope: Scope, method: str, host: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> list[tuple[str, str]]:
    """Return the headers to add to a request, which sign `headers` (names in small letters) and `host` as well.

    `path` and `query`: as they are sent, the fields of the query in order of their names.
    """
    added = {"x-amz-date": scope.time} | ({"x-amz-security-token": credentials.session_token} if credentials.session_token else {})
    signed = {**headers, **added, "host": host}
    canonical = _canonical_request(method, path, query, signed, hashlib.sha256(body).hexdigest())
    names, signature = ";".join(sorted(signed)), _signature(credentials, scope, canonical)
    value = f"{_ALGORITHM} Credential={credentials.access_key_id}/{scope.name}, SignedHeaders={names}, Signature={signature}"
    return [*added.items(), ("authorization", value)]


def _canonical_request(method: str, path: str, query: str, headers: Mapping[str, str], body_hash: str) -> str:
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    return "\n".join((method, quote(path, safe="/" + _UNRESERVED), query, lines, ";".join(sorted(headers)), body_hash))


def _signature(credentials: AwsCredentials, scope: Scope, canonical: str) -> str:
    text = "\n".join((_ALGORITHM, scope.time, scope.name, hashlib.sha256(canonical.encode()).hexdigest()))
    key = b"AWS4" + credentials.secret_access_key.encode()
    for part in (*scope.name.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()
