"""Encryption of stored provider keys, of captured content and of phrases: the source of the secret, and the envelope of a key.

A key is encrypted together with its provider id and origin, so it cannot be used for another provider or host by copying a
row or changing a `base_url`. The library is imported at the first use: a gateway without stored keys, and `gw --help`, start
without it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gw.errors import ConfigError, KeyDecryptError, Problem
from gw.policy.phrase_cache import KeptPhrase
from gw.policy.phrase_index import MARK_BYTES
from gw.types.base64url import decode_base64url
from gw.types.secret import Secret

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

SECRET_FILE = ".secret"
_SALT = b"gw vault"
_FOR_ENCRYPTION, _FOR_CHECK = b"fernet key v1", b"key check v1"
_KEY_BYTES = 32
_NONCE_BYTES = 12


def load_secrets(secret: Secret, previous: Secret, folder: Path) -> tuple[Secret, ...]:
    """Return the current secret, then those it replaces: `secret` and `previous` (GW_SECRET, GW_SECRET_PREVIOUS) if set.

    Otherwise they come from the file `.secret` in `folder`, one a line, the current one first; a new secret is written
    there if there is no file. The file is 0600 and appears complete. Blocks. Raises ConfigError.
    """
    if secret:
        return (secret, previous) if previous else (secret,)
    path = folder / SECRET_FILE
    try:
        if not path.exists():
            _write(path, _line(new_secret()), replace=False)   # another process may be first; then its secret is used
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(fd, encoding="utf-8") as file:
            if os.fstat(fd).st_mode & 0o077:
                os.fchmod(fd, 0o600)
            value = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or "unknown" if isinstance(error, OSError) else "it is not valid UTF-8"
        raise ConfigError(problems=(Problem(what=f"the secret cannot be used: {reason}", file=str(path)),)) from None
    if not value:
        hint = "set GW_SECRET or restore the file; remove it only if no key is stored"
        raise ConfigError(problems=(Problem(what="the secret is empty", file=str(path), hint=hint),))
    return tuple(Secret(line) for line in value.split("\n") if line)


def replace_secret_file(folder: Path, secrets: Iterable[Secret]) -> None:
    """Replace `.secret` atomically. Blocks. Raises OSError."""
    _write(folder / SECRET_FILE, b"".join(map(_line, secrets)), replace=True)


def _line(secret: Secret) -> bytes:
    return secret.reveal().encode() + b"\n"


def new_secret() -> Secret:
    return Secret(base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode())


class Vault:
    """Encrypts with `secret`; also decrypts with `previous` ones, so that a secret can be changed.

    A secret is a Fernet key (44 characters of URL-safe base64) or any other string, from which one is derived.
    """

    def __init__(self, secret: Secret, previous: Iterable[Secret] = ()) -> None:
        self.secrets = (secret, *previous)

    def encrypt(self, key: Secret, *, provider: str, origin: str) -> bytes:
        envelope = {"provider": provider, "origin": origin, "key": key.reveal()}
        return self._fernet.encrypt(msgspec.json.encode(envelope))

    def decrypt(self, token: bytes, *, provider: str, origin: str) -> Secret:
        """Raises KeyDecryptError for another secret, and for a key that was stored for another provider or origin."""
        from cryptography.fernet import InvalidToken

        try:
            decode_base64url(token)  # Fernet skips what is not of the alphabet
            envelope = msgspec.json.decode(self._fernet.decrypt(token), type=_Envelope)
        except (InvalidToken, ValueError, msgspec.DecodeError) as error:
            raise KeyDecryptError(provider=provider) from error
        if (envelope.provider, envelope.origin) != (provider, origin):
            raise KeyDecryptError(provider=provider)
        return Secret(envelope.key)

    def rotate(self, token: bytes, *, provider: str) -> bytes:
        """Encrypt the same envelope with the current secret. Raises KeyDecryptError."""
        from cryptography.fernet import InvalidToken

        try:
            decode_base64url(token)
            return self._fernet.rotate(token)
        except (InvalidToken, ValueError) as error:
            raise KeyDecryptError(provider=provider) from error

    def warm(self) -> None:
        """Load the library, which takes a tenth of a second."""
        _ = self._fernet

    @property
    def check_value(self) -> str:
        """Fingerprint of the current secret, stored beside the keys; it reveals nothing but equality."""
        return _derive(self.secrets[0], _FOR_CHECK).hex()

    def recognises(self, check_value: str) -> bool:
        """Return whether `check_value` belongs to one of our secrets; if not, the stored keys cannot be decrypted."""
        expected = check_value.encode()
        return any(hmac.compare_digest(_derive(s, _FOR_CHECK).hex().encode(), expected) for s in self.secrets)

    @cached_property
    def _fernet(self) -> MultiFernet:
        from cryptography.fernet import Fernet, MultiFernet

        return MultiFernet([Fernet(_fernet_key(secret)) for secret in self.secrets])

    def __repr__(self) -> str:
        return f"Vault({len(self.secrets)} secrets)"


class ContentCipher:
    """Encrypts content with a key of its own (AES-256-GCM), which the vault keeps encrypted.

    `about` says what the content belongs to. Content cannot be read as that of anything else.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aead = AESGCM(key)

    @staticmethod
    def new_key() -> bytes:
        return os.urandom(_KEY_BYTES)

    def seal(self, content: bytes, *, about: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, content, about.encode())

    def open(self, sealed: bytes, *, about: str) -> bytes:
        """Raises ValueError for content of another key or of something else."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode())
        except InvalidTag as error:
            raise ValueError("this was encrypted with another key, or for something else") from error

    def __repr__(self) -> str:
        return "ContentCipher()"


class PhraseCipher:
    """Seals phrases, and hashes their keys and marks."""

    def __init__(self, key: bytes) -> None:
        self._content = ContentCipher(key)
        self._key = hashlib.blake2b(key, digest_size=32, person=b"gw phrases").digest()

    def hashed(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, digest_size=16, key=self._key).digest()

    def hashed_mark(self, mark: bytes) -> bytes:
        return hashlib.blake2b(mark, digest_size=MARK_BYTES, key=self._key).digest()

    def seal(self, phrase: KeptPhrase, hashed: bytes) -> bytes:
        return self._content.seal(msgspec.msgpack.encode(phrase), about=f"phrase/{hashed.hex()}")

    def open(self, body: bytes, hashed: bytes) -> KeptPhrase:
        """Raises ValueError for content of another key."""
        return msgspec.msgpack.decode(self._content.open(body, about=f"phrase/{hashed.hex()}"), type=KeptPhrase)


class _Envelope(msgspec.Struct, frozen=True):
    provider: str
    origin: str
    key: str

    def __repr__(self) -> str:
        return f"_Envelope({self.provider!r}, {self.origin!r})"


def _fernet_key(secret: Secret) -> bytes:
    value = _raw(secret)
    with suppress(ValueError):
        if len(value) == 44 and len(base64.b64decode(value, altchars=b"-_", validate=True)) == _KEY_BYTES:
            return value
    return base64.urlsafe_b64encode(_derive(secret, _FOR_ENCRYPTION))


def _derive(secret: Secret, purpose: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), one block of 32 bytes."""
    extracted = hmac.digest(_SALT, _raw(secret), hashlib.sha256)
    return hmac.digest(extracted, purpose + b"\x01", hashlib.sha256)


def _raw(secret: Secret) -> bytes:
    """Return the bytes from the environment: invalid UTF-8 comes as surrogates."""
    return secret.reveal().encode("utf-8", "surrogateescape")


def _write(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file beside `path`, then rename it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}.new")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        if replace:
            os.replace(draft, path)
        else:
            with suppress(FileExistsError):
                os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
