"""Large bodies, hung engines and crowds of clients: bounded, and nobody else pays."""

from __future__ import annotations

import json
import os
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from openai import OpenAI
from tests.support.cluster import FAST, JSON, Answer, Cluster, Router
from tests.support.commands import BIN, Command
from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.engine import Engine, Exchange
from tests.support.streams import CHAT as EVENTS
from tests.support.streams import Stepped

CHAT = "/v1/chat/completions"
MIB = 1 << 20
SMALL = b'{"model":"tiny","messages":[]}'


class Draining(socketserver.StreamRequestHandler):
    """An engine of the model `big`: it counts what it is sent, and keeps none of it."""

    taken: ClassVar[list[int]]
    reads: ClassVar[threading.Event]

    def handle(self) -> None:
        while head := self._head():
            length = int((re.search(rb"(?i)\r\ncontent-length: *(\d+)", head) or [b"", b"0"])[1])
            self.reads.wait(DEADLINE_S)
            left = length
            while left and (piece := self.rfile.read1(min(left, MIB))):
                left -= len(piece)
            if head.startswith(b"POST"):
                self.taken.append(length - left)
            body = json.dumps({"data": [{"id": "big"}], "taken": length - left}).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    def _head(self) -> bytes:
        head = b""
        while line := self.rfile.readline():
            head += line
            if line == b"\r\n":
                break
        return head


class Drain(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def draining() -> Iterator[tuple[int, type[Draining]]]:
    """Its port, and what its connections share."""

    class shared(Draining):  # noqa: N801
        taken: ClassVar[list[int]] = []
        reads = threading.Event()

    shared.reads.set()
    with Drain(("127.0.0.1", 0), shared) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1], shared
        finally:
            shared.reads.set()
            server.shutdown()
            thread.join(DEADLINE_S)


def peak_mib(router: Router) -> float:
    """The most memory that the process has had so far."""
    status = Path(f"/proc/{router.command.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def before_one_engine(cluster: Cluster, port: int, **env: str) -> Router:
    """A router whose only engine, on this port, serves `big`."""
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", f"{port}/v1")
    router = cluster.router(daemon, **env)
    router.wait_models("big")
    return router


def upload(router: Router, body: bytes) -> Answer:
    return router.ask("POST", "/v1/files", body, JSON, within_s=60)


@pytest.mark.timeout(180)  # two GiB, on a machine that others use too
def test_many_large_uploads_at_once_stay_inside_the_memory(cluster: Cluster) -> None:
    with draining() as (port, engine):
        router = before_one_engine(cluster, port, BODY_MEMORY_MIB="256")
        body = b'{"x":"' + b"y" * (100 * MIB) + b'","model":"big"}'
        before = peak_mib(router)
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(upload, [router] * 20, [body] * 20))
        assert [answer.json["taken"] for answer in answers] == [len(body)] * 20
        assert engine.taken == [len(body)] * 20
        assert peak_mib(router) - before < 256 + 64


def upload_in_chunks(router: Router, size: int) -> bytes:
    """The answer to a JSON body of `size` MiB and a little more whose length is not said ahead."""
    pieces = [b'{"x":"', *[b"y" * MIB] * size, b'","model":"big"}']
    with closing(router.connect(60)) as sock:
        sock.sendall(
            b"POST /v1/files HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        for piece in pieces:
            sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        return read_all(sock)


def test_uploads_that_do_not_say_their_length_stay_inside_the_memory_too(cluster: Cluster) -> None:
    with draining() as (port, engine):
        router = before_one_engine(cluster, port, BODY_MEMORY_MIB="32")
        before = peak_mib(router)
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(upload_in_chunks, [router] * 20, [12] * 20))
        size = 12 * MIB + len(b'{"x":"","model":"big"}')
        assert [json.loads(answer.partition(b"\r\n\r\n")[2])["taken"] for answer in answers] == [size] * 20
        assert engine.taken == [size] * 20
        # each may have 1 MiB and one read before it asks, and the oldest may go past the bound
        assert peak_mib(router) - before < 32 + 20 * 2 + 12 + 16


def test_bodies_that_a_hung_engine_holds_stop_no_small_request(cluster: Cluster, engine: Engine) -> None:
    with draining() as (port, hung):
        daemon = cluster.daemon()
        cluster.register(daemon, "big", f"{port}/v1", "--container big")
        cluster.register(daemon, "tiny", f"{engine.port}/v1", "--container tiny")
        router = cluster.router(daemon, BODY_MEMORY_MIB="64", PROBE_FRESH_S="60")
        router.wait_models("big", "tiny")
        hung.reads.clear()
        large = b'{"model":"big","x":"' + b"y" * (40 * MIB) + b'"}'
        medium = b'{"model":"tiny","x":"' + b"y" * (MIB - 100) + b'"}'
        with ThreadPoolExecutor(4) as pool:
            held = [pool.submit(upload, router, large) for _ in range(4)]
            wait_until(lambda: len(router.ask("GET", "/stats.json").json["requests"]) >= 1)
            for body in (SMALL, medium) * 3:
                assert router.ask("POST", CHAT, body, JSON).status == 200
            assert not any(upload.done() for upload in held)
            hung.reads.set()
            assert [upload.result(DEADLINE_S).status for upload in held] == [200] * 4


