"""Why no connection was made, as an error that its caller understands."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Final

from gw.errors import OutOfDescriptors, ProviderError, ProviderUnreachable, Unreached

CAUSES: Final[Mapping[int, Unreached]] = {
    errno.ECONNREFUSED: "refused", errno.EHOSTUNREACH: "no_route", errno.ENETUNREACH: "no_route",
    errno.EADDRNOTAVAIL: "no_route", errno.ETIMEDOUT: "timeout",
}  # fmt: skip

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""No socket can be opened, for lack of descriptors or memory here."""


class ConnectFailed(OSError):
    """No connection; the text is a plain explanation fit for an error's `detail`."""

    def __init__(self, text: str, cause: Unreached = "") -> None:
        super().__init__(text)
        self.cause: Unreached = cause


def require_descriptor() -> None:
    """Raise OSError if this process can open no file, before something is blamed that needs one."""
    os.close(os.open(os.devnull, os.O_RDONLY))


def describe(error: BaseException) -> str:
    """Say why a connection failed, without addresses of code or vendor bytes."""
    if isinstance(error, ConnectFailed):
        return str(error)
    cause = error.__cause__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(cause, OSError) and cause is not error:
        return describe(cause)
    return "connection lost"


def unreachable(provider: str, error: BaseException) -> ProviderError:
    """Return the provider error of a failed connection. That this process can open no socket is no fault of the provider's."""
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return OutOfDescriptors(provider=provider)
    cause = error.cause if isinstance(error, ConnectFailed) else CAUSES.get(getattr(error, "errno", None) or 0, "lost")
    return ProviderUnreachable(provider=provider, detail=describe(error), cause=cause)
