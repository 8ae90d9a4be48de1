"""The kernel's figures of a process and its children."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from bench.usage import family, forget_peak, memory_kib, moment


def test_work_and_memory_show() -> None:
    mine = [os.getpid()]
    before = moment(mine)
    held = b"x" * (8 << 20)
    while time.process_time_ns() == 0:
        pass
    after = moment(mine)
    assert after.cpu_ns > before.cpu_ns
    assert after.at > before.at
    assert after.peak_kib >= after.rss_kib >= len(held) // 1024
    del held
    forget_peak(mine)
    assert memory_kib(mine, "VmHWM") <= after.peak_kib


def test_a_family_has_the_children() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in family(os.getpid())
        assert family(child.pid) == [child.pid]


def test_a_program_that_is_gone_is_an_error() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    with pytest.raises(OSError):  # noqa: PT011 - the text is the kernel's
        moment([child.pid])
