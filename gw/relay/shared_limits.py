"""Has the budgets and limits of a catalog shared with the other processes and gateways."""

from __future__ import annotations

from gw.config.settings import Auth
from gw.registry.catalog import Catalog
from gw.relay.admission import Ledger
from gw.relay.key_limits import key_budgets, project_budgets


def share_limits(ledger: Ledger, catalog: Catalog, auth: Auth, *, only_used: bool) -> None:
    """Have the budgets and the limits of keys that are in force now shared with other processes. See `Ledger.share`."""
    keys = [(key.id, key.project, key.limits) for key in catalog.keys]
    keys += [(key.id(number), key.project, key.limits) for number, key in enumerate(auth.keys, 1)]
    limited = [(id_, project, limits) for id_, project, limits in keys if limits is not None]
    owners = [project_budgets(project) for project in catalog.projects.values()]
    owners += [key_budgets(limits, project, id_) for id_, project, limits in limited]
    ledger.share(
        [owner for owner in owners if owner is not None], {id_: limits for id_, _, limits in limited}, only_used=only_used
    )
