"""The programs that no router is expected to beat."""

from __future__ import annotations

import shutil
import string
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.programs import Peer, Running, free_port, process, ready


@contextmanager
def nginx(folder: Path, engine_port: int, cores: str) -> Iterator[Running]:
    """nginx as a plain streaming proxy."""
    port = free_port()
    template = string.Template(Path(__file__).with_name("nginx.conf").read_text())
    conf = folder / "nginx.conf"
    conf.write_text(template.substitute(folder=folder, port=port, engine=engine_port))
    with process(["nginx", "-p", str(folder), "-c", str(conf)], folder / "nginx.log", cores) as running:
        yield ready(running, port)


@contextmanager
def direct(_folder: Path, engine_port: int, _cores: str) -> Iterator[Running]:
    """No program at all: the load generator talks to the engine."""
    yield Running(0, engine_port)


def _nginx_version() -> str:
    asked = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True, timeout=10)
    return asked.stderr.strip().rpartition("/")[2]


DIRECT = Peer(
    "direct",
    "the load generator straight at the engine: what the bench itself takes",
    lambda: "–",
    direct,
    lambda: True,
)
NGINX = Peer(
    "nginx",
    "C; a plain streaming proxy that reads no body: the near-limit",
    _nginx_version,
    nginx,
    lambda: shutil.which("nginx") is not None,
)
