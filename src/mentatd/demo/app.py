"""The demonstration: start everything, tell the user what to try, let one engine come and go, end everything."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mentatd import options
from mentatd.demo import llama
from mentatd.demo.children import Children, Ended
from mentatd.demo.plan import FLICKER, GEMMA, MODELS, Plan, child_environ, introduction, make_plan
from mentatd.demo.traffic import talk
from mentatd.errors import SettingsError, UpstreamError
from mentatd.http.client import Client
from mentatd.http.listener import listen
from mentatd.http.pool import Pool
from mentatd.options import Option
from mentatd.tasks import Tasks

PROG = "mentatd-demo"

PORT = Option("port", "", "6381", "the router's port; 0 takes a free one", value="PORT")
TRAFFIC = Option(
    "traffic", "", "0", "keep so many requests going, to see the status page live", value="NUMBER"
)
FLICKER_S = Option(
    "flicker",
    "",
    "20",
    "seconds for which the engine that comes and goes is there, and is not",
    value="SECONDS",
)
ENGINE = Option(
    "engine", "", "toy", "llama adds llama.cpp with a small real model, where it is installed", value="NAME"
)
OPTIONS = (PORT, TRAFFIC, FLICKER_S, ENGINE)

_READY_S = {"toy": 30.0, "llama": 240.0}
"""By engine. The first start of the real one joins its weights, and a busy machine is slow to load them."""
_LOOK_S = 0.05
_FIRST_PORT, _LAST_PORT = 20000, 32000
# below the ephemeral ports, so that no outgoing connection takes the port of an engine that is down


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the demonstration is told."""

    port: int
    """The router's; never 0."""
    traffic: int
    """Requests that are kept going."""
    flicker_s: float
    """For how long one engine is there, and is not."""
    engine: str
    """`toy` or `llama`."""


def read_settings(values: Mapping[str, str]) -> DemoSettings:
    """The settings from the texts of `OPTIONS`. Raises SettingsError, also for what this machine does not have."""
    engine = values[ENGINE.name]
    if engine not in _READY_S:
        raise SettingsError(f"{ENGINE.name}={engine!r} is none of {', '.join(_READY_S)}")
    if engine == "llama" and (why := llama.missing()):
        raise SettingsError(f"{ENGINE.name}={engine}: {why}")
    port = options.port(PORT.name, values[PORT.name], lowest=0) or next(free_ports())
    try:
        for sock in listen(port):
            sock.close()
    except SettingsError as error:
        raise SettingsError(f"{error}; --port says another, --port 0 takes a free one") from error
    return DemoSettings(
        port,
        options.count(TRAFFIC.name, values[TRAFFIC.name]),
        options.seconds(FLICKER_S.name, values[FLICKER_S.name]),
        engine,
    )


def free_ports() -> Iterator[int]:
    """Ports that nothing listens on, from a random one on; each once."""
    start = random.randrange(_FIRST_PORT, _LAST_PORT)  # noqa: S311 (only to keep two demonstrations apart)
    for port in (*range(start, _LAST_PORT), *range(_FIRST_PORT, start)):
        try:
            sockets = listen(port)
        except SettingsError:
            continue
        for sock in sockets:
            sock.close()
        yield port


async def run(settings: DemoSettings) -> int:
    """Demonstrate until cancelled; 1 when a program ends on its own, or the cluster is not ready in time."""
    models = (*MODELS, GEMMA) if settings.engine == "llama" else MODELS
    plan = make_plan(settings.port, free_ports(), models)
    tasks = Tasks("demo")
    with tempfile.TemporaryDirectory(prefix="mentatd-demo-") as logs:
        children = Children(Path(logs), child_environ(os.environ))
        pool = Pool()
        try:
            for program in plan.programs:
                await children.start(program)
            show = tasks.start(_show(plan, children, Client(pool), settings), "show")
            for number in range(settings.traffic):
                tasks.start(talk(Client(pool), plan.base), f"traffic {number}")
            await asyncio.wait({show, children.failed}, return_when=asyncio.FIRST_COMPLETED)
            _say(_obituary(children.failed.result()) if children.failed.done() else show.result())
            return 1
        finally:
            await tasks.close()
            await children.close()
            await pool.close()


async def _show(plan: Plan, children: Children, client: Client, settings: DemoSettings) -> str:
    """Tell the user what to try, then stop and start the flickering engine for ever; ends only by telling why not."""
    started = time.monotonic()
    patience_s = _READY_S[settings.engine]
    while await _served(client, plan.base) != {model.name for model in plan.models}:
        if time.monotonic() - started > patience_s:
            return f"{PROG}: the cluster was not ready within {patience_s:g} s\n"
        await asyncio.sleep(_LOOK_S)
    _say(introduction(plan, str(children.logs)))
    while True:
        await asyncio.sleep(settings.flicker_s)
        await children.stop(plan.flicker.name)
        _say(f"{time.strftime('%H:%M:%S')}  {FLICKER.name} is down: requests for it get 503 and the reason\n")
        await asyncio.sleep(settings.flicker_s)
        await children.start(plan.flicker)
        _say(f"{time.strftime('%H:%M:%S')}  {FLICKER.name} is started again\n")


class _Entry(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Entry]


async def _served(client: Client, base: str) -> set[str]:
    """The models that route now; none while the router does not answer."""
    try:
        answer = await client.ask("GET", f"{base}/v1/models", deadline=1.0, limit=1 << 20)
        return {entry.id for entry in msgspec.json.decode(answer.body, type=_Listing).data}
    except (UpstreamError, msgspec.DecodeError):
        return set()


def _obituary(ended: Ended) -> str:
    how = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
    return (
        f"{PROG}: {ended.name} has ended ({how}), so the rest is ended too. The end of its log:\n{ended.tail}"
    )


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
