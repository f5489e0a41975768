"""The image and the Compose file: hadolint's rules, and what a container of gw needs to be safe to run."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gw.config.settings import Serve
from tests.conftest import program

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
CHECK_IMAGE = runpy.run_path(str(ROOT / "deploy" / "check_image.py"))
HEALTH = ["/opt/gw/bin/python", "-c", "import urllib.request"]
DURATION = re.compile(r"(\d+)s")


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, as pairs of keyword and argument."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    found: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        keyword, _, argument = line.partition(" ")
        if keyword == "FROM":
            found.append([])
        found[-1].append((keyword, argument))
    return found


@pytest.mark.needs_program("hadolint")
def test_hadolint_has_nothing_to_say() -> None:
    ended = subprocess.run([program("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_image_runs_gw_without_rights_and_says_if_it_is_well() -> None:
    *build, final = stages()
    assert build, "the image is built in stages, so that it has no compiler and no package manager"
    image = dict(final)
    assert re.search(r":(?!latest)\S+$", image["FROM"])
    user = image["USER"].partition(":")[0]
    assert user.isdigit()
    assert int(user) > 0
    assert json.loads(image["ENTRYPOINT"]) == ["/opt/gw/bin/gw"]
    assert image["STOPSIGNAL"] == "SIGTERM"
    assert int(image["EXPOSE"]) == Serve().port
    command = json.loads(image["HEALTHCHECK"].partition("CMD ")[2])
    assert "/health" in command[-1]
    assert not [keyword for stage in stages() for keyword, _ in stage if keyword == "ADD"]


def test_the_build_context_has_what_the_image_copies_and_no_secrets() -> None:
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    assert "*" in ignored
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {name for stage in stages() for keyword, argument in stage if keyword == "COPY" and "--from" not in argument
              for name in argument.split()[:-1]}  # fmt: skip
    assert copied == kept
    assert [name for name in kept if not (ROOT / name).exists()] == []


def test_the_compose_file_confines_the_container() -> None:
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["gw"]
    assert (ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DOCKERFILE
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    grace = DURATION.fullmatch(service["stop_grace_period"])
    assert grace is not None
    assert int(grace[1]) > Serve().predrain_s + Serve().drain_s


def inspected(**changed: Any) -> dict[str, Any]:
    """Return what Podman 4.3 says about the image of this Dockerfile, as far as it is read."""
    image = {"Size": 137_605_154, "Config": {"User": "65532:65532"}, "Healthcheck": {"Test": ["CMD", *HEALTH]}}
    return image | changed


def test_the_check_of_an_image_names_each_fault() -> None:
    faults_of, health_command = CHECK_IMAGE["faults_of"], CHECK_IMAGE["health_command"]
    assert faults_of(inspected()) == []
    assert health_command(inspected()) == HEALTH
    of_docker = inspected(Config={"User": "65532:65532", "Healthcheck": {"Test": ["CMD", *HEALTH]}}, Healthcheck=None)
    assert (faults_of(of_docker), health_command(of_docker)) == ([], HEALTH)
    for user in ("", "0", "root", "0:0"):
        [fault] = faults_of(inspected(Config={"User": user}))
        assert "which has to be a number other than 0" in fault
    assert faults_of(inspected(Size=151_000_000)) == ["It has 151 MB, more than 150 MB."]
    assert faults_of(inspected(Healthcheck={"Test": ["NONE"]})) == ["It has no health check in the form CMD."]


def test_the_image_is_installed_with_extras_and_without() -> None:
    [install] = [argument for stage in stages() for keyword, argument in stage if keyword == "RUN" and "/bin/pip install" in argument]
    wanted = re.search(r'--constraint \S+ ("\S+")', install)
    assert wanted is not None
    for extras, requirement in (("", "."), ("mcp,audio", ".[mcp,audio]")):
        ended = subprocess.run(["/bin/sh", "-euc", f"echo {wanted[1]}"], env={"EXTRAS": extras}, capture_output=True, text=True, check=True)
        assert ended.stdout == requirement + "\n"
