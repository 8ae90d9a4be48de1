"""A command as a process, with what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.deadlines import wait_until

START_S = 30.0
"""A process starts within it on a loaded machine."""

_OURS = re.compile("MENTAT_|SERVICE_NAME|CONTAINER_NAME|RAY_ADDRESS")


def _environment(environ: dict[str, str]) -> dict[str, str]:
    """The test's own environment without what would configure the command."""
    return {name: value for name, value in os.environ.items() if not _OURS.match(name)} | environ


def run(module: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=_environment(environ),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


class Program:
    """A command while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        """Everything on its standard output and error so far."""
        return self._log.read_text()

    def wait_for(self, text: str) -> str:
        """Wait until it has said what the pattern `text` matches; returns the match's first group, or the match."""
        wait_until(lambda: re.search(text, self.said) or self.process.poll() is not None, START_S)
        found = re.search(text, self.said)
        assert found is not None, f"{text!r} is not in:\n{self.said}"
        return found[1] if found.re.groups else found[0]

    def end(self, number: int) -> int:
        """Send a signal and wait; returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(START_S)


@contextmanager
def running(log: Path, module: str, *arguments: str, **environ: str) -> Iterator[Program]:
    """The command; killed at the end if it still runs."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=_environment(environ),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Program(process, log)
    finally:
        process.kill()
        process.wait()


def fetch(url: str) -> Any:
    """The JSON at a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)
