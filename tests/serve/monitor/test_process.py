"""What the process uses, as the system tells it."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from mentatd.serve.monitor.process import read_process


def test_the_process_is_this_one() -> None:
    found = read_process()
    assert found is not None
    assert found.started < time.time()
    assert found.cpu_s > 0
    assert 1 << 20 < found.resident_bytes < found.virtual_bytes
    more = os.dup(0)
    try:
        again = read_process()
    finally:
        os.close(more)
    assert again is not None
    assert found.open_fds < again.open_fds <= found.max_fds


@pytest.mark.parametrize("error", [psutil.AccessDenied(), FileNotFoundError("/proc/self/fd")])
def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Hidden(psutil.Process):
        def num_fds(self) -> int:
            raise error

    monkeypatch.setattr(psutil, "Process", Hidden)
    assert read_process() is None
