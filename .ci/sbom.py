"""Write the bill of materials of a build as CycloneDX 1.6 JSON: `python .ci/sbom.py OUT`.

Made without the network, from requirements.lock: name, version and hashes of every package that a release is tested with. Licences come
from the packages that are installed beside it. Fails when one of gw's installed dependencies is not locked, or in another version.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_TOOLS = frozenset({"pip", "setuptools", "wheel", "build", "uv", "pyproject-hooks", "packaging"})
"""Installed for the build itself."""


def normalized(name: str) -> str:
    """Return a name as the package index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, tuple[str, list[str]]]:
    """Return name → version and hashes."""
    packages: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in text.splitlines():
        if (pinned := _PINNED.match(line)) is not None:
            name = normalized(pinned["name"])
            packages[name] = (pinned["version"], [])
        if name:
            packages[name][1].extend(_HASH.findall(line))
    return packages


def _licence(name: str) -> list[dict[str, Any]]:
    try:
        about = distribution(name).metadata
    except PackageNotFoundError:  # of another platform or an extra that is not installed
        return []
    if expression := about.get("License-Expression"):
        return [{"expression": expression}]
    named = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith("License :: ")]
    return [{"license": {"name": text}} for text in named]


def component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    found: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    # An artefact of each platform has its own hash, and a component one artefact: so they are references to distributions.
    found["externalReferences"] = [
        {"type": "distribution", "url": purl, "hashes": [{"alg": "SHA-256", "content": digest}]} for digest in hashes
    ]
    return found | ({"licenses": licences} if (licences := _licence(name)) else {})


def bill_of(packages: dict[str, tuple[str, list[str]]], name: str, version: str) -> dict[str, Any]:
    product = {"type": "application", "bom-ref": name, "name": name, "version": version}
    components = [component(package, *facts) for package, facts in sorted(packages.items())]
    depends = [{"ref": name, "dependsOn": [entry["bom-ref"] for entry in components]}]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": product}, "components": components,
        "dependencies": depends,
    }


def unlocked(packages: dict[str, tuple[str, list[str]]], product: str) -> list[str]:
    """Return what is installed and not locked, or in another version."""
    installed = {normalized(found.name): found.version for found in distributions()}
    return [
        f"{name} {version}" for name, version in sorted(installed.items())
        if name not in _TOOLS and name != product and packages.get(name, ("",))[0] != version
    ]


def main(out: str) -> int:
    packages = locked(LOCK.read_text(encoding="utf-8"))
    product = next(found for found in distributions() if any(entry.name == "gw" for entry in found.entry_points))
    strangers = unlocked(packages, normalized(product.name))
    if strangers:
        print("installed, and not in requirements.lock: " + ", ".join(strangers), file=sys.stderr)
        return 1
    bill = bill_of(packages, normalized(product.name), product.version)
    without = [entry["name"] for entry in bill["components"] if not entry["externalReferences"]]
    if without:
        print("without a hash in requirements.lock: " + ", ".join(without), file=sys.stderr)
        return 1
    Path(out).write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    print(f"{out}: {len(packages)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
