"""Which requests a worker gives to the keeper because of limits that only one process can count."""

import attrs
import pytest

from gw.config.parse import parse
from gw.gateway import open_gateway
from gw.web.http_server_head import parse_head
from gw.workers.limited_callers import LimitedCallers

TEXT = """
providers: {{sim: {{}}}}
models: {{llm: [sim/echo]}}
projects: {{shop: {{daily_budget: 1, max_concurrent: 3{budget}}}}}
auth:
  admin_token: b7d1f3a95c2e4860
  keys:
  - {{name: till, key: 9f27c1d86ab340e5, project: shop{limits}}}
"""


@pytest.mark.parametrize(
    ("budget", "limits", "of_key", "of_admin", "of_nobody"),
    [
        ("", "", False, False, False),
        ("", ", models: [sim/echo]", False, False, False),
        ("", ", daily_budget: 1", True, False, False),
        ("", ", requests_per_minute: 5", True, False, False),
        ("", ", max_concurrent: 5", True, False, False),
        (", monthly_budget: 5", "", True, True, False),
    ],
)
async def test_only_callers_with_limits_that_one_process_counts(tmp_path, budget, limits, of_key, of_admin, of_nobody):
    settings = parse(TEXT.format(budget=budget, limits=limits), file="gw.yaml", env={}, data_dir=tmp_path)
    async with open_gateway(settings) as gateway:
        callers = LimitedCallers(gateway)

        def includes(key: str) -> bool:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer {key}\r\n\r\n"
            return callers.includes(parse_head(head.encode()))

        assert [includes(key) for key in ("9f27c1d86ab340e5", "b7d1f3a95c2e4860", "0000")] == [of_key, of_admin, of_nobody]
        gateway.settings = attrs.evolve(settings, auth=attrs.evolve(settings.auth, keys=()))
        assert includes("9f27c1d86ab340e5") is False
