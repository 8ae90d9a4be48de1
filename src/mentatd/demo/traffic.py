"""Keeps some requests going through the router, so that the status page has something to show."""

from __future__ import annotations

import asyncio
import json
import random

from mentatd.demo.plan import MODELS
from mentatd.errors import UpstreamError
from mentatd.http.client import Client

_DEADLINE_S = 60.0
_PAUSE_S = 3.0


async def talk(client: Client, base: str) -> None:
    """Ask one model after another for ever; a model that does not answer is passed over."""
    while True:
        question = {
            "model": random.choice(MODELS).name,  # noqa: S311 (no secret depends on it)
            "messages": [{"role": "user", "content": "tell me something " * random.randint(1, 20)}],  # noqa: S311
            "stream": True,
        }
        try:
            async with client.stream(
                "POST",
                f"{base}/v1/chat/completions",
                deadline=_DEADLINE_S,
                fields={"Content-Type": "application/json"},
                body=json.dumps(question).encode(),
            ) as answer:
                async for _ in answer.pieces():
                    pass
        except UpstreamError:
            pass
        await asyncio.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311
