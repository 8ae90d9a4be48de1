"""What a client sends reaches the engine, and what the engine answers reaches the client."""

from __future__ import annotations

import gzip
import json

from openai import OpenAI
from tests.support.cluster import JSON, Cluster, Router
from tests.support.engine import Engine, Exchange, running
from tests.support.recorded import recorded
from tests.support.streams import Stepped

CHAT = "/v1/chat/completions"


def test_a_chat_completion_through_the_sdk(client: OpenAI, engine: Engine) -> None:
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}])
    assert answer.to_dict() == json.loads(recorded("vllm-0.32/chat").body)
    (request,) = engine.posts()
    assert request.fields("authorization") == ["Bearer sk-test"]
    assert request.fields("host") == [f"127.0.0.1:{engine.port}"]
    assert json.loads(request.body)["messages"] == [{"role": "user", "content": "hi"}]


def test_a_body_goes_on_byte_for_byte(router: Router, engine: Engine) -> None:
    bodies = [
        b'{ "messages" : [] ,\n"m\\u006fdel":"tiny", "x": 1e400 }',
        b'\xef\xbb\xbf{"model": "other", "model": "tiny"}',
        json.dumps({"model": "tiny", "text": "ü" * 500_000}).encode(),
    ]
    for body in bodies:
        assert router.ask("POST", CHAT, body, JSON).status == 200
    assert [request.body for request in engine.posts()] == bodies


def test_paths_outside_v1_go_to_the_engines_root(router: Router, engine: Engine) -> None:
    answer = router.post("/tokenize?x=%2F", model="tiny", prompt="hi")
    assert answer.status == 404  # the engine's own answer, for a target that it does not know
    assert answer.json == {"detail": "Not Found"}
    assert (
        router.post("/tokenize", model="tiny", prompt="hi").body == recorded("vllm-0.32/tokenize_chat").body
    )
    assert [request.target for request in engine.posts()] == ["/tokenize?x=%2F", "/tokenize"]


def test_a_form_is_routed_by_its_model_field(router: Router, engine: Engine) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00--\xff\r\n'
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny\r\n--b--\r\n'
    )
    fields = {"Content-Type": "multipart/form-data; boundary=b"}
    assert router.ask("POST", "/v1/audio/transcriptions", body, fields).status == 404
    (request,) = engine.posts("/v1/audio/transcriptions")
    assert request.body == body
    assert request.fields("content-type") == [fields["Content-Type"]]


def test_a_json_body_of_another_type_goes_as_json(router: Router, engine: Engine) -> None:
    body = b'{"model":"tiny","messages":[]}'
    for fields in ({}, {"Content-Type": "application/x-www-form-urlencoded"}):
        assert router.ask("POST", CHAT, body, fields).status == 200
    assert [request.fields("content-type") for request in engine.posts()] == [["application/json"]] * 2


def test_a_compressed_body_goes_decoded(router: Router, engine: Engine) -> None:
    body = b'{"model":"tiny","messages":[]}'
    fields = JSON | {"Content-Encoding": "gzip"}
    assert router.ask("POST", CHAT, gzip.compress(body), fields).status == 200
    (request,) = engine.posts()
    assert (request.body, request.fields("content-encoding")) == (body, [])


def test_hop_by_hop_fields_stop_here(router: Router, engine: Engine) -> None:
    async def script(exchange: Exchange) -> None:
        hop = b"Keep-Alive: timeout=5\r\nConnection: x-hop\r\nX-Hop: 1\r\n"
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + hop + b"X-End: 2\r\n\r\n{}")

    engine.play(CHAT, script)
    fields = JSON | {
        "Connection": "x-mine, keep-alive",
        "X-Mine": "1",
        "X-Through": "2",
        "Proxy-Authorization": "no",
    }
    answer = router.ask("POST", CHAT, b'{"model":"tiny"}', fields)
    (request,) = engine.posts()
    assert request.fields("x-through") == ["2"]
    assert not request.fields("x-mine") + request.fields("proxy-authorization")
    assert answer.fields["X-End"] == "2"
    assert answer.fields["X-Hop"] is None
    assert answer.fields["Keep-Alive"] is None


def test_an_engines_error_passes_untouched(router: Router, engine: Engine) -> None:
    error = recorded("vllm-0.32/too_long")

    async def refuse(exchange: Exchange) -> None:
        await exchange.send(error.whole)

    engine.play(CHAT, refuse)
    answer = router.post(CHAT, model="tiny", messages=[])
    assert (answer.status, answer.body) == (400, error.body)


def test_connections_to_the_engine_are_kept(cluster: Cluster) -> None:
    # An engine of its own: one that was seen to close a connection early is given a new one each time.
    with running("tiny") as engine:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1")
        router = cluster.router(daemon)
        router.wait_models("tiny")
        for _ in range(5):
            assert router.post(CHAT, model="tiny", messages=[]).status == 200
        assert len({request.connection for request in engine.posts()}) < 5


def test_two_groups_share_one_model(cluster: Cluster) -> None:
    """The one with fewer requests in flight; ties to the first by name."""
    with running("tiny") as first, running("tiny") as second:
        daemon = cluster.daemon()
        cluster.register(daemon, "b", f"{second.port}/v1", "--container second")
        cluster.register(daemon, "a", f"{first.port}/v1", "--container first")
        router = cluster.router(daemon)
        router.wait(
            lambda status: (
                all(group["healthy"] for group in status["groups"].values()) and len(status["groups"]) == 2
            )
        )
        (entry,) = router.ask("GET", "/v1/models").json["data"]
        assert entry["owned_by"] == "a"
        model = router.status()["models"]["tiny"]
        assert (model["group"], len(model["alternates"])) == ("a", 1)

        held = Stepped()
        first.play(CHAT, held)
        with OpenAI(base_url=f"{router.base}/v1", api_key="x", max_retries=0) as client:
            stream = client.chat.completions.create(model="tiny", messages=[], stream=True)
            held.step()
            next(iter(stream))
            assert router.post(CHAT, model="tiny", messages=[]).status == 200
            assert (len(first.posts()), len(second.posts())) == (1, 1)
            held.finish()
            for _ in stream:
                pass
        held.finish()
        assert router.post(CHAT, model="tiny", messages=[]).status == 200
        assert (len(first.posts()), len(second.posts())) == (2, 1)
