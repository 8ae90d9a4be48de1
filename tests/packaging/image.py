"""The Dockerfile, read and acted out: what it copies, runs and starts, in folders of a test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
PATIENCE_S = 280
"""For a step that downloads."""


def instructions() -> list[tuple[str, str]]:
    """Each as its word and the rest, lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def one(word: str) -> str:
    """The only such instruction's rest."""
    (rest,) = [rest for found, rest in instructions() if found == word]
    return rest


def array(rest: str) -> list[str]:
    """The command of ENTRYPOINT or HEALTHCHECK, which both are arrays here."""
    found: Any = json.loads(rest[rest.index("[") :])
    return [str(word) for word in found]


class Image:
    """What the image has in /opt, made in `root` by the very commands of its build stage."""

    def __init__(self, root: Path, source: Path) -> None:
        self.root = root
        self.source = source
        """The build context, which becomes /src."""

    @property
    def bin(self) -> Path:
        return self.root / "opt/mentatd/bin"

    def here(self, text: str) -> str:
        """A command of the image with its folders in place of /src, /dist and /opt."""
        text = re.sub(r"(?<![\w/])/src\b", str(self.source), text)
        return re.sub(r"(?<![\w/.])/(dist|opt)\b", rf"{self.root}/\1", text)

    def build(self) -> None:
        """Run the RUN lines with nothing of the test's own environment, and no cache of pip."""
        (self.root / "opt").mkdir()
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for word, rest in instructions():
            if word == "RUN":
                done = subprocess.run(
                    ["sh", "-ec", self.here(rest)],
                    cwd=self.source,
                    env=kept | {"PATH": path, "HOME": str(self.root)},
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    check=False,
                )
                assert done.returncode == 0, done.stdout + done.stderr
        shutil.copy(self.source / "packaging/healthcheck.py", self.root / "opt")

    def command(self, words: list[str]) -> list[str]:
        """A command of the image as the image's PATH finds it."""
        name, *rest = (self.here(word) for word in words)
        return [str(self.bin / name), *rest]
