"""Where the commands of a page run: free ports in place of those that pages name, and a scripted engine."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.docs.blocks import ROOT, SERVICES, service
from tests.support import engine
from tests.support.cluster import FAST, Cluster
from tests.support.commands import BIN, Command
from tests.support.deadlines import DEADLINE_S
from tests.support.ports import free_port

PORTS = ("6379", "6380", "6381", "6382", "6391", "8000", "8001", "9000")
"""Those that pages name: control, daemon, router, UDP, a second router, two engines, an MCP server."""
MODELS = ("my-model", "glm-5")
FOLDERS = ("packaging", "compose.yaml", "Dockerfile", "Makefile", "pyproject.toml")
"""What commands name relative to a clone."""


class World:
    """One page's machine."""

    def __init__(self, cluster: Cluster, folder: Path, ports: Mapping[str, int]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._ports = {named: str(port) for named, port in ports.items()}
        self._running: dict[tuple[str, str], Command] = {}
        for name in FOLDERS:
            (folder / name).symlink_to(ROOT / name)

    def here(self, text: str) -> str:
        """The text of a page with this world's ports and hosts."""
        text = text.replace("<router>", "127.0.0.1").replace("127.0.0.1,node2", "127.0.0.1:6380")
        return re.sub(rf"\b({'|'.join(PORTS)})\b", lambda match: self._ports[match[1]], text)

    def start(self, command: str) -> None:
        """Start a service as a page does, and wait until it is up. One that has the same port ends first."""
        name = service(command)
        line = self.here(command.removesuffix("&").strip())
        given = {
            key: str(self._folder / value) if key.endswith("_FILE") else value
            for key, value in re.findall(r"\b([A-Z_]+)=(\S*)", line)
        }
        words = line[line.index(name) :]
        if words.endswith(" --discover"):
            words += self.here(" 8000")  # not this machine's own engines
        env = FAST | self._default(name) | given
        if name == "mentatd-lite":
            words += self.here(" --bind 127.0.0.1 --port 6379 --http-port 6380 --announce-port 6382")
        key = (name, env.get("SERVE_PORT", words))
        if key in self._running:
            self._running[key].close()
        self._running[key] = running = self._cluster.run(words, **env)
        running.event(SERVICES[name])

    def _default(self, name: str) -> dict[str, str]:
        """What a service finds where a page leaves it to the defaults."""
        if name == "mentatd-serve":
            ports = {"SERVE_PORT": "6381", "MENTAT_ANNOUNCE_PORT": "6382"}
            return {key: self.here(port) for key, port in ports.items()} | {
                "MENTAT_DAEMONS": self.here("127.0.0.1:6380")
            }
        return {"RAY_ADDRESS": self.here("127.0.0.1:6379")}

    def run(self, command: str, shown: str = "") -> None:
        """Run a command that ends: it succeeds and prints what is `shown`, at once or when the cluster is ready."""
        pattern = ".*".join(
            r"\s*".join(map(re.escape, part.split())) for part in self.here(shown).strip().split("…")
        )
        end = time.monotonic() + DEADLINE_S
        while True:
            done = self._bash(self.here(command))
            said = done.stdout + done.stderr
            if done.returncode == 0 and re.search(pattern, said, re.DOTALL):
                return
            assert time.monotonic() < end, f"{command}\nexit status {done.returncode}, said:\n{said}"
            time.sleep(0.05)

    def python(self, program: str) -> None:
        """Run a program of a page; `await` may stand at its top."""
        wrapped = (
            "import ast, asyncio, sys\nfrom openai import OpenAI\nfrom anthropic import Anthropic\n"
            "code = compile(sys.argv[1], 'page', 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)\n"
            "made = eval(code, globals())\n"
            "if made is not None: asyncio.run(made)\n"
        )
        done = subprocess.run(
            [BIN / "python", "-c", wrapped, self.here(program)],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def _bash(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-ec", line],
            cwd=self._folder,
            env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(self._folder)},
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )


@contextmanager
def world(folder: Path, engines: int = 1) -> Iterator[World]:
    """A machine with an engine on the first of the engines' ports, or on both."""
    logs = folder / "logs"
    logs.mkdir()
    ports = {named: free_port() for named in PORTS}
    with ExitStack() as stack:
        # engines first, and so ended last: nothing connects to one that ends
        for named in ("8000", "8001")[:engines]:
            stack.enter_context(engine.running(*MODELS, port=ports[named]))
        yield World(stack.enter_context(Cluster(logs)), folder, ports)
