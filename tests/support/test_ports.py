"""Tests that run side by side never count on the same port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent.parent


def test_a_port_that_is_chosen_but_not_yet_bound_is_nobody_elses() -> None:
    port = free_port()
    look = f"from tests.support import ports; ports._start = {port}; print(ports.free_port())"
    other = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, timeout=30, check=True
    )
    assert int(other.stdout) != port


def test_no_port_comes_twice() -> None:
    assert free_port() != free_port()
