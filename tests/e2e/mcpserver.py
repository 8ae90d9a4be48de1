"""A group's management server made with the official SDK: `mcpserver.py PORT stateful|stateless`."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("group", version="1")
calls = 0


class Load(BaseModel):
    """What `load` answers."""

    running: int
    waiting: list[str]


@server.tool(title="Load of the engine", annotations=ToolAnnotations(read_only_hint=True))
def load(running: int = 1) -> Load:
    """How much the engine has to do."""
    return Load(running=running, waiting=["é"])


@server.tool()
def plot() -> Image:
    """A picture."""
    return Image(data=b"not a real png", format="png")


@server.tool()
def broken() -> str:
    """Always fails."""
    raise ValueError("the fan is stuck")


@server.tool()
async def sample(seconds: int, context: Context) -> str:
    """Reports progress before it answers."""
    for second in range(seconds):
        await context.report_progress(second, seconds)
    return f"sampled {seconds}"


@server.tool()
async def ask(context: Context) -> str:
    """Asks the user, who is not there."""
    answer = await context.elicit("Sure?", Sure)
    return str(answer)


class Sure(BaseModel):
    """What `ask` asks."""

    sure: bool


@server.tool()
def count() -> int:
    """Counts the calls that this process has run."""
    global calls
    calls += 1
    return calls


@server.resource("log://engine/last lines")
def log() -> str:
    """The end of the log."""
    return "it is hot"


@server.prompt()
def explain(topic: str) -> str:
    """Asks for an explanation."""
    return f"Explain {topic}."


if __name__ == "__main__":
    stateless = sys.argv[2] == "stateless"
    app = server.streamable_http_app(stateless_http=stateless, json_response=stateless)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
