"""The commands of docs/install.md that install into the user's own folders, run word for word in a clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packaging.distributions import ROOT, unpacked
from tests.packaging.image import PATIENCE_S

from mentatd import __version__

PAGE = (ROOT / "docs/install.md").read_text()


@pytest.mark.wheel
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize(("installer", "folder"), [("pipx", "PIPX"), ("uv", "UV_TOOL")])
def test_an_installer_gives_all_commands(installer: str, folder: str, sdist: Path, tmp_path: Path) -> None:
    (command,) = re.findall(rf"^{installer} .*install \.$", PAGE, re.MULTILINE)
    commands = tmp_path / "bin"
    home = {"PIPX": "PIPX_HOME", "UV_TOOL": "UV_TOOL_DIR"}[folder]
    own = {home: str(tmp_path / "home"), f"{folder}_BIN_DIR": str(commands), "UV_PYTHON": sys.executable}
    environ = os.environ | own | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    source = unpacked(sdist, tmp_path / "clone")
    subprocess.run(command.split(), cwd=source, env=environ, timeout=PATIENCE_S, check=True)
    for name in ("serve", "lite", "register", "demo"):
        said = subprocess.run(
            [commands / f"mentatd-{name}", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert said.stdout == f"mentatd-{name} {__version__}\n"
