"""The manual page says what the program does, and is well-formed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mentatd.settings import VARIABLES

PAGE = Path(__file__).parents[2] / "man/mentatd-serve.1"


def test_it_has_every_variable() -> None:
    rows = re.findall(r"^\.It Ev (\S+) Pq (.*)\n((?:[^.].*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert [(name, default, " ".join(text.split())) for name, default, text in rows] == [
        (variable.name, variable.default, f"{variable.help[0].upper()}{variable.help[1:]}.")
        for variable in VARIABLES
    ]


@pytest.mark.parametrize("line", ["mandoc -Tlint -Wwarning", "groff -ww -mdoc -Tutf8 -z"])
def test_formatters_have_nothing_to_say(line: str) -> None:
    name, *arguments = line.split()
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    done = subprocess.run([name, *arguments, PAGE], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
