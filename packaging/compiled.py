"""The build hook of the optional compiled wheel: mypyc turns the modules of the request path into an extension.

Off unless HATCH_BUILD_HOOK_ENABLE_CUSTOM is set, so that what everybody builds is plain Python. The sources are the
same: there is no second code path, and every module of the compiled wheel has its `.py` beside it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledHook(BuildHookInterface):
    """Compiles what `modules` in pyproject.toml lists, in a copy, so that nothing is left in the source tree."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the extension modules into the wheel, and its tag. Raises CalledProcessError."""
        if version == "editable":
            return
        self._folder = folder = Path(tempfile.mkdtemp(prefix="mentatd-compiled-"))
        shutil.copytree(Path(self.root, "src", "mentatd"), folder / "mentatd")
        argv = [sys.executable, "-m", "mypyc", "--ignore-missing-imports", *self.config["modules"]]
        subprocess.run(argv, cwd=folder, check=True)  # noqa: S603
        shutil.rmtree(folder / "build")
        for module in folder.rglob("*.so"):
            build_data["force_include"][str(module)] = str(module.relative_to(folder))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy."""
        if version != "editable":
            shutil.rmtree(self._folder)
