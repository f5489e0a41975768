"""The routes of the dashboard's pages."""

from __future__ import annotations

from gw.admin import pages, series
from gw.admin.setting_sources import SettingsPage
from gw.web.operations import Field, Operation, Shape
from gw.web.routes_reports import PERIOD, PROJECT

_MODEL = Field("model", {"type": "string"}, "The model to draw; absent = the one that was asked most.")
_OTHER = Field("other", {"type": "string"}, "A second model, to compare.")
_METRIC = Field("metric", {"enum": list(series.TIMES), "default": "ttfb"}, "What is drawn.")
_BY = Field("by", {"enum": list(series.SPLITS), "default": "model"}, "What a line stands for.")


def _page(name: str, what: str, answer: Shape, query: tuple[Field, ...] = (), errors: tuple[int, ...] = ()) -> Operation:
    return Operation(
        id=f"page_{name}", method="GET", path=f"/api/pages/{name}", tag="Dashboard", what=what,
        query=query, answers=(answer,), errors=errors,
    )  # fmt: skip


PAGES = (
    _page("providers", "Providers, and the types there are.", pages.ProvidersPage),
    _page("models", "Models with their prices, and the fallback chains.", pages.ModelsPage),
    _page("projects", "Projects with their day, and the stacks.", pages.ProjectsPage, errors=(503,)),
    _page("keys", "Keys, and the projects one may be for.", pages.KeysPage),
    _page("playground", "What can be tried.", pages.PlaygroundPage),
    _page("settings", "The configuration in force, each value with its origin; secrets are masked.",
          SettingsPage),
    _page("costs", "What was spent: in groups, over time, and where the month is going.", pages.CostsPage,
          (PERIOD, _BY, PROJECT), (404, 422, 503)),
    _page("latency", "Percentiles of every model, and lines and histograms of one or two.", pages.LatencyPage,
          (_METRIC, PERIOD, PROJECT, _MODEL, _OTHER), (404, 422, 503)),
)  # fmt: skip
