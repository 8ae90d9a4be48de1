"""The router ends in order: no new connection, streams in flight finish within DRAIN_S, then exit status 0."""

from __future__ import annotations

import http.client
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from tests.support.cluster import JSON, Cluster, Router
from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.engine import Engine
from tests.support.streams import CHAT, Stepped

PATH = "/v1/chat/completions"
BODY = b'{"model":"tiny","messages":[],"stream":true}'


def routing(cluster: Cluster, engine: Engine, **env: str) -> Router:
    """A router of the test's own, to be ended."""
    daemon = cluster.daemon()
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    router = cluster.router(daemon, **env)
    router.wait_models("tiny")
    return router


@pytest.fixture
def router(cluster: Cluster, engine: Engine) -> Router:
    return routing(cluster, engine)


@contextmanager
def streaming(router: Router, engine: Engine) -> Iterator[tuple[Stepped, http.client.HTTPResponse]]:
    """A stream whose first event has come."""
    played = Stepped()
    engine.play(PATH, played)
    with closing(http.client.HTTPConnection("127.0.0.1", router.port, timeout=DEADLINE_S)) as connection:
        connection.request("POST", PATH, BODY, JSON)
        played.step()
        answer = connection.getresponse()
        assert answer.read(len(CHAT[0])) == CHAT[0]
        yield played, answer
        played.finish()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_in_flight_finishes(router: Router, engine: Engine, number: signal.Signals) -> None:
    with closing(router.connect()) as idle, streaming(router, engine) as (played, answer):
        router.command.signal(number)
        assert idle.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            router.connect()
        played.finish()
        assert answer.read() == b"".join(CHAT[1:])
        assert router.command.ended() == 0


def test_answers_during_the_drain_say_close(router: Router, engine: Engine) -> None:
    with streaming(router, engine) as (played, answer), closing(router.connect()) as late:
        late.sendall(b"POST /tokenize HTTP/1.1\r\nHost: router\r\nContent-Length: 16\r\n\r\n")
        wait_until(lambda: len(engine.posts()) == 1)
        router.command.signal(signal.SIGTERM)
        router.command.event("serve_draining")
        late.sendall(b'{"model":"tiny"}')
        head = late.recv(65536)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in head.lower()
        played.finish()
        answer.read()
        assert router.command.ended() == 0


@pytest.mark.parametrize("drain", ["0.3", "3600"], ids=["the drain is over", "a second signal"])
def test_a_stream_that_does_not_finish_is_cut(cluster: Cluster, engine: Engine, drain: str) -> None:
    router = routing(cluster, engine, DRAIN_S=drain)
    with streaming(router, engine) as (played, answer):
        router.command.signal(signal.SIGTERM)
        router.command.event("serve_draining")
        if drain == "3600":
            router.command.signal(signal.SIGTERM)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        assert router.command.ended() == 0
        assert played.gone.wait(DEADLINE_S)


def test_a_signal_while_it_looks_at_its_cluster_for_the_first_time(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        hanging.settimeout(DEADLINE_S)
        seed = f"127.0.0.1:{hanging.getsockname()[1]}"
        serve = cluster.run("mentatd-serve", SERVE_PORT="0", MENTAT_DAEMONS=seed, MENTAT_ANNOUNCE_PORT="0")
        with hanging.accept()[0]:
            serve.signal(signal.SIGTERM)
            assert serve.ended() == 0
    assert not serve.events("serve_up")


def test_a_port_in_use_is_a_clear_end(cluster: Cluster, router: Router) -> None:
    second = cluster.run("mentatd-serve", SERVE_PORT=str(router.port), MENTAT_ANNOUNCE_PORT="0")
    assert second.ended() == 1
    assert f"{router.port}" in second.output
    assert "in use" in second.output


def test_a_secret_file_that_cannot_be_read_is_a_clear_end(cluster: Cluster) -> None:
    serve = cluster.run("mentatd-serve", SERVE_PORT="0", MENTAT_SECRET_FILE="/nowhere/key")
    assert serve.ended() == 1
    assert "/nowhere/key" in serve.output
