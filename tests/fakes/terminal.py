"""A terminal in which the commands of a documentation page are typed, one block after the other, in a folder of its own.

It is one bash for the whole page, so a changed folder, variables and an activated environment last. `gw serve` goes on in the background,
on a free port; the address that pages name, 127.0.0.1:8080, is replaced by its own from then on.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

STARTS_WITHIN_S = 60.0
SERVE = re.compile(r"(?:uv run )?gw serve(?: --(?:demo|config \S+))*")
URL = re.compile(r"API\s+https?://(\S+)/v1")
DEFAULT = "127.0.0.1:8080"


class Failed(AssertionError):
    """A block ended with an error, with what it wrote."""


class Terminal:
    """A bash in `folder`; `type_in` runs a block and returns its output."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.address = ""
        self._served = 0
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=dict(env), text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._run("set -o pipefail; trap 'failed=$?' ERR")

    def type_in(self, block: str) -> str:
        """Run the lines of a bash block; its last line may be `gw serve`."""
        *before, last = block.rstrip("\n").split("\n")
        if SERVE.fullmatch(last.partition("#")[0].strip()):
            output = self._run("\n".join(before)) if before else ""
            self.serve(last.partition("#")[0].strip())
            return output
        return self._run(self.readdressed(block))

    def write_file(self, name: str, text: str) -> None:
        """Write a file into the folder where the terminal is now."""
        self._run(f"printf %s {shlex.quote(self.readdressed(text))} > {shlex.quote(name)}")

    def serve(self, command: str = "gw serve --demo") -> None:
        """Start a gateway that goes on until the end."""
        self._served += 1
        log = self.folder / f"serve-{self._served}.log"
        quoted = shlex.quote(str(log))
        self._run(f"{command} --port 0 > {quoted} 2>&1 & serving=$!")
        until = time.monotonic() + STARTS_WITHIN_S
        while "ready in" not in (text := log.read_text(encoding="utf-8") if log.exists() else ""):
            if time.monotonic() > until or self._run("kill -0 $serving 2>/dev/null || echo ended").strip():
                raise Failed(f"{command} did not start:\n{text}")
            time.sleep(0.05)
        address = URL.search(text)
        assert address is not None, text
        self.address = address[1]
        self._run(f"export GW_URL=http://{self.address}")

    def readdressed(self, text: str) -> str:
        return text.replace(DEFAULT, self.address).replace("HOST:8080", self.address) if self.address else text

    def close(self) -> None:
        """End the gateways and the shell."""
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.write("kill $(jobs -p) 2>/dev/null; wait; exit\n")
            self._shell.stdin.close()
        try:
            self._shell.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
        assert self._shell.stdout is not None
        self._shell.stdout.close()

    def _run(self, script: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        mark = f"--- {time.monotonic_ns()} "
        self._shell.stdin.write(f"failed=0\n{script}\nprintf '\\n{mark}%s\\n' $failed\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(mark):
                output = "".join(lines).removesuffix("\n")
                if (code := line.removeprefix(mark).strip()) != "0":
                    raise Failed(f"exit code {code}:\n{script}\n{output}")
                return output
            lines.append(line)
        raise Failed(f"the shell ended:\n{script}\n{''.join(lines)}")


@contextlib.contextmanager
def terminal(folder: Path, **env: str) -> Iterator[Terminal]:
    """Open a terminal whose `gw` and `python` are those of the tests, without the settings of whoever runs them."""
    of_callers = ("GW_", "PYTEST_", "COV_", "UV_PYTHON", "VIRTUAL_ENV")  # nox names the interpreter that uv installs for
    own = {name: value for name, value in os.environ.items() if not name.startswith(of_callers)}
    programs = f"{Path(sys.executable).parent}:{own['PATH']}"
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / ".config"), "TMPDIR": str(folder)}
    settings = {"PATH": programs, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": ""}
    opened = Terminal(folder, own | home | settings | env)
    try:
        yield opened
    finally:
        opened.close()
