"""The commands of this project, run as a user runs them: processes of their own, told by environment and flags."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.deadlines import DEADLINE_S, wait_until

BIN = Path(sys.executable).parent
_CRASH = re.compile(r" event=\w+_crashed\b")
_FIELD = re.compile(r'(\w+)=("(?:\\.|[^"\\])*"|\S*)')

Event = dict[str, str]
"""The fields of one log line, `event` among them."""


def _kept() -> dict[str, str]:
    """Of the environment: where programs are, and which build of `mentatd` the tests run on."""
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}


class Command:
    """One running command."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            # nothing of the environment of whoever runs the tests configures a program under test
            self._process = subprocess.Popen(
                argv,
                env=_kept() | {"HOME": str(log.parent)} | dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self._log.read_text()

    def events(self, name: str, **fields: str) -> list[Event]:
        """The log lines of this event that have these fields."""
        found = []
        for line in self.output.splitlines():
            event = {key: _unquoted(value) for key, value in _FIELD.findall(line)}
            if event.get("event") == name and fields.items() <= event.items():
                found.append(event)
        return found

    def event(self, name: str, *, within_s: float = DEADLINE_S, **fields: str) -> Event:
        """The first such line; waits for it. The process must live on until it has come."""
        found: list[Event] = []

        def seen() -> bool:
            found[:] = self.events(name, **fields)
            assert found or self._process.poll() is None, f"ended {self._process.returncode}: {self.output}"
            return bool(found)

        try:
            wait_until(seen, within_s)
        except TimeoutError:
            raise AssertionError(f"no {name} {fields} in:\n{self.output}") from None
        return found[0]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, within_s: float = DEADLINE_S) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        return self._process.wait(within_s)

    def close(self) -> None:
        """End it, in order where it still runs. Whatever it was told, nothing of it may have crashed."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(DEADLINE_S)
            raise
        crashes = [line for line in self.output.splitlines() if _CRASH.search(line)]
        assert not crashes, "\n".join(crashes)


@contextmanager
def command(line: str, log: Path, **env: str) -> Iterator[Command]:
    """Run one of the project's commands (`mentatd-lite --port 0`) until the block ends."""
    name, *arguments = shlex.split(line)
    running = Command([str(BIN / name), *arguments], env, log)
    try:
        yield running
    finally:
        running.close()


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1])
