"""The Helm chart: its values have a schema, Helm's linter accepts it, and the pod that it makes is confined.

`helm_chart` has the program that runs Helm's linter and templates; `.ci/go_programs` builds it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gw.config.parse import parse
from gw.config.settings import Serve
from tests.conftest import program

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "gw"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def valid(**changed: object) -> bool:
    return bool(jsonschema.Draft7Validator(SCHEMA).is_valid({**VALUES, **changed}))


def rendered(*settings: str) -> dict[str, dict[str, Any]]:
    """Return the objects that the chart makes, by kind."""
    command = [program("helm-chart"), "template", "voice", str(CHART), *settings]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {entry["kind"]: entry for entry in yaml.safe_load_all(ended.stdout) if entry}


def test_the_values_follow_their_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert valid()
    assert not valid(replicas=2)
    assert not valid(config={})
    assert not valid(existingSecret="")
    assert not valid(service={"type": "ClusterIP", "port": 0})
    assert not valid(persistence={"size": "ten"})
    assert not valid(ingress={"enabled": True})
    assert valid(ingress={"enabled": True, "host": "gw.example.com"})
    assert set(VALUES) <= set(SCHEMA["properties"])


def test_the_configuration_of_the_values_is_valid(tmp_path: Path) -> None:
    settings = parse(yaml.safe_dump(VALUES["config"]), file="gw.yaml", env={"GW_ADMIN_TOKEN": "5b1f9c04e7a2d836"}, data_dir=tmp_path)
    assert settings.auth.on
    assert settings.warnings == ()
    assert VALUES["terminationGracePeriodSeconds"] > Serve().predrain_s + Serve().drain_s


@pytest.mark.needs_program("helm-chart")
def test_helm_lint_accepts_the_chart() -> None:
    ended = subprocess.run([program("helm-chart"), "lint", str(CHART)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.needs_program("helm-chart")
def test_helm_lint_names_what_is_wrong(tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "gw")
    service = chart / "templates" / "service.yaml"
    service.write_text(service.read_text() + "{{ .Values.missing.port }}")
    ended = subprocess.run([program("helm-chart"), "lint", str(chart)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "templates/service.yaml" in ended.stdout


@pytest.mark.needs_program("helm-chart")
def test_the_pod_is_confined_and_watched() -> None:
    objects = rendered()
    assert set(objects) == {"ConfigMap", "Service", "StatefulSet"}
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert objects["StatefulSet"]["spec"]["replicas"] == 1  # a database has one writer
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert yaml.safe_load(objects["ConfigMap"]["data"]["gw.yaml"]) == VALUES["config"]
    assert objects["Service"]["spec"]["selector"].items() <= objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.needs_program("helm-chart")
def test_an_ingress_leads_to_the_service() -> None:
    objects = rendered("ingress.enabled=true", "ingress.host=gw.example.com", "ingress.tlsSecret=cert")
    rule = objects["Ingress"]["spec"]["rules"][0]
    assert rule["host"] == "gw.example.com"
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == objects["Service"]["metadata"]["name"]
    assert objects["Ingress"]["spec"]["tls"] == [{"hosts": ["gw.example.com"], "secretName": "cert"}]
