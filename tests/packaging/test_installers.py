"""The commands of docs/install.md that install into the user's own folders, run word for word in a clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.packaging.distributions import ROOT, unpacked
from tests.packaging.image import PATIENCE_S
from tests.support.deadlines import wait_until

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


@pytest.mark.wheel
@pytest.mark.timeout(2 * PATIENCE_S)
def test_the_compiled_wheel_serves(sdist: Path, tmp_path: Path) -> None:
    (setting, command) = re.findall(r"^(HATCH_\S+)=true (pip .*)$", PAGE, re.MULTILINE)[0]
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    source = unpacked(sdist, tmp_path / "clone")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        [home / "bin" / "python", "-m", *command.split()],
        cwd=source,
        env=environ | {setting: "true"},
        timeout=PATIENCE_S,
        check=True,
    )
    assert not list(source.rglob("*.so"))
    log = tmp_path / "serve.log"
    own = {"SERVE_PORT": "0", "MENTAT_DAEMONS": "127.0.0.1:1", "MENTAT_ANNOUNCE_PORT": "0"}
    argv = [str(home / "bin" / "mentatd-serve")]
    with log.open("w") as output:
        serve = subprocess.Popen(argv, env=environ | own, stdout=output, stderr=output)
    try:
        wait_until(lambda: "event=serve_up" in log.read_text())
    finally:
        serve.terminate()
        serve.wait(timeout=30)
    assert "build=compiled" in log.read_text()
