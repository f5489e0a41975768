from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import msgspec
import pytest
import structlog
import trio
from click.testing import CliRunner, Result

from gw.cli.main import main
from gw.config.parse import parse
from gw.config.settings import Settings
from gw.gateway import Gateway, open_gateway
from gw.serve import serve
from gw.types.ids import Caller
from gw.web.drain import Drain
from gw.wire.openai_chat import parse_request
from tests.fakes.gateway_http import fake_gateway


@pytest.fixture
def gateway():
    with fake_gateway() as fake:
        yield fake


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `gw ARGS` in an empty folder, with nothing configured but what `env` says."""
    monkeypatch.chdir(tmp_path)
    base = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    empty = dict.fromkeys(("GW_CONFIG", "GW_DB_PATH", "GW_URL", "GW_API_KEY", "GW_SECRET", "PORT"))

    def invoke(*args: object, stdin: str | None = None, **env: str) -> Result:
        runner = CliRunner(env=base | empty | env)
        return runner.invoke(main, [str(arg) for arg in args], input=stdin)

    return invoke


DAEMON = """
providers: {sim: {}, flaky: {type: sim, fail_rate: 1, fail_with: 503}}
models:
  stt: [sim/tone]
  llm: {sim/echo: {aliases: [parrot], display_name: Echo}, flaky/echo: {}}
  tts: [sim/tone]
stacks: {demo: {stt: sim/tone, llm: sim/echo, tts: sim/tone}}
projects: {shop: {daily_budget: 1.0, budget_action: block, default_stack: demo, tags: [a, b]}}
fallbacks: {llm: [sim/echo]}
cost_tracking: {db_path: gw.db}
serve: {port: 0}
"""


@attrs.define
class RealGateway:
    """A real gateway in a thread. `chat` sends it one chat request and waits until its record can be read."""

    url: str = ""
    gateway: Gateway | None = None
    token: trio.lowlevel.TrioToken | None = None
    stop: trio.Event | None = None
    up: threading.Event = attrs.field(factory=threading.Event)

    async def live(self, settings: Settings) -> None:
        self.stop, self.token = trio.Event(), trio.lowlevel.current_trio_token()
        async with open_gateway(settings) as self.gateway, trio.open_nursery() as nursery:
            drain = Drain()
            (self.url,) = await nursery.start(serve, self.gateway, drain, nursery.cancel_scope)
            self.gateway.store.set_address(self.url)
            self.up.set()
            await self.stop.wait()
            drain.halt()
            nursery.cancel_scope.cancel()

    def chat(self, model: str = "sim/echo", project: str = "default") -> None:
        async def send() -> None:
            request = parse_request(b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}' % model.encode())
            async with self.gateway.relay.chat(request, Caller(project=project, endpoint="test")) as answer:
                while not answer.done:
                    await answer.receive()
            await self.gateway.store.flush()

        trio.from_thread.run(send, trio_token=self.token)


@contextmanager
def gateway_in(folder: Path, text: str = DAEMON, secret: str = "") -> Iterator[RealGateway]:
    (folder / "gw.yaml").write_text(text)
    settings = parse(text, file=str(folder / "gw.yaml"), env={"GW_SECRET": secret}, data_dir=folder)
    tracking = msgspec.structs.replace(settings.cost_tracking, db_path=folder / "gw.db")
    settings = attrs.evolve(settings, cost_tracking=tracking, secret_folder=folder)
    real_gateway = RealGateway()
    thread = threading.Thread(target=trio.run, args=(real_gateway.live, settings))
    thread.start()
    assert real_gateway.up.wait(60)
    try:
        yield real_gateway
    finally:
        trio.from_thread.run_sync(real_gateway.stop.set, trio_token=real_gateway.token)
        thread.join(60)


@pytest.fixture
def real_gateway(tmp_path) -> Iterator[RealGateway]:
    """A real gateway that holds gw.db of the folder, beside its gw.yaml: commands find it by the lock file."""
    with gateway_in(tmp_path) as running:
        yield running


@pytest.fixture
def configured(tmp_path) -> Iterator[Path]:
    """The same gw.yaml, and no gateway."""
    (tmp_path / "gw.yaml").write_text(DAEMON)
    yield tmp_path / "gw.db"
    structlog.reset_defaults()  # a command that opens the database itself has set the stream of its run


@pytest.fixture
def terminal(monkeypatch):
    """Makes the commands believe that a person reads and types."""
    for name in ("output", "report_commands", "resource", "status"):
        module = importlib.import_module(f"gw.cli.{name}")
        monkeypatch.setattr(module, "sys", Streams())
    monkeypatch.setenv("TERM", "dumb")


class Streams:
    """`sys`, its streams terminals."""

    def __getattr__(self, name: str) -> object:
        attribute = getattr(sys, name)
        if name in ("stdin", "stdout", "stderr"):
            attribute.isatty = lambda: True
        return attribute
