"""Compressed bodies become large behind the server's back: each path that decodes them waits for memory first."""

from __future__ import annotations

import gzip
from contextlib import closing

import pytest
from tests.serve.test_app import MODELS, world
from tests.support.deadlines import until, within
from tests.support.scripted import Line

from mentatd.serve.tokens.endpoint import RESPONSES_PATH

MIB = 1 << 20


async def engine(line: Line) -> None:
    """Lists `glm-5`, and answers a POST with how much it got."""
    while True:
        request = await line.request()
        body = (
            MODELS if request.startswith(b"GET") else b'{"count":%d}' % len(request.partition(b"\r\n\r\n")[2])
        )
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


@pytest.mark.parametrize(
    ("path", "before", "behind", "answer"),
    [
        ("/v1/chat/completions", b'{"x":"', b'","model":"glm-5"}', b'{"count":2097176}'),
        ("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":"', b'"}}', b'"id":1,'),
        (RESPONSES_PATH, b'{"x":"', b'","model":"nobody"}', b"model_not_found"),
    ],
)
async def test_a_compressed_body_waits_for_the_memory_that_it_will_need(
    path: str, before: bytes, behind: bytes, answer: bytes
) -> None:
    async with world(engine, BODY_MEMORY_MIB="4") as w, within():
        await w.serving()
        memory = w.router._server._shared.memory
        body = gzip.compress(before + b"y" * (2 * MIB) + behind)
        (_, holder), (reader, writer) = await w.connect(), await w.connect()
        with closing(holder), closing(writer):
            holder.write(b"POST /v1/files HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n" % (3 * MIB))
            await until(lambda: memory.held == 3 * MIB)
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: r\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            await until(lambda: any(share.wanted for share in memory._shares))
            assert memory.held <= 4 * MIB
            holder.transport.abort()
            assert answer in await reader.read()
            await until(lambda: memory.held == 0)
