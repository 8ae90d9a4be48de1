"""A small engine that behaves like a model server and thinks like a parrot: OpenAI's API, vLLM's other paths.

`python -m mentatd.demo.engine --model poet --port 8000` serves one until SIGTERM; `mentatd-demo` starts three.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Mapping

from mentatd import options
from mentatd.demo import answers
from mentatd.demo.answers import Answer
from mentatd.demo.counters import Counters, page
from mentatd.demo.questions import Bad, Kind, read_question, read_tokenize
from mentatd.demo.speech import Speech
from mentatd.demo.words import tokenize
from mentatd.errors import Refusal, SettingsError
from mentatd.http.server import Connection, Request, Server
from mentatd.lifetime import refuse, run_until_signal
from mentatd.log import log
from mentatd.options import Option

PROG = "mentatd.demo.engine"

MODEL = Option(
    "model", "", "parrot", "the model to serve; poet and flicker have words of their own", value="NAME"
)
HOST = Option("host", "", "127.0.0.1", "the address to listen on", value="ADDRESS")
PORT = Option("port", "", "8000", "the port; 0 lets the system choose", value="PORT")
PACE = Option("pace", "", "0.06", "seconds from word to word", value="SECONDS")
OPTIONS = (MODEL, HOST, PORT, PACE)

_BODY_LIMIT = 4 * 1024 * 1024
_KINDS: Mapping[str, Kind] = {"/v1/chat/completions": "chat", "/v1/completions": "completion"}
_JSON = b"application/json"


class Engine:
    """The `Handler` of one model."""

    def __init__(self, model: str, pace_s: float) -> None:
        self._model = model
        self._pace_s = pace_s
        self._created = int(time.time())
        self._ids = itertools.count(1)
        self._counters = Counters()

    def admit(self, _request: Request) -> int:
        """The largest body that is read."""
        return _BODY_LIMIT

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer one request."""
        match request.method, request.path:
            case "GET" | "HEAD", "/health":
                connection.answer(200, b"")
            case "GET" | "HEAD", "/v1/models":
                connection.answer(200, answers.models(self._model, self._created))
            case "GET" | "HEAD", "/metrics":
                connection.answer(
                    200, page(self._counters, self._model).encode(), b"text/plain; version=0.0.4"
                )
            case "POST", "/tokenize":
                self._count(request, connection)
            case "POST", path if path in _KINDS:
                self._speak(_KINDS[path], request, connection)
            case _:
                _refuse(connection, Bad(404, "NotFoundError", f"{request.method} {request.path}: Not Found"))

    def refuse(self, refusal: Refusal, _request: Request | None) -> tuple[bytes, bytes]:
        """Render what the server itself refuses."""
        return _JSON, answers.error(Bad(refusal.status, refusal.type, refusal.message, refusal.param))

    def _count(self, request: Request, connection: Connection) -> None:
        text = read_tokenize(bytes(request.body), self._model)
        if isinstance(text, Bad):
            _refuse(connection, text)
        else:
            connection.answer(200, answers.tokens(tokenize(text)))

    def _speak(self, kind: Kind, request: Request, connection: Connection) -> None:
        question = read_question(kind, bytes(request.body), self._model)
        if isinstance(question, Bad):
            _refuse(connection, question)
            return
        prefix = "chatcmpl" if kind == "chat" else "cmpl"
        answer = Answer(
            question,
            id=f"{prefix}-{next(self._ids)}",
            created=int(time.time()),
            prompt_tokens=len(tokenize(question.prompt)),
        )
        Speech(connection, answer, self._counters, self._pace_s)


def _refuse(connection: Connection, bad: Bad) -> None:
    connection.answer(bad.status, answers.error(bad))


async def serve(values: Mapping[str, str]) -> int:
    """Serve until cancelled. Raises SettingsError when the port cannot be had."""
    port = options.port(PORT.name, values[PORT.name], lowest=0)
    host = options.address(HOST.name, values[HOST.name])
    server = Server(Engine(values[MODEL.name], options.seconds(PACE.name, values[PACE.name])))
    try:
        await server.start(port, (host,))
        log("engine_up", model=values[MODEL.name], port=server.port)
        await asyncio.get_running_loop().create_future()
    finally:
        await server.close()
    return 0


def main() -> None:
    """Exit status: 0 ended by a signal, 2 told something impossible."""
    values = options.parse(PROG, __doc__, OPTIONS, sys.argv[1:], os.environ)
    try:
        status = run_until_signal(lambda: serve(values))
    except SettingsError as error:
        refuse(PROG, error)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
