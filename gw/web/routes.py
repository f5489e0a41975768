"""The table of all routes: of the control plane, and of the data plane as far as the gateway itself describes it."""

from __future__ import annotations

from gw.web import login, oidc_login
from gw.web.route import RouteTable
from gw.web.routes_alerts import ALERTS
from gw.web.routes_capture import CAPTURE
from gw.web.routes_data_plane import DATA_PLANE
from gw.web.routes_entities import ENTITIES
from gw.web.routes_people import PEOPLE
from gw.web.routes_phrases import PHRASES
from gw.web.routes_reports import CHARTS, DASHBOARD, RECONCILE, REPORTS
from gw.web.routes_sessions import SESSIONS, TURNS
from gw.web.routes_shadow import SHADOW
from gw.web.routes_state import STATE

TABLE = RouteTable((
    *STATE, *ENTITIES, *PEOPLE, *REPORTS, *SESSIONS, *TURNS, *DASHBOARD, *login.ROUTES, *oidc_login.ROUTES, *CHARTS, *CAPTURE,
    *PHRASES, *ALERTS, RECONCILE, SHADOW, *DATA_PLANE,
))  # fmt: skip
