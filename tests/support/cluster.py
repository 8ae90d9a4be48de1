"""A cluster of real processes on loopback: daemons, registered engines, routers."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.commands import Command, command
from tests.support.deadlines import DEADLINE_S, wait_until

JSON = {"Content-Type": "application/json"}
FAST = {"PROBE_INTERVAL_S": "0.25", "PROBE_TIMEOUT_S": "2", "MENTAT_ANNOUNCE_PORT": "0"}
"""The router's settings unless a test says otherwise: seeds only, and probes that see a change at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read to its end."""

    status: int
    fields: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running mentatd-lite."""

    command: Command
    control: str
    """Where agents register."""
    http: str
    """Where routers poll."""


@dataclass(frozen=True, slots=True)
class Router:
    """A running mentatd-serve."""

    command: Command
    port: int

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        fields: Mapping[str, str] | None = None,
        *,
        within_s: float = DEADLINE_S,
    ) -> Answer:
        """One request on a connection of its own; `within_s` is for each step of it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.sock = self.connect(within_s)
            connection.request(method, path, body, dict(fields or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def post(self, path: str, **document: Any) -> Answer:
        return self.ask("POST", path, json.dumps(document).encode(), JSON)

    def connect(self, within_s: float = DEADLINE_S) -> socket.socket:
        """For bytes that no HTTP client writes; `within_s` is for each step of it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=within_s)

    def status(self) -> Any:
        return self.ask("GET", "/status.json").json

    def models(self) -> list[str]:
        return [entry["id"] for entry in self.ask("GET", "/v1/models").json["data"]]

    def wait(self, holds: Callable[[Any], object]) -> Any:
        """The first status document for which `holds`; the failure shows the last one."""
        last: Any = None

        def seen() -> bool:
            nonlocal last
            last = self.status()
            return bool(holds(last))

        try:
            wait_until(seen)
        except TimeoutError:
            raise AssertionError(f"{json.dumps(last, indent=1)}\n{self.command.output}") from None
        return last

    def wait_models(self, *names: str) -> None:
        """Until exactly these models route."""
        self.wait(lambda status: sorted(status["models"]) == sorted(names))


class Cluster:
    """Starts processes whose logs are in `folder`, and ends them, newest first, when its block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._number = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, line: str, **env: str) -> Command:
        """Any of the commands, or another program by its whole path."""
        log = self._folder / f"{next(self._number)}-{Path(line.split(' ', 1)[0]).name}.log"
        return self._stack.enter_context(command(line, log, **env))

    def daemon(self, flags: str = "", *, host: str = "127.0.0.1", **env: str) -> Daemon:
        """A daemon on free ports of `host` that announces itself to nobody unless `flags` say so."""
        quiet = "" if "--announce-port" in flags else "--announce-port 0"
        lite = self.run(f"mentatd-lite --bind {host} --port 0 --http-port 0 {quiet} {flags}", **env)
        up = lite.event("lite_up")
        return Daemon(lite, f"{host}:{up['control']}", f"{host}:{up['http']}")

    def register(self, daemon: Daemon, group: str, openai: str, flags: str = "") -> Command:
        """Announce an engine; returns when the daemon has it."""
        agent = self.run(
            f"mentatd-register --group {group} --openai {openai} --address {daemon.control} {flags}"
        )
        agent.event("register_up")
        return agent

    def router(self, *daemons: Daemon, **env: str) -> Router:
        """A router seeded with `daemons`, on a free port."""
        seeds = ",".join(daemon.http for daemon in daemons)
        serve = self.run("mentatd-serve", **{"SERVE_PORT": "0", "MENTAT_DAEMONS": seeds} | FAST | env)
        return Router(serve, int(serve.event("serve_up")["port"]))
