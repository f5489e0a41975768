"""Errors of the tree that are also the corresponding errors of Python, so that a program can catch either."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from gw.errors import KeyDecryptError, ProviderUnreachable


class ConnectionRefused(ProviderUnreachable, ConnectionRefusedError):
    """Nothing listens at the provider's address, such as a local server that does not run."""


@cache
def _undecryptable() -> type[KeyDecryptError]:
    """Return a class that is made when first needed: its base's library takes a tenth of a second to import."""
    from cryptography.fernet import InvalidToken

    class StoredKeyInvalid(KeyDecryptError, InvalidToken):
        """A stored key that the current secret cannot decrypt."""

    return StoredKeyInvalid


@contextmanager
def as_python_errors() -> Iterator[None]:
    """Raise a refused connection as a ConnectionRefusedError too, an undecryptable key as cryptography's InvalidToken."""
    try:
        yield
    except ConnectionRefused:
        raise
    except ProviderUnreachable as error:
        if not error.detail.startswith(os.strerror(errno.ECONNREFUSED)):
            raise
        raise ConnectionRefused(provider=error.provider, detail=error.detail) from error
    except KeyDecryptError as error:
        if isinstance(error, _undecryptable()):
            raise
        raise _undecryptable()(provider=error.provider, detail=error.detail) from error
