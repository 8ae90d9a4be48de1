"""The published mentat programs: which releases, where they are kept, how they are built (`make interop-setup`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLLOWED = "0.5.2"
"""The release whose manual this project follows."""
NEWEST = "0.8.0"
"""The newest one that the package registry has."""
RELEASES = (FOLLOWED, NEWEST)
PROGRAMS = ("mentatd", "mentatd-serve")

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mentatd-serve" / "interop"
"""Outside the tree, so that a fresh clone finds what an older one has built."""


def program(release: str, name: str) -> Path:
    """Where the program of this release is, once it is built."""
    return CACHE / release / "bin" / name


def missing() -> list[tuple[str, str]]:
    """What is still to be built: pairs of release and program."""
    return [
        (release, name) for release in RELEASES for name in PROGRAMS if not program(release, name).exists()
    ]


def build(cargo: str, release: str, name: str) -> None:
    """Install one program beside the others of its release, politely. Raises CalledProcessError."""
    print(f"building {name} {release}", flush=True)
    subprocess.run(
        [
            "nice",
            "-n",
            "19",
            cargo,
            "install",
            "--quiet",
            "--locked",
            "--root",
            CACHE / release,
            f"{name}@{release}",
        ],
        # one folder for all of them: they share most of what they depend on
        env=os.environ | {"CARGO_TARGET_DIR": str(CACHE / "target")},
        check=True,
    )


def main() -> None:
    """Build what is missing; an interrupted build goes on where it was. Needs cargo."""
    left = missing()
    if left and (cargo := shutil.which("cargo")):
        for release, name in left:
            build(cargo, release, name)
        shutil.rmtree(CACHE / "target", ignore_errors=True)
    elif left:
        sys.exit("cargo is needed to build the published mentat: https://rustup.rs")


if __name__ == "__main__":
    main()
