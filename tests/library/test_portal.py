"""The end of a gateway, in programs that run as processes: everything is recorded, and nothing is on stderr."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from gw.library.portal import Portal
from gw.telemetry.log import log_to_program

FILE = """
providers: {sim: {}, slow: {type: sim, token_ms: 600000}}
models: {stt: [sim/tone], llm: [sim/echo, slow/echo], tts: [sim/tone]}
cost_tracking: {db_path: gw.db}
"""
BEGIN = """
import gw
HELLO = [{"role": "user", "content": "Hello you there"}]
g = gw.Gateway()
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "gw.yaml").write_text(FILE)

    def start(text: str) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GW_")}
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", BEGIN + textwrap.dedent(text)],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def recorded(tmp_path) -> int:
    from gw.store.sqlite import open_reader

    db = open_reader(tmp_path / "gw.db")
    try:
        return db.execute("select count(*) from requests").fetchone()[0]
    finally:
        db.close()


@pytest.mark.process
def test_a_program_that_just_ends_has_its_records(program, tmp_path):
    code, out, err = ended(program("print(g.llm('sim/echo').chat(HELLO).text())"))
    assert (code, out, err) == (0, "Hello you there\n", "")
    assert recorded(tmp_path) == 1
    assert not list(tmp_path.glob("*.journal*"))


@pytest.mark.process
def test_a_program_that_fails_while_it_reads_ends_as_well(program, tmp_path):
    code, _, err = ended(program("stream = g.llm('slow/echo').chat(HELLO)\nnext(stream)\nraise SystemExit(3)"))
    assert (code, err) == (3, "")
    assert recorded(tmp_path) == 1


@pytest.mark.process
def test_threads_that_outlive_the_main_one_are_served(program, tmp_path):
    code, out, err = ended(
        program(
            """
            import threading, time
            def ask():
                threading.main_thread().join()
                for _ in range(5):
                    g.llm('sim/echo').chat(HELLO).text()
                print("done")
            g.llm('sim/echo').chat(HELLO).text()
            threading.Thread(target=ask).start()
            """
        )
    )
    assert (code, out, err) == (0, "done\n", "")
    assert recorded(tmp_path) == 6


@pytest.mark.process
def test_the_programs_own_gateway(program):
    code, out, err = ended(program("print(gw.llm('sim/echo').chat(HELLO).text(), type(gw.stt()).__name__, gw.tts().__class__)"))
    assert (code, err) == (0, "")
    assert out.startswith("Hello you there Stt ")


@pytest.mark.process
def test_ctrl_c_interrupts_a_call_that_waits(program, tmp_path):
    process = program(
        """
        stream = g.llm('slow/echo').chat(HELLO)
        next(stream)
        try:
            print("waiting", flush=True)
            next(stream)
        except KeyboardInterrupt:
            print(g.llm('sim/echo').chat(HELLO).text())
        """
    )
    assert process.stdout.readline() == "waiting\n"
    stat = Path(f"/proc/{process.pid}/task/{process.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "S":  # it waits in a lock of C code, which tells nobody
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert (code, out, err) == (0, "Hello you there\n", "")
    assert recorded(tmp_path) == 2


@pytest.mark.process
def test_after_a_fork_it_says_what_to_do(program):
    code, out, err = ended(
        program(
            """
            import os, warnings
            warnings.simplefilter('ignore', DeprecationWarning)  # since Python 3.12: forks with threads
            g.llm('sim/echo').chat(HELLO).text()
            if os.fork():
                os.wait()
            else:
                try:
                    g.llm('sim/echo').chat(HELLO)
                except RuntimeError as error:
                    print(error, flush=True)
                g.close()
                os._exit(0)
            """
        )
    )
    assert (code, err) == (0, "")
    assert out == "this gateway was made before a fork: make one in this process, with its own db_path\n"


@pytest.mark.process
def test_importing_gw_loads_nothing(program, tmp_path):
    text = "import sys, gw; print(gw.__version__ != '', [m for m in ('trio', 'gw.library', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True []\n"


def test_names_of_the_package():
    import gw

    assert {"Gateway", "open_gateway", "llm", "stt", "tts", "UsageCollected"} <= set(dir(gw))
    with pytest.raises(AttributeError, match="module 'gw' has no attribute 'Gatway'"):
        _ = gw.Gatway


@asynccontextmanager
async def nothing():
    """Open an object that stands for a gateway."""
    yield object()


def test_a_portal_that_dies_says_so_to_its_callers(caplog):
    async def explode(_gateway):
        async def fail() -> None:
            raise ZeroDivisionError

        portal.nursery.start_soon(fail)

    log_to_program()
    portal = Portal(nothing)
    with pytest.raises(RuntimeError):
        [portal.run(explode) for _ in range(100)]
    portal.close()
    assert "gateway_ended" in caplog.text


async def fail_within(portal, _gateway):
    """Have a task of a portal fail, and wait for its end."""

    async def fail() -> None:
        raise ZeroDivisionError

    portal.nursery.start_soon(fail)
    await trio.sleep_forever()


def test_what_ends_by_a_fault_names_it():
    portal = Portal(nothing)
    with pytest.raises(RuntimeError):
        portal.run(partial(fail_within, portal))
    portal._thread.join(60)
    with pytest.raises(RuntimeError, match="ended because of the error") as raised:
        portal.run(partial(fail_within, portal))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_the_fault_is_known_before_it_is_logged():
    """A call that comes while the log is written names it, too."""

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            known.append(portal._failure)

    log_to_program()
    portal, known, handler = Portal(nothing), [], Noting()
    logging.getLogger().addHandler(handler)
    try:
        with pytest.raises(RuntimeError):
            portal.run(partial(fail_within, portal))
        portal._thread.join(60)
    finally:
        logging.getLogger().removeHandler(handler)
    assert [type(failure) for failure in known] == [ZeroDivisionError]
