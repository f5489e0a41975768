"""Route of the comparison of models with their second models."""

from __future__ import annotations

from gw.admin import shadow_report
from gw.types.shadow import SHADOW_PROJECT
from gw.web.route import Request, Route


def _report(request: Request) -> shadow_report.ShadowReport:
    gateway = request.gateway
    shadows, spent_nusd = gateway.relay.shadows, gateway.ledger.spent_in_fleet(SHADOW_PROJECT)
    running = shadows.running + sum(worker.figures.shadow_calls for worker in gateway.workers())
    return shadow_report.report(shadows.settings, shadows.comparisons.pairs, running=running, spent_nusd=spent_nusd)


SHADOW = Route(
    "GET", "/v1/compare", "compare", "Models of transcription beside their second models: words that differ, times and costs.", _report,
    tag="Reports", answers=(shadow_report.ShadowReport,),
    notes="Comparisons since the gateway started, of the calls that `shadow` of gw.yaml gives to a second model as well.",
)  # fmt: skip
