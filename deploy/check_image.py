"""Check an image of gw: its size, its user, its health check, and that a gateway in it answers and stops.

    python deploy/check_image.py IMAGE [--engine docker] [--run-options "--ulimit nofile=8192"]

IMAGE is what `docker build -f deploy/Dockerfile -t IMAGE .` made. The container runs as deploy/compose.yaml runs it: with a read-only
file system, without capabilities and without new privileges. `--engine` is a command, such as `podman --root FOLDER`. Needs no network.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

LARGEST_MB = 150
HEALTHY_WITHIN_S = 60.0
CONFINED = ("--read-only", "--tmpfs", "/tmp:size=256m", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none")
PYTHON = "/opt/gw/bin/python"
USER = "import os; print(os.getuid())"
SHELLS = """
import shutil
print([name for name in ("sh", "bash", "apt-get", "dpkg", "pip") if shutil.which(name, path="/bin:/usr/bin:/opt/gw/bin")])
"""


class Fault(Exception):
    """Raised with a sentence that says what is wrong with the image."""


def faults_of(image: dict[str, Any]) -> list[str]:
    """Return what is wrong with an image, from what `docker image inspect` or `podman image inspect` says about it."""
    config, problems = image["Config"], []
    if image["Size"] > LARGEST_MB * 1_000_000:
        problems.append(f"It has {image['Size'] / 1e6:.0f} MB, more than {LARGEST_MB} MB.")
    user = str(config.get("User", "")).partition(":")[0]
    if not user.isdigit() or int(user) == 0:
        problems.append(f"Its user is {user or 'root'!r}, which has to be a number other than 0.")
    if not health_command(image):
        problems.append("It has no health check in the form CMD.")
    return problems


def health_command(image: dict[str, Any]) -> list[str]:
    """Return the command of the health check; empty without one. Docker keeps it in `Config`, Podman beside it."""
    check = image["Config"].get("Healthcheck") or image.get("Healthcheck") or {}
    kind, *command = check.get("Test") or ["NONE"]
    return command if kind == "CMD" else []


class Engine:
    """Runs Docker or Podman."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=180, check=False)

    def output(self, *arguments: str) -> str:
        """Return what a command prints. Raises Fault if it fails."""
        ended = self(*arguments)
        if ended.returncode:
            command, why = shlex.join((self._command[0], *arguments)), (ended.stderr or ended.stdout).strip()
            raise Fault(f"`{command}` failed ({ended.returncode}): {why}")
        return ended.stdout.strip()


def wait_until(condition: Callable[[], bool], within_s: float) -> float:
    """Return after how many seconds a condition held. Raises Fault."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > within_s:
            raise Fault(f"It is not healthy after {within_s:.0f} s.")
        time.sleep(0.5)
    return time.monotonic() - began


def check_running(engine: Engine, image: str, run_options: Sequence[str], health: Sequence[str]) -> None:
    """Run the demo in a container and use it. Raises Fault."""
    options = (*CONFINED, *run_options)
    if engine("run", "--rm", *options, "--entrypoint", health[0], image, *health[1:]).returncode == 0:
        raise Fault("The health check succeeds where no gateway runs.")
    container = engine.output("run", "--detach", *options, image, "serve", "--demo").splitlines()[-1]
    try:
        took_s = wait_until(lambda: engine("exec", container, *health).returncode == 0, HEALTHY_WITHIN_S)
        say(f"healthy after {took_s:.1f} s, by its own health check")
        say(f"`gw chat hello` in it: {engine.output('exec', container, '/opt/gw/bin/gw', 'chat', 'hello').splitlines()[0]}")
        user = engine.output("exec", container, PYTHON, "-c", USER)
        if user == "0":
            raise Fault("Its processes run as root.")
        say(f"its processes run as user {user}")
        if (programs := engine.output("exec", container, PYTHON, "-c", SHELLS)) != "[]":
            raise Fault(f"It has programs that it does not need: {programs}.")
        say("no shell and no package manager")
        engine.output("stop", "--time", "45", container)
        if (status := engine.output("inspect", "--format", "{{.State.ExitCode}}", container)) != "0":
            raise Fault(f"`stop` ended it with status {status}.")
        say("stops with status 0")
    except Fault as fault:
        logs = engine("logs", container)
        raise Fault(f"{fault}\n{(logs.stdout + logs.stderr).strip()}") from None
    finally:
        engine("rm", "--force", container)


def say(text: str) -> None:
    print(f"ok  {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("--engine", default="docker", help="command of the container engine")
    parser.add_argument("--run-options", default="", help="more options for its `run`")
    options = parser.parse_args()
    engine = Engine(shlex.split(options.engine))
    with suppress(BrokenPipeError):
        try:
            [image] = json.loads(engine.output("image", "inspect", options.image))
            if faults := faults_of(image):
                raise Fault("\n".join(faults))
            say(f"{image['Size'] / 1e6:.0f} MB, of {LARGEST_MB} MB at most")
            say(f"runs as {image['Config']['User']}")
            check_running(engine, options.image, shlex.split(options.run_options), health_command(image))
        except Fault as fault:
            sys.exit(f"{options.image}: {fault}")


if __name__ == "__main__":
    main()