@pytest.mark.parametrize(
    "begun", [b"GET /v1/models HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 9\r\n\r\n{"]
)
def test_what_stays_half_is_refused_after_its_time(cluster: Cluster, begun: bytes) -> None:
    router = cluster.router(CLIENT_TIMEOUT_S="0.2")
    with closing(router.connect()) as sock:
        sock.sendall(begun)
        answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nConnection: close\r\n" in answer


def test_past_the_owners_bound_new_ones_are_refused_and_streams_go_on(
    cluster: Cluster, engine: Engine
) -> None:
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    held = Stepped()
    engine.play(CHAT, held)
    router = cluster.router(daemon, MAX_CONNECTIONS="3")
    router.wait_models("tiny")
    with ExitStack() as stack:
        sdk = stack.enter_context(OpenAI(base_url=f"{router.base}/v1", api_key="x", max_retries=0))
        stream = sdk.chat.completions.create(model="tiny", messages=[], stream=True)
        held.step()
        next(iter(stream))
        for _ in range(2):
            idle = stack.enter_context(closing(router.connect()))
            idle.sendall(b"GET /v1/models HTTP/1.1\r\nHost: r\r\n\r\n")
            assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
        refused = read_all(stack.enter_context(closing(router.connect())))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"too_many_connections"' in refused
        held.finish()
        assert len(list(stream)) == len(EVENTS) - 2  # the first has been read, and the SDK keeps [DONE]
        idle.close()
        wait_until(lambda: router.ask("GET", "/v1/models").status == 200)


@contextmanager
def few_descriptors(cluster: Cluster, folder: Path, limit: int, **env: str) -> Iterator[Router]:
    """A router that the system allows `limit` descriptors."""
    argv = ["prlimit", f"--nofile={limit}:{limit}", str(BIN / "mentatd-serve")]
    command = Command(argv, {"SERVE_PORT": "0"} | FAST | env, folder / "few.log")
    try:
        yield Router(command, int(command.event("serve_up")["port"]))
    finally:
        command.close()


def test_a_crowd_is_told_that_there_is_no_room_and_streams_go_on(
    cluster: Cluster, engine: Engine, tmp_path: Path
) -> None:
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    held = Stepped()
    engine.play(CHAT, held)
    few = few_descriptors(cluster, tmp_path, 100, MENTAT_DAEMONS=daemon.http, CORS_ALLOW_ORIGINS="*")
    with few as router, ExitStack() as stack:
        router.wait_models("tiny")
        clients = int(router.command.event("connections_limited")["clients"])
        assert 20 <= clients <= 50
        sdk = stack.enter_context(OpenAI(base_url=f"{router.base}/v1", api_key="x", max_retries=0))
        stream = sdk.chat.completions.create(model="tiny", messages=[], stream=True)
        held.step()
        next(iter(stream))
        idle = [stack.enter_context(closing(router.connect())) for _ in range(clients - 1)]
        crowd = [stack.enter_context(closing(router.connect())) for _ in range(200)]
        answers = [read_all(sock) for sock in crowd]
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 503"] * 200
        assert all(b"\r\nAccess-Control-Allow-Origin: *\r\n" in answer for answer in answers)
        assert b'"code":"too_many_connections"' in answers[-1]
        idle[0].sendall(b"GET /v1/models HTTP/1.1\r\nHost: r\r\n\r\n")
        assert idle[0].recv(65536).startswith(b"HTTP/1.1 200 ")
        held.step()
        next(iter(stream))
        held.finish()
        for _ in stream:
            pass
        for sock in idle:
            sock.close()
        wait_until(lambda: router.ask("GET", "/v1/models").status == 200)


def read_all(sock: socket.socket) -> bytes:
    answer = b""
    while piece := sock.recv(65536):
        answer += piece
    return answer


def test_a_slow_reader_of_a_fast_answer_costs_little_and_delays_nobody(
    router: Router, engine: Engine
) -> None:
    piece, left = bytes(MIB), threading.Event()

    async def fast(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (500 * MIB))
        try:
            for _ in range(500):
                await exchange.send(piece)
        finally:
            left.set()

    engine.play("/fast", fast)
    for _ in range(20):
        assert router.ask("POST", CHAT, SMALL, JSON).status == 200
    before = resident_kib(router)
    with closing(router.connect()) as sock:
        sock.sendall(b"POST /fast HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n%b" % (len(SMALL), SMALL))
        for _ in range(40):
            assert sock.recv(1024)
            assert router.ask("POST", CHAT, SMALL, JSON).status == 200
        assert resident_kib(router) - before < 1024
        assert not left.is_set()
    assert left.wait(DEADLINE_S)


@pytest.mark.parametrize("count", [2000])
def test_idle_connections_cost_little(cluster: Cluster, count: int) -> None:
    router = cluster.router()
    router.ask("GET", "/v1/models")
    before = resident_kib(router)
    with ExitStack() as stack:
        socks = [stack.enter_context(closing(router.connect())) for _ in range(count)]
        for sock in socks:
            sock.sendall(b"GET /v1/models HTTP/1.1\r\nHost: r\r\n\r\n")
        for sock in socks:
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert (resident_kib(router) - before) / count < 12


def resident_kib(router: Router) -> float:
    pages = int(Path(f"/proc/{router.command.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024
