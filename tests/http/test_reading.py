"""Bytes to requests: playbooks of one connection, on a played transport."""

from __future__ import annotations

import gc
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.played import Played
from tests.http.serving import Answering, Gate, Seen, chunked, get, post
from tests.http.shapes import REFUSED, TAKEN, Shape

from mentatd.errors import Refusal
from mentatd.http.headers import HeadReader, judge_head
from mentatd.http.limits import PIPELINED_BYTES, Limits
from mentatd.http.request import Head
from mentatd.http.server import Connection, Request
from mentatd.http.timers import EACH_SWEEP

BIG = 300 * 1024


def paths(played: Played) -> list[bytes]:
    return [request.target for request in played.handler.requests]


# Requests of every framing, and cuts.


async def test_a_plain_request_is_answered_in_the_call_that_brought_it() -> None:
    played = Played()
    played.send(post("/a", b"hello"))
    assert played.handler.requests == [Seen("POST", b"/a", b"Host: h\r\n", b"hello")]
    assert played.handler.admitted == []
    assert played.transport.written.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (post("/a", b""), b""),
        (post("/a", b"x" * 5000), b"x" * 5000),
        (post("/a", b"x" * BIG), b"x" * BIG),
        (chunked("/a"), b""),
        (chunked("/a", b"x", b"yz"), b"xyz"),
        (chunked("/a", b"x" * BIG), b"x" * BIG),
        (get("/a"), b""),
        (get("/a", "Connection: close\r\n"), b""),
    ],
    ids=lambda value: str(len(value)),
)
@pytest.mark.parametrize("size", [1000, 30, 7])
async def test_a_request_cut_anywhere_is_the_same_request(data: bytes, body: bytes, size: int) -> None:
    if len(data) > 100 * size:
        size = len(data) // 50
    played = Played()
    played.send(*(data[at : at + size] for at in range(0, len(data), size)))
    assert played.bodies == [body]
    assert played.statuses == [200]


@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_client_that_repeats_its_head_is_judged_once(pipelined: bool) -> None:
    judged = []

    def judge(text: bytes) -> Head | Refusal:
        judged.append(text)
        return judge_head(text)

    first = Played()
    first.shared.judge = judge
    second = Played(shared=first.shared)
    bodies = [b"abc", b"", b"x" * 40, b"y" * BIG, b"z" * 10]
    messages = [post("/a", body) for body in bodies]
    second.send(*([b"".join(messages)] if pipelined else messages))
    assert first.bodies == bodies
    assert second.statuses == [200] * len(bodies)
    assert len(judged) == 1
    second.send(post("/a", b"q", "A: 1\r\n"))
    assert first.bodies[-1] == b"q"
    assert len(judged) == 2


_MESSAGES = st.one_of(
    st.binary(max_size=30).map(lambda body: post("/p", body)),
    st.lists(st.binary(min_size=1, max_size=9), max_size=3).map(lambda chunks: chunked("/c", *chunks)),
    st.sampled_from(
        [get("/g"), b"\r\n" + get("/e"), post("/big", b"b" * BIG), get("/refused"), get("/empty")]
    ),
    st.sampled_from([s.data for s in TAKEN if b"Connection" not in s.data and b"/1.0" not in s.data]),
)


@given(st.lists(_MESSAGES, max_size=4), st.lists(st.integers(0, 400), max_size=8), st.sampled_from(REFUSED))
@settings(max_examples=150)
async def test_a_stream_cut_anywhere_gives_the_same_requests(
    messages: list[bytes], cuts: list[int], last: Shape
) -> None:
    data = b"".join(messages) + last.data
    edges = [0, *sorted({min(cut, len(data)) for cut in cuts}), len(data)]
    whole, cut = Played(), Played()
    whole.send(data)
    cut.send(*(data[a:b] for a, b in itertools.pairwise(edges) if a < b))
    assert cut.handler.requests == whole.handler.requests
    assert cut.statuses == whole.statuses
    assert len(whole.statuses) == len(messages) + 1
    assert whole.transport.asked[0] == cut.transport.asked[0] == "eof"


@given(st.lists(st.binary(max_size=100), max_size=5))
async def test_any_bytes_leave_a_connection_that_can_be_closed(pieces: list[bytes]) -> None:
    played = Played()
    played.send(*pieces)
    played.end()
    played.lose()
    assert not played.shared.connections


@pytest.mark.parametrize("shape", REFUSED, ids=lambda shape: shape.name)
async def test_no_request_is_seen_in_or_behind_an_attack(shape: Shape) -> None:
    played = Played()
    played.send(shape.data + get("/smuggled"), get("/smuggled"))
    assert played.handler.requests == []
    assert played.statuses == [shape.status]
    assert b"\r\nConnection: close\r\n" in played.transport.written
    assert played.transport.asked == ["eof"]


