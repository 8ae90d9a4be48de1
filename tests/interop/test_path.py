"""`mentatd NAME` starts our programs from PATH."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from tests.interop.mixed import Mixed
from tests.interop.published import program
from tests.support.commands import BIN

import mentatd


@pytest.mark.parametrize("name", ["serve", "register", "lite", "demo"])
def test_a_name_that_is_not_built_in_is_ours(mixed: Mixed, name: str) -> None:
    # a copy: the program prefers what is beside it, as the published router is where it was installed
    alone = shutil.copy(program(mixed.release, "mentatd"), mixed.folder)
    path = f"{BIN}:{os.environ['PATH']}"
    told = subprocess.run(
        [alone, name, "--version"], env={"PATH": path}, capture_output=True, text=True, timeout=10, check=True
    )
    assert told.stdout == f"mentatd-{name} {mentatd.__version__}\n"
