"""Errors of the tree as the errors of Python that stand for the same, so that a program can catch either."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from gw.errors import KeyDecryptError, ProviderUnreachable

_REFUSED = os.strerror(errno.ECONNREFUSED)
"""What the network writes first into the detail when nobody listens at an address."""


class ConnectionRefused(ProviderUnreachable, ConnectionRefusedError):
    """Nobody listens where a provider should be: a local server that does not run."""


@cache
def _undecryptable() -> type[KeyDecryptError]:
    """Made at first need: the library behind it takes a tenth of a second to load."""
    from cryptography.fernet import InvalidToken

    class StoredKeyInvalid(KeyDecryptError, InvalidToken):
        """A stored key that the present secret cannot decrypt."""

    return StoredKeyInvalid


@contextmanager
def in_python_terms() -> Iterator[None]:
    """A refused connection is also a ConnectionRefusedError, an undecryptable key also cryptography's InvalidToken."""
    try:
        yield
    except ConnectionRefused:
        raise
    except ProviderUnreachable as error:
        if not error.detail.startswith(_REFUSED):
            raise
        raise ConnectionRefused(provider=error.provider, detail=error.detail) from error
    except KeyDecryptError as error:
        if isinstance(error, _undecryptable()):
            raise
        raise _undecryptable()(provider=error.provider, detail=error.detail) from error
