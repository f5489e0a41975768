"""Accounts of Google Cloud: how a request says who it is from, the project, and the address of a service. Not itself a provider.

A key is an API key, or the file of a service account's key: its JSON, or that in base64. Such a key signs the requests' tokens itself, for
an hour each, and no request of its own is needed (google.aip.dev/auth/4111; google-auth 2.63.0, `jwt.py` and `oauth2/service_account.py`).
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from datetime import UTC, datetime
from typing import Any, Final

import attrs
import msgspec

from gw.errors import ProviderRejected
from gw.net.http1 import Origin
from gw.providers.spec import Account, rejected
from gw.types.secret import Secret

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_LASTS_S: Final = 3_600
"""Longest time for which the vendor takes such a token."""
_RENEWED_S: Final = 600
"""Time before its end at which a token is replaced: a request with it may wait."""
_HOST: Final = re.compile(r"(?:([a-z0-9-]+)-)?(?:texttospeech|speech)\.googleapis\.com")
_PROJECT: Final = re.compile(r"[a-z0-9][a-z0-9.:-]{0,99}")
_STATE: Final = "google_token"


class _KeyFile(msgspec.Struct, gc=False):
    type: str
    client_email: str
    private_key: str
    private_key_id: str = ""
    project_id: str = ""

    def __repr__(self) -> str:
        return f"_KeyFile({self.client_email!r})"  # without the private key


_KEY_FILE = msgspec.json.Decoder(_KeyFile)


@attrs.frozen
class _Token:
    """A token, the account's key that it belongs to, when it ends, in seconds since 1970, and what signs the next one."""

    key: Secret
    text: Secret
    until: float
    signer: Any = attrs.field(repr=False)


def _key_file(account: Account) -> _KeyFile | None:
    """Return the key of a service account; None for an API key. Raises ProviderRejected."""
    key = account.api_key.reveal().strip()
    if not key.startswith("{"):
        try:
            key = b64decode(key, validate=True).decode("utf-8")
        except (NotBase64, ValueError):
            return None
        if not key.startswith("{"):
            return None
    try:
        key_file = _KEY_FILE.decode(key.encode())
    except msgspec.DecodeError:
        raise rejected(account, "the key is JSON, but not the key of a service account", status=401) from None
    if key_file.type != "service_account":
        raise rejected(account, "the key is of a type other than service_account", status=401)
    return key_file


def _signer(account: Account, file: _KeyFile) -> Any:
    """Return the private key, checked, which takes some 40 ms. Raises ProviderRejected for one that cannot be used."""
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey

    try:
        return RSAKey.import_key(file.private_key)
    except (JoseError, ValueError, TypeError):
        raise _unusable(account) from None


def _signed(account: Account, file: _KeyFile, signer: Any, now: float) -> str:
    """Return a token that begins now. Raises ProviderRejected for a private key that cannot sign."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    claims = {"iss": file.client_email, "sub": file.client_email, "iat": int(now), "exp": int(now) + _LASTS_S, "scope": _SCOPE}
    try:
        return jwt.encode({"typ": "JWT", "alg": "RS256", "kid": file.private_key_id}, claims, signer, algorithms=["RS256"])
    except (JoseError, ValueError, TypeError):
        raise _unusable(account) from None


def _unusable(account: Account) -> ProviderRejected:
    return rejected(account, "the private key of the service account cannot sign", status=401)


def _token(account: Account, file: _KeyFile) -> Secret:
    """Return the token of this account, a new one when the last is about to end."""
    now = datetime.now(UTC).timestamp()
    kept = account.call_state.get(_STATE)
    last = kept if isinstance(kept, _Token) and kept.key == account.api_key else None
    if last is not None and now < last.until - _RENEWED_S:
        return last.text
    signer = _signer(account, file) if last is None else last.signer
    token = _Token(account.api_key, Secret(_signed(account, file, signer, now)), now + _LASTS_S, signer)
    account.call_state[_STATE] = token
    return token.text


def key_headers(account: Account) -> list[tuple[bytes, bytes]]:
    """Return the headers that say who a request is from. Raises ProviderRejected."""
    if not account.api_key:
        return []
    file = _key_file(account)
    if file is None:
        return [(b"x-goog-api-key", account.api_key.reveal().encode())]
    return [(b"authorization", b"Bearer " + _token(account, file).reveal().encode())]


def at_service(account: Account, service: str) -> Account:
    """Return the account at the address of `speech` or `texttospeech` in the same location; a server of the user's own has both."""
    origin: Origin = account.origin
    if _HOST.fullmatch(origin.host) is None:
        return account
    location = location_of(account)
    host = f"{service}.googleapis.com" if location == "global" else f"{location}-{service}.googleapis.com"
    return attrs.evolve(account, origin=attrs.evolve(origin, host=host))


def location_of(account: Account) -> str:
    """Return the location that the vendor's host names."""
    named = _HOST.fullmatch(account.origin.host)
    return (named[1] if named is not None else None) or "global"


def project_of(account: Account) -> str:
    """Return the project that pays: of the entry, else of the service account. Raises ProviderRejected."""
    project = account.options.get("project")
    if not project and (file := _key_file(account)) is not None:
        project = file.project_id
    if not project:
        raise rejected(account, "no project: set `project` of the provider, or use the key of a service account")
    if not isinstance(project, str) or _PROJECT.fullmatch(project) is None:
        raise rejected(account, "the project is not the id or number of a project")
    return project
