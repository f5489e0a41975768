"""People of the dashboard with the real process: they sign in, and `gw people` and `gw tokens` show them, end sessions and block.

Once alone with SQLite, and once with two workers on PostgreSQL, where any process may get any of the requests.
"""

from __future__ import annotations

import json
import re
import time
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from click.testing import CliRunner

from gw.cli.main import main
from tests.e2e.conftest import compiled_once, starter
from tests.fakes import databases
from tests.fakes.fake_openid import EMAIL, FakeOpenId, callback_target, loopback_openid

pytestmark = pytest.mark.process
ADMIN = "till-8351026789-shop"
CONFIG = """
providers: {{sim: {{}}}}
models: {{llm: [sim/echo]}}
projects: {{shop: {{}}, clinic: {{}}}}
cost_tracking: {{{database}}}
serve: {{workers: {workers}}}
auth:
  admin_token: {admin}
  oidc:
    issuer: {issuer}
    client_id: gw
    client_secret: client-secret-8351026789
    public_url: https://gw.example.com
    roles: [{{claim: groups, value: staff, role: operator, projects: [shop]}}]
"""


class Dashboard:
    """The browser of a person: each request has a connection of its own, so that any worker may get it."""

    def __init__(self, url: str, provider: FakeOpenId) -> None:
        self._url, self._provider = url, provider
        self._cookies: dict[str, str] = {}

    def get(self, path: str) -> httpx2.Response:
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        with httpx2.Client(trust_env=False, follow_redirects=False, timeout=60) as client:
            answer = client.get(self._url + path, headers={"cookie": cookie} if cookie else {})
        for header in answer.headers.get_list("set-cookie"):
            name, _, value = header.partition(";")[0].partition("=")
            self._cookies[name] = value
        return answer

    def sign_in(self) -> str:
        """Sign in; return why it was refused, "" if it was not."""
        address = self.get("/api/oidc/start").headers["location"]
        location = self.get(callback_target(self._provider.authorize(address))).headers["location"]
        return parse_qs(urlsplit(location).query).get("sign_in_refused", [""])[0]


@pytest.fixture(params=["alone", *("two workers on PostgreSQL" for _ in databases.POSTGRES)])
def settings(request, tmp_path):
    """Database and number of workers."""
    if request.param == "alone":
        yield {"database": f"db_path: {tmp_path / 'gw.db'}", "workers": 1}
    else:
        yield {"database": f"database: '{databases.fresh_url()}'", "workers": 2}
        databases.remove_server()


def test_people_from_their_sign_in_to_its_end(settings, tmp_path):
    def gw(*arguments: str) -> str:
        result = CliRunner(env={"GW_URL": daemon.url, "GW_API_KEY": ADMIN, "HOME": str(tmp_path)}).invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    with loopback_openid(time.time) as provider, starter(tmp_path) as start:
        daemon = start(CONFIG.format(admin=ADMIN, issuer=provider.issuer, **settings), **compiled_once(tmp_path))
        ana, elsewhere = Dashboard(daemon.url, provider), Dashboard(daemon.url, provider)
        assert ana.get("/v1/costs?project=shop").status_code == 401
        assert [ana.sign_in(), elsewhere.sign_in()] == ["", ""]
        for _ in range(8):  # whichever worker gets it
            assert (ana.get("/v1/costs?project=shop").status_code, ana.get("/v1/costs?project=clinic").status_code) == (200, 404)
            assert ana.get("/v1/providers").status_code == 403
        [person] = json.loads(gw("people", "list", "--json"))["people"]
        assert (person["name"], person["role"], person["projects"], person["sessions"]) == (EMAIL, "operator", ["shop"], 2)
        assert [person["person_id"], EMAIL, "operator", "shop", "", "2"] == gw("people", "list").splitlines()[1].split("\t")[:6]

        latest, first = json.loads(gw("people", "sessions", "list", "--json"))["logins"]
        assert latest["created_at"] >= first["created_at"]
        gw("people", "sessions", "rm", first["login_id"], "--yes")
        statuses = [[each.get("/v1/costs?project=shop").status_code for _ in range(4)] for each in (ana, elsewhere)]
        assert sorted(statuses) == [[200] * 4, [401] * 4]

        gw("people", "block", person["person_id"])
        assert [each.get("/v1/costs?project=shop").status_code for each in (ana, elsewhere)] == [401, 401]
        assert ana.sign_in() == "blocked"
        gw("people", "unblock", person["person_id"])
        assert (ana.sign_in(), ana.get("/v1/costs?project=shop").status_code) == ("", 200)

        token = gw("tokens", "add", "--name", "reports", "--role", "viewer", "--project", "shop").strip()
        with httpx2.Client(trust_env=False, base_url=daemon.url, headers={"authorization": f"Bearer {token}"}) as client:
            assert [client.get(f"/v1/costs?project={name}").status_code for name in ("shop", "clinic")] == [200, 404]
            [listed] = json.loads(gw("tokens", "list", "--json"))["tokens"]
            gw("tokens", "rm", listed["token_id"], "--yes")
            assert client.get("/v1/costs?project=shop").status_code == 401
        assert daemon.stop() == 0
        assert not re.search(f"{ADMIN}|{token}|gwl_", daemon.text())
