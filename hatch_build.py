"""Build hook: compile the modules of the hot path with mypyc, for a wheel of this platform and this version of Python.

    HATCH_BUILD_HOOKS_ENABLE=1 uv build --wheel

Without that variable nothing is compiled, and the wheel is the pure one. The modules are listed in pyproject.toml. Needs a C
compiler and Python's headers. The wheel holds the sources as well: tracebacks show their lines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "gw"
"""All modules share one library, `gw__mypyc`, so that they call each other without a look-up."""
WITHIN_THE_LIBRARY = ["-fvisibility=hidden", "-fno-semantic-interposition", "-fno-plt"]
"""Have calls within the library go straight to the function: only Python loads it, and by the `PyInit` functions, which stay visible."""


class CompiledModules(BuildHookInterface):
    """Compiles in a folder of its own: nothing is ever left beside the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the libraries to the wheel. An editable installation stays pure."""
        if version == "editable":
            return
        self.folder = TemporaryDirectory()
        tree = Path(self.folder.name)
        root = Path(self.root)
        shutil.copytree(root / "gw", tree / "gw", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(root / "pyproject.toml", tree)  # mypy's settings
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run([sys.executable, str(Path(__file__).resolve()), *self.config["modules"]], cwd=tree, env=environment, check=True)
        libraries = [*tree.glob("*.so"), *(tree / "gw").rglob("*.so")]
        if len(libraries) != len(self.config["modules"]) + 1:
            raise RuntimeError(f"{len(self.config['modules'])} modules were to be compiled, there are {len(libraries)} libraries")
        build_data["force_include"].update({str(library): str(library.relative_to(tree)) for library in libraries})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder, now that the wheel is written."""
        if version != "editable":
            self.folder.cleanup()


def compile_here(modules: list[str]) -> None:
    """Compile these modules of the current folder, each library beside its module."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    extensions = mypycify(modules, opt_level="3", debug_level="0", multi_file=True, group_name=LIBRARY)
    for extension in extensions:
        extension.extra_compile_args += WITHIN_THE_LIBRARY
    command = Distribution({"name": LIBRARY, "ext_modules": extensions}).get_command_obj("build_ext")
    command.inplace = True
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    compile_here(sys.argv[1:])
