"""A clean machine: the README's two commands in a fresh clone with an empty pip cache (`make test-clean`)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.packaging.distributions import ROOT
from tests.support.deadlines import DEADLINE_S, wait_until

INSTALLED_S = 600.0
"""Downloads included."""

pytestmark = [pytest.mark.clean, pytest.mark.timeout(2 * INSTALLED_S)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed, and nothing else."""
    folder = tmp_path_factory.mktemp("clean") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-local", ROOT, folder], timeout=60, check=True)
    return folder


@pytest.fixture(scope="module")
def environ(clone: Path) -> dict[str, str]:
    """Of a user who has never installed anything, and has a directory of commands."""
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if ".venv" not in part)
    return (
        proxies | pip | {"PATH": path, "HOME": str(clone.parent), "PIP_CACHE_DIR": str(clone.parent / "pip")}
    )


@pytest.fixture
def demo(
    clone: Path, environ: dict[str, str], tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`make demo` in a session of its own, as in a terminal, and what it writes."""
    log = tmp_path / "demo.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            ["make", "demo"],
            cwd=clone,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield running, log
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(DEADLINE_S)


def test_make_demo_answers_and_ends(demo: tuple[subprocess.Popen[bytes], Path]) -> None:
    running, log = demo

    def up() -> bool:
        assert running.poll() is None, log.read_text()
        return "Ctrl-C ends everything." in log.read_text()

    wait_until(up, INSTALLED_S)
    base = re.search(r"carries:   (http://\S+)/\n", log.read_text())
    assert base is not None
    with urllib.request.urlopen(f"{base[1]}/v1/models", timeout=DEADLINE_S) as answer:
        assert {"poet", "parrot"} <= {entry["id"] for entry in json.load(answer)["data"]}
    os.killpg(running.pid, signal.SIGINT)
    running.wait(2 * DEADLINE_S)
    assert "Traceback" not in log.read_text()


def test_make_test_finds_every_test(clone: Path, environ: dict[str, str]) -> None:
    """To run them is what CI does anyhow."""
    collected = subprocess.run(
        ["make", "test", "PYTEST=.venv/bin/python -m pytest --collect-only"],
        cwd=clone,
        env=environ,
        capture_output=True,
        text=True,
        timeout=INSTALLED_S,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]
    assert "tests/wire/" in collected.stdout
