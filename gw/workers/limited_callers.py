"""Callers whose limits one process must count alone: keys with budgets, rates or `max_concurrent`, projects with budgets beyond a day.

Their requests are answered by the keeper, so those limits are as exact as in one process. Without such callers nothing is looked up.
"""

from __future__ import annotations

from gw.config.settings import Auth
from gw.dialects.auth import credential, principal
from gw.errors import GwError
from gw.gateway import Gateway
from gw.registry.catalog import Catalog
from gw.relay.key_limits import budgets_of, longer_budgets
from gw.types.ids import KeyLimits
from gw.web.http_server_head import Head


class LimitedCallers:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._of: tuple[Auth, Catalog] | None = None
        self._projects: frozenset[str] = frozenset()
        self._has_keys = False

    def includes(self, head: Head) -> bool:
        """Return whether a request is one of such a caller. One that may choose its project counts as such if any project is one."""
        auth, catalog = self._gateway.settings.auth, self._gateway.current.catalog
        if self._of is None or self._of[0] is not auth or self._of[1] is not catalog:
            self._of = auth, catalog
            self._projects = frozenset(name for name, project in catalog.projects.items() if longer_budgets(project) is not None)
            limits = [*(key.limits for key in auth.keys), *(key.limits for key in catalog.keys)]
            self._has_keys = any(map(is_counted, limits))
        if not self._projects and not self._has_keys:
            return False
        presented = credential(head.headers, head.query) if auth.on or catalog.keys or catalog.tokens else None
        try:
            bearer = principal(self._gateway, presented)
        except GwError:  # the worker refuses it
            return False
        if is_counted(bearer.limits):
            return True
        return bool(self._projects) if bearer.project is None else bearer.project in self._projects


def is_counted(limits: KeyLimits | None) -> bool:
    """Return whether a key has a limit that counts its requests."""
    if limits is None:
        return False
    return bool(budgets_of(limits)) or limits.requests_per_minute is not None or limits.max_concurrent is not None
