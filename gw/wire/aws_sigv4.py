"""Amazon's Signature Version 4: headers that sign a request, and the query of an address that is signed beforehand.

Source: botocore 1.43.117, `auth.py` (`SigV4Auth`, `SigV4QueryAuth`), which a test compares with this. botocore itself is not used:
importing its signer takes a quarter of a second, in which no audio moves, and 24 MB (measured with Python 3.11).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
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


def key_parts(key: str) -> list[str]:
    """Return what must not be shown of a key: all of it, and each part."""
    return [part for part in (key, *key.split(":")) if part]


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


def sign_query(
    credentials: AwsCredentials, scope: Scope, host: str, path: str, fields: Mapping[str, str], expires_s: int
) -> str:
    """Return the query of a signed address for a GET without a body: `fields`, and those of the signature."""
    fields = {
        **fields, "X-Amz-Algorithm": _ALGORITHM, "X-Amz-Credential": f"{credentials.access_key_id}/{scope.name}",
        "X-Amz-Date": scope.time, "X-Amz-Expires": str(expires_s), "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": credentials.session_token} if credentials.session_token else {}),
    }  # fmt: skip
    query = encode_query(fields.items())
    canonical = _canonical_request("GET", path, query, {"host": host}, hashlib.sha256(b"").hexdigest())
    return f"{query}&X-Amz-Signature={_signature(credentials, scope, canonical)}"


def encode_query(fields: Iterable[tuple[str, str]]) -> str:
    """Return a query in the form that is signed: percent-encoded, in order."""
    return "&".join(sorted(f"{quote(name, safe=_UNRESERVED)}={quote(value, safe=_UNRESERVED)}" for name, value in fields))


def _canonical_request(method: str, path: str, query: str, headers: Mapping[str, str], body_hash: str) -> str:
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    return "\n".join((method, quote(path, safe="/" + _UNRESERVED), query, lines, ";".join(sorted(headers)), body_hash))


def _signature(credentials: AwsCredentials, scope: Scope, canonical: str) -> str:
    text = "\n".join((_ALGORITHM, scope.time, scope.name, hashlib.sha256(canonical.encode()).hexdigest()))
    key = b"AWS4" + credentials.secret_access_key.encode()
    for part in (*scope.name.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()
