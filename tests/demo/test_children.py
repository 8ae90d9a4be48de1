"""The processes of the demonstration: watched, and ended together."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.deadlines import until, wait_until, within

from mentatd.demo import children as children_module
from mentatd.demo.children import Children
from mentatd.demo.plan import Program

SLEEPER = """
import os, signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(f"{os.getpid()} {os.environ.get('SAID')}")
while True:
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the path of modules that holds `sleeper` and `failer`."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "failer.py").write_text("raise SystemExit('x' * 5000 + 'the reason')")
    return tmp_path


@pytest.fixture
async def children(program: Path) -> AsyncIterator[Children]:
    children = Children(program, {"PATH": os.environ["PATH"], "PYTHONPATH": str(program)})
    yield children
    async with within(30):
        await children.close()


async def started(children: Children, name: str, *arguments: str) -> int:
    """Start a sleeper; returns its process id once it runs."""
    told = children.logs / f"{name}.pid"
    await children.start(Program(name, "sleeper", (str(told), *arguments), {"SAID": name}))
    await until(lambda: told.exists() and told.read_text())
    pid, said = told.read_text().split()
    assert said == name
    return int(pid)


async def test_closing_ends_all(children: Children) -> None:
    pids = [await started(children, name) for name in ("one", "two")]
    assert all(alive(pid) for pid in pids)
    async with within():
        await children.close()
    assert not any(alive(pid) for pid in pids)
    assert not children.failed.done()


async def test_a_program_that_does_not_end_is_killed(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children_module, "TERM_S", 0.1)
    pid = await started(children, "deaf", "deaf")
    async with within():
        await children.close()
    assert not alive(pid)


async def test_one_can_be_stopped_and_started_again(children: Children) -> None:
    pid = await started(children, "one")
    await children.stop("one")
    assert not alive(pid)
    (children.logs / "one.pid").unlink()
    assert alive(await started(children, "one"))
    await children.stop("nobody")
    assert not children.failed.done()


async def test_a_program_that_ends_on_its_own_is_told_with_the_end_of_its_log(children: Children) -> None:
    await children.start(Program("the failer", "failer"))
    async with within(30):
        ended = await children.failed
    assert (ended.name, ended.status) == ("the failer", 1)
    assert ended.tail.endswith("the reason\n")
    assert len(ended.tail) <= 2000


async def test_a_killed_program_is_told_with_its_signal(children: Children) -> None:
    os.kill(await started(children, "one"), signal.SIGKILL)
    async with within():
        assert (await children.failed).status == -signal.SIGKILL


async def test_a_program_is_out_of_reach_of_the_terminal(children: Children) -> None:
    pid = await started(children, "one")
    assert os.getsid(pid) == pid
    assert os.getpgid(pid) != os.getpgid(0)


def test_none_outlives_a_parent_that_is_killed(program: Path) -> None:
    told = program / "orphan.pid"
    script = f"""
import asyncio, pathlib, uvloop
from mentatd.demo.children import Children
from mentatd.demo.plan import Program
async def main():
    children = Children(pathlib.Path({str(program)!r}), {{"PYTHONPATH": {str(program)!r}}})
    await children.start(Program("orphan", "sleeper", ({str(told)!r},)))
    await asyncio.sleep(60)
uvloop.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(lambda: told.exists() and told.read_text(), 30)
        pid = int(told.read_text().split()[0])
        assert alive(pid)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not alive(pid))


async def test_what_cannot_be_started_is_an_error(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nothing/here")
    with pytest.raises(FileNotFoundError):
        await children.start(Program("one", "sleeper"))
    await asyncio.sleep(0)
    assert not children.failed.done()
