"""Where the peers are kept, which versions they are, and how those that a registry has are installed.

`make peers-setup` runs it: an environment of its own for each Python package, in the user's cache, politely and one
after the other. What depends on what is left to pip: only the peer itself is pinned.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mentatd-serve" / "peers"
"""Outside the tree, so that a fresh clone finds what an older one has installed. A folder for each peer."""

PINS = {
    "vllm-router": "vllm-router==0.1.17",
    "sglang-router": "sglang-router==0.3.2",
    "smg": "smg==1.13.0",
    "litellm": "litellm[proxy]==1.108.7",
}
"""What pip installs for a peer: on 2026-11-30 the newest ones, but of litellm, whose newer ones need packages that
the registry did not have."""

_VERSION = re.compile(r"\bv\d\S*")


def program(peer: str, command: str) -> Path:
    """Where a peer's command is, once it is there."""
    return CACHE / peer / "bin" / command


def release(peer: str, distribution: str) -> str:
    """The version of a Python distribution in a peer's environment. Raises LookupError when it is not there."""
    places = [str(folder) for folder in (CACHE / peer).glob("lib/python3*/site-packages")]
    for found in distributions(name=distribution, path=places):
        return found.version
    raise LookupError(f"{distribution} is not installed in {CACHE / peer}")


def told_version(command: Path, option: str) -> str:
    """The version that a program tells of itself, such as `v1.2`. Raises LookupError when it tells none."""
    told = subprocess.run([command, option], capture_output=True, text=True, check=True, timeout=10)
    if found := _VERSION.search(told.stdout + told.stderr):
        return found[0]
    raise LookupError(f"{command} {option} told no version")


def install(peer: str, requirement: str) -> None:
    """Make the environment, or bring it to the pinned version. Raises CalledProcessError."""
    folder = CACHE / peer
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True, symlinks=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    # wheels only: building one of these needs a toolchain and most of an hour
    subprocess.run(["nice", "-n", "19", *pip, "--only-binary", ":all:", requirement], check=True)


def install_all(pins: Iterable[tuple[str, str]]) -> list[str]:
    """Every one that can be had; the names of the others, whose reasons pip has told."""
    failed = []
    for peer, requirement in pins:
        print(f"installing {requirement}", flush=True)
        try:
            install(peer, requirement)
        except subprocess.CalledProcessError:
            failed.append(peer)
    return failed


def main() -> None:
    """Install what is missing or of another version."""
    if failed := install_all(PINS.items()):
        sys.exit(f"not installed: {', '.join(failed)}; bench-all leaves them out")
