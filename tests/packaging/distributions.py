"""The distributions, built as an installer builds them, and what is in them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(what: str, source: Path, into: Path, **env: str) -> Path:
    """Build `sdist` or `wheel` from `source`; the file."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", what, "--directory", into],
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"} | env,
        stdout=subprocess.DEVNULL,
        timeout=50,
        check=True,
    )
    (made,) = into.iterdir()
    return made


def unpacked(sdist: Path, into: Path) -> Path:
    """The folder that the sdist holds."""
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    (folder,) = into.iterdir()
    return folder
