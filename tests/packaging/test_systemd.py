"""The systemd units: known to systemd, and closed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.commands import BIN

from mentatd.settings import DRAIN_S

FOLDER = Path(__file__).parents[2] / "packaging/systemd"
UNITS = ("mentatd-serve.service", "mentatd-lite.service", "mentatd-register.service")
EXPOSURE = 20
"""Of 100, as `systemd-analyze security` counts it; a unit without any of the settings has 96."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units as installed beside the commands under test, with the key's drop-in."""
    for name in UNITS:
        text = (FOLDER / name).read_text().replace("/opt/mentatd/bin", str(BIN))
        (tmp_path / name).write_text(text)
    for name in ("mentatd-serve.service.d", "mentatd-lite.service.d"):
        (tmp_path / name).mkdir()
        shutil.copy(FOLDER / "secret.conf", tmp_path / name)
    return tmp_path


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=50, check=False
    )


@needs_systemd
def test_systemd_knows_all_that_they_say(units: Path) -> None:
    done = analyze("verify", "--man=no", *sorted(units.glob("*.service")))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_they_may_do_little(units: Path, name: str) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={EXPOSURE}", units / name)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_all_files_are_here_and_none_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*UNITS, "secret.conf"}


def test_a_router_may_drain_before_it_is_killed() -> None:
    found = re.search(r"^TimeoutStopSec=(\d+)$", (FOLDER / UNITS[0]).read_text(), re.MULTILINE)
    assert found
    assert int(found[1]) > DRAIN_S.parse(DRAIN_S.default)


@pytest.mark.parametrize("name", UNITS)
def test_what_it_starts_is_a_command_that_knows_its_flags(name: str) -> None:
    found = re.search(r"^ExecStart=/opt/mentatd/bin/(\S+)(.*)$", (FOLDER / name).read_text(), re.MULTILINE)
    assert found
    done = subprocess.run([BIN / found[1], "--help"], capture_output=True, text=True, timeout=30, check=True)
    for flag in re.findall(r"--[a-z-]+", found[2]):
        assert f"{flag} " in done.stdout