# Pipelining.


async def test_pipelined_requests_are_answered_in_order() -> None:
    played = Played()
    played.send(get("/1") + post("/held", b"2") + chunked("/3", b"3") + get("/4"), get("/5"))
    assert paths(played) == [b"/1", b"/held"]
    played.handler.held[0].connection.answer(200, b"2")
    assert paths(played) == [b"/1", b"/held", b"/3", b"/4", b"/5"]
    assert played.handler.held[0].told == []
    assert len(played.statuses) == 5


async def test_a_long_pipeline_does_not_nest() -> None:
    played = Played()
    played.send(get("/held") + get("/x") * 2000)
    played.handler.held[0].connection.answer(200, b"")
    assert len(played.handler.requests) == 2001


async def test_a_client_is_paused_only_once_it_sent_much_ahead() -> None:
    played = Played()
    played.send(get("/held"), (b"GET /x HTTP/1.1\r\nX: " + b"x" * PIPELINED_BYTES)[:PIPELINED_BYTES])
    assert played.transport.reading
    played.send(b"x")
    paused = (not played.transport.reading, played.connection.deadline)
    played.handler.held[0].connection.answer(200, b"")
    assert paused == (True, EACH_SWEEP)
    assert played.transport.reading
    assert played.connection.deadline > 0


async def test_a_client_that_reads_no_answers_and_sends_on_has_its_time() -> None:
    played = Played()
    played.connection.pause_writing()
    idle = played.connection.deadline
    played.send(b"x" * (PIPELINED_BYTES + 1))
    assert not played.transport.reading
    assert played.connection.deadline == idle


async def test_a_client_that_does_not_read_gets_no_next_answer() -> None:
    played = Played()
    played.send(get("/held"))
    played.connection.pause_writing()
    assert played.handler.held[0].told == ["paused"]
    played.handler.held[0].connection.answer(200, b"")
    played.send(get("/2") + get("/3"))
    assert paths(played) == [b"/held"]
    played.connection.resume_writing()
    assert paths(played) == [b"/held", b"/2", b"/3"]


async def test_a_flow_hears_of_pauses() -> None:
    played = Played()
    played.send(get("/held"))
    played.connection.pause_writing()
    played.connection.resume_writing()
    assert played.handler.held[0].told == ["paused", "resumed"]


# Admission and Expect.


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        (post("/a", b"x"), False),
        (post("/a", b"x")[:-1], False),
        (post("/a", b"x" * 128 * 1024), False),
        (post("/a", b"x" * (128 * 1024 + 1)), True),
        (post("/a", b"x" * (128 * 1024 + 1))[:300], True),
        (chunked("/a", b"x"), True),
        (post("/a", b"x", "Expect: 100-continue\r\n")[:-1], True),
    ],
)
async def test_who_is_asked_for_admission(data: bytes, asked: bool) -> None:
    played = Played()
    played.send(data)
    assert played.handler.admitted == (["/a"] if asked else [])


@pytest.mark.parametrize("data", [post("/a", b"x" * BIG), post("/a", b"x" * BIG)[:200], chunked("/a", b"x")])
async def test_a_request_that_is_not_admitted_is_refused_at_once(data: bytes) -> None:
    played = Played(Answering(admission=Refusal(404, "t", "none", "no such model")))
    played.send(data)
    assert played.statuses == [404]
    assert played.transport.written.endswith(b"none /a")
    assert played.transport.asked == ["eof"]
    assert played.handler.requests == []


@pytest.mark.parametrize(
    "data",
    [
        post("/a", b"x" * BIG)[:200],
        chunked("/a", b"x" * 200_001)[:200],
        chunked("/a", b"x" * 150_000, b"x" * 150_000),
    ],
)
async def test_a_body_over_the_limit_is_refused_by_length_and_by_count(data: bytes) -> None:
    played = Played(Answering(admission=200_000))
    played.send(data)
    assert played.statuses == [413]
    assert played.transport.asked == ["eof"]
    assert played.handler.requests == []


async def test_a_client_that_waits_is_told_to_go_on_once_admitted() -> None:
    played = Played()
    data = post("/a", b"hello", "Expect: 100-continue\r\n")
    played.send(data[:-5])
    assert played.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    played.send(data[-5:])
    assert played.statuses == [100, 200]


