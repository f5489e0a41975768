"""Errors of the database, and of the servers and processes that count for several gateways."""

from __future__ import annotations

from gw.errors.error_base import DescribedError, GwError


class StoreError(DescribedError, status=503, code="usage_store_unavailable"):
    what: str = "the usage store is unavailable"


class DatabaseLocked(StoreError, code="database_locked"):
    what: str = "database is locked"


class StoreUnavailable(StoreError):
    """The database or its journal cannot be used."""


class AlertsLedElsewhere(StoreError):
    """Another gateway with the same database sends the alerts."""

    what: str = "another gateway sends the alerts now"


class BankUnreachable(GwError, status=503, code="fleet_unreachable"):
    """The server that counts for all gateways of a fleet cannot be reached."""

    address: str
    why: str

    @property
    def message(self) -> str:
        return f"the fleet's Valkey server at {self.address} cannot be used: {self.why}"


class FleetSecretDiffers(GwError, status=503, code="fleet_secret_differs"):
    """The gateways of a fleet have different secrets, so none can read what another has encrypted."""

    @property
    def message(self) -> str:
        return (
            "the phrases of the fleet were encrypted with another GW_SECRET: give all gateways of the fleet the same, "
            "and during a change the old one as GW_SECRET_PREVIOUS"
        )


class KeeperUnreachable(BankUnreachable, status=503, code="keeper_unreachable"):
    """The keeper process, which counts for all workers of a gateway, cannot be reached from a worker."""

    address: str = ""

    @property
    def message(self) -> str:
        return f"the keeper process, which counts for all workers, cannot be used: {self.why}"


class DatabaseUnusable(StoreUnavailable):
    """The database cannot be used until somebody mends or replaces it: it is damaged, of another program or of a newer gw."""
