"""A command run to its end, and what a running one serves."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import urllib.request
from typing import Any

from tests.support.commands import BIN

START_S = 30.0
"""A process starts, and ends again, within it on a loaded machine."""


def run(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one of the project's commands (`mentatd-lite --port x`), which ends on its own."""
    name, *arguments = shlex.split(line)
    return subprocess.run(
        [str(BIN / name), *arguments],
        env={"PATH": os.environ["PATH"]} | env,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


def fetch(url: str) -> Any:
    """The JSON at a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)