@pytest.mark.parametrize(
    "data",
    [
        post("/a", b"hello", "Expect: 100-continue\r\n"),
        post("/a", b"hello", "Expect: 100-continue\r\n")[:-1],
        post("/a", b"hello", "Expect: 100-continue\r\n").replace(b"/1.1", b"/1.0")[:-5],
    ],
)
async def test_a_client_that_did_not_wait_is_not_told_to(data: bytes) -> None:
    played = Played()
    played.send(data)
    assert 100 not in played.statuses


async def test_a_client_that_waits_may_be_refused() -> None:
    played = Played(Answering(admission=3))
    played.send(post("/a", b"hello", "Expect: 100-continue\r\n")[:-5])
    assert played.statuses == [413]


# Clients that leave.


async def test_a_client_that_leaves_is_told_of_once() -> None:
    played = Played()
    played.send(get("/held"))
    played.end()
    flow = played.handler.held[0]
    assert flow.told == ["lost"]
    assert played.transport.asked[0] == "abort"
    played.lose()
    assert flow.told == ["lost"]
    flow.connection.answer(200, b"late")
    flow.connection.end(keep=True)
    flow.connection.cut()
    flow.connection.refuse(Refusal(500, "t", "c", "m"))
    assert played.transport.written == b""


async def test_a_lost_connection_is_told_of() -> None:
    played = Played()
    played.send(get("/held"))
    played.lose()
    assert played.handler.held[0].told == ["lost"]
    assert not played.shared.connections
    assert played.shared.emptied.is_set()
    assert played.connection.deadline == math.inf


@pytest.mark.parametrize(
    "data", [b"", get("/a"), get("/held"), get("/a")[:9], post("/a", bytes(BIG))[:900], b"\n"]
)
async def test_a_lost_connection_goes_without_a_garbage_collection(data: bytes) -> None:
    def readers() -> int:
        return sum(isinstance(thing, HeadReader) for thing in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = readers()
        played = Played()
        assert readers() == before + 1
        played.send(data)
        played.lose()
        played.handler.held.clear()
        del played
        assert readers() == before
    finally:
        gc.enable()


async def test_a_client_with_a_second_request_has_not_left() -> None:
    played = Played()
    played.send(get("/held"), get("/2"))
    assert played.handler.held[0].told == []


@pytest.mark.parametrize(
    "data",
    [b"GET", get("/a")[:-1], post("/a", b"abc")[:-1], chunked("/a", b"x")[:-1], post("/a", bytes(BIG))[:-1]],
)
async def test_a_request_that_ends_early_is_refused(data: bytes) -> None:
    played = Played()
    played.send(data)
    played.end()
    assert played.statuses == [400]
    assert played.listens


async def test_a_refused_client_that_ends_is_closed() -> None:
    played = Played()
    played.send(b"\n", b"more")
    played.end()
    assert played.statuses == [400]
    assert played.transport.asked == ["eof", "close"]


async def test_a_client_that_ends_between_requests_is_closed_silently() -> None:
    played = Played()
    played.send(get("/a"))
    played.end()
    assert played.statuses == [200]
    assert played.transport.asked[0] == "close"


# Time.


async def test_an_idle_connection_is_closed_silently() -> None:
    played = Played(limits=Limits(keep_alive_s=7))
    made = played.connection.deadline
    played.send(get("/a"))
    assert 6 < played.connection.deadline - made + 7 < 60
    played.expire()
    assert played.statuses == [200]
    assert played.transport.asked == ["close"]


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"G"])
async def test_a_head_that_does_not_come_whole_is_refused(data: bytes) -> None:
    played = Played(limits=Limits(client_timeout_s=5, keep_alive_s=500))
    arrived = played.connection.deadline - 500
    played.send(data, b"E")
    assert played.connection.deadline - arrived < 60
    first = played.connection.deadline
    played.send(b"T")
    assert played.connection.deadline == first
    played.expire()
    assert played.statuses == [408]
    assert played.transport.asked == ["eof"]


async def test_an_empty_line_is_no_beginning_of_a_head() -> None:
    played = Played()
    played.send(get("/a"), b"\r\n")
    played.expire()
    assert played.statuses == [200]
    assert played.transport.asked == ["close"]


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n",
    ],
)
async def test_a_body_must_go_on_by_a_kilobyte_in_each_time(head: bytes) -> None:
    played = Played(limits=Limits(client_timeout_s=5))
    played.send(head)
    for _ in range(3):
        played.send(b"x" * 1024)
        before = played.connection.deadline
        played.expire()
        assert played.connection.deadline == before + 5
    assert played.statuses == []
    played.send(b"x" * 1000)
    played.expire()
    assert played.statuses == [408]
    assert played.transport.asked == ["eof"]
    assert played.listens


async def test_a_request_that_is_answered_has_no_deadline_here() -> None:
    played = Played()
    played.send(get("/held"))
    assert played.connection.deadline == math.inf


# Handlers that fail.


async def test_a_handler_that_raises_costs_its_request_only(capfd: pytest.CaptureFixture[str]) -> None:
    played, other = Played(), Played()
    other.send(get("/held"))
    played.send(get("/crash"), get("/a"))
    assert played.statuses == [500, 200]
    assert other.handler.held[0].told == []
    assert capfd.readouterr().err.count("event=request_crashed") == 1


async def test_an_answer_that_a_handler_began_is_cut_when_it_raises() -> None:
    played = Played()
    played.send(get("/crash-late"), get("/a"))
    assert played.statuses == [200]
    assert played.transport.asked == ["eof"]


async def test_an_answer_that_a_handler_gave_stands_when_it_raises() -> None:
    played = Played()
    played.send(get("/crash-answered"), get("/a"))
    assert played.statuses == [200, 200]


async def test_a_handler_that_cannot_admit_or_refuse_still_gets_an_answer_out() -> None:
    class Broken(Answering):
        def admit(self, request: Request) -> Refusal | int:
            raise RuntimeError("no")

        def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
            raise RuntimeError("no")

    played = Played(Broken())
    played.send(chunked("/a", b"x"))
    assert played.statuses == [500]
    assert b"\r\n\r\nthe router failed" in played.transport.written


async def test_a_flow_of_a_handler_that_raises_is_told() -> None:
    class Late(Answering):
        def handle(self, request: Request, connection: Connection) -> None:
            super().handle(request, connection)
            raise RuntimeError("no")

    played = Played(Late())
    played.send(get("/held"))
    assert played.handler.held[0].told == ["lost"]
    assert played.statuses == [500]


# Who may connect.


async def test_a_client_that_is_not_allowed_is_told_on_every_path() -> None:
    gate = Gate(opens=False)
    played = Played(allowed=gate, peer="::ffff:192.0.2.1")
    played.send(get("/")[:9])
    assert played.statuses == []
    played.send(get("/")[9:] + get("/"))
    assert played.statuses == [403]
    assert played.transport.asked == ["eof"]
    assert gate.asked == ["192.0.2.1"]
    assert played.handler.requests == []


@pytest.mark.parametrize(
    ("peername", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::1", "::1"),
        ("::ffff:0:1", "::ffff:0:1"),
        ("", ""),
    ],
)
async def test_the_peer_is_an_address(peername: str, peer: str) -> None:
    gate = Gate()
    Played(allowed=gate, peer=peername)
    assert gate.asked == [peer]


async def test_beyond_the_limit_connections_are_refused_and_beyond_that_not_waited_for() -> None:
    first = Played(limits=Limits(max_connections=1))
    shared = first.shared
    over = Played(shared=shared)
    assert over.transport.written.startswith(b"HTTP/1.1 503 ")
    assert over.transport.asked == ["eof"]
    over.send(get("/a"))
    assert over.handler.requests == []
    crowd = [Played(shared=shared) for _ in range(first.shared.room.refused)]
    assert crowd[-2].transport.asked == ["eof"]
    assert crowd[-1].transport.asked == ["eof", "close"]
    assert crowd[-1].transport.written.startswith(b"HTTP/1.1 503 ")
    first.lose()
    replacement = Played(first.handler, shared=shared)
    replacement.send(get("/a"))
    assert replacement.statuses == [200]
    for played in (over, *crowd, replacement):
        played.lose()
    assert shared.overflow == 0


async def test_the_last_descriptors_are_not_for_clients() -> None:
    assert Played(spared=8, descriptor=8).statuses == [503]
    assert Played(spared=8, descriptor=7).statuses == []


# The end of the server.


async def test_the_end_of_the_server_closes_what_is_idle() -> None:
    idle, half, held = Played(), Played(), Played()
    half.send(get("/a")[:5])
    held.send(get("/held"))
    for played in (idle, half, held):
        played.shared.draining = True
        played.connection.drain()
    assert idle.transport.asked == ["close"]
    assert half.transport.asked == held.transport.asked == []
    half.send(get("/a")[5:])
    held.handler.held[0].connection.answer(200, b"")
    for played in (half, held):
        assert b"\r\nConnection: close\r\n" in played.transport.written
        assert played.transport.asked == ["eof"]


async def test_a_connection_that_comes_at_the_end_does_not_hold_it_up() -> None:
    first = Played(limits=Limits(keep_alive_s=50, linger_s=1))
    first.shared.draining = True
    late = Played(shared=first.shared)
    assert late.connection.deadline < first.connection.deadline - 40
