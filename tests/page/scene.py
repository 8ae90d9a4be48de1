"""A cluster that the page is shown: the router's documents, from a simulated clock and a little arithmetic."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

START = 1_790_000_000.0
STEP_S = 1.0
ENGINE_FIGURES = (
    "running",
    "waiting",
    "kv",
    "prompt_tokens",
    "generation_tokens",
    "preemptions",
    "ttft_s",
    "queue_s",
    "itl_s",
    "finished",
)
FIGURES = ("proxied", "running", "waiting", "kv", "prompt_tps", "generation_tps", "ttfb_p50_s", "ttfb_p95_s")


@dataclass(slots=True)
class Model:
    """One row of the models."""

    model: str
    group: str = ""
    provider: str = "vllm"
    addresses: tuple[str, ...] = ("http://10.0.0.1:8000/v1",)
    used: int = 0
    """Which of the addresses is in use."""
    why_not: str | None = None
    errors: dict[str, str] = field(default_factory=dict)
    """What a probe of an address came back with."""
    note: str | None = None
    """Its agent's finding."""
    load: float = 4.0
    """Requests in flight, about."""
    published: bool = True
    """Its engine publishes figures."""
    running: int | None = None
    """What the engine says it works on, where that is not what the router carries."""

    def __post_init__(self) -> None:
        self.group = self.group or self.model


@dataclass(slots=True)
class Scene:
    """A cluster with its traffic. `step` lets a second pass."""

    models: list[Model]
    daemons: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """As in `/stats.json`, with `started` in place of `age_s`."""
    now: float = START
    finished: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=200))
    refused: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=50))
    changes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=200))
    points: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=150))
    churn: bool = True
    """Requests come and go; False: those that stand stay."""
    _numbers: int = 0
    _news: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._news = {"finished": [], "refused": [], "changes": []}

    # What happens

    def begin(self, model: Model, **more: Any) -> dict[str, Any]:
        """A request is routed."""
        self._numbers += 1
        n = self._numbers
        request = {
            "id": f"{n:x}",
            "model": model.model,
            "group": model.group,
            "address": model.addresses[model.used],
            "client": f"192.168.1.{20 + n % 7}",
            "path": ("/v1/chat/completions", "/v1/chat/completions", "/v1/messages", "/v1/completions")[
                n % 4
            ],
            "prompt_bytes": 420 + (n * 7919) % 52_000,
            "stream": n % 5 != 0,
            "started": self.now,
            "state": "waiting",
            "ttfb_s": None,
            "out_bytes": 0,
        }
        self.requests.append(request | more)
        return self.requests[-1]

    def first_byte(self, request: dict[str, Any]) -> None:
        request["state"] = "streaming"
        request["ttfb_s"] = round(max(0.08, self.now - request["started"]), 4)

    def end(
        self, request: dict[str, Any], status: int = 200, outcome: str = "ok", failure: str | None = None
    ) -> None:
        """A request ends."""
        self.requests.remove(request)
        row = {k: v for k, v in request.items() if k not in ("started", "state")}
        duration = round(self.now - request["started"] + 0.31, 3)
        row |= {"at": self.now, "status": status, "outcome": outcome, "failure": failure}
        self._tell(self.finished, "finished", row | {"duration_s": duration})

    def refuse(self, status: int, code: str, message: str, model: str = "(unknown)") -> None:
        self._numbers += 1
        row = {"id": f"r{self._numbers:x}", "at": self.now, "status": status, "outcome": code}
        row |= {"failure": message, "client": "192.168.1.77", "path": "/v1/chat/completions"}
        self._tell(self.refused, "refused", row | {"model": model, "group": ""})

    def change(self, kind: str, subject: str, detail: str = "") -> None:
        self._numbers += 1
        row = {
            "id": f"c{self._numbers:x}",
            "at": self.now,
            "kind": kind,
            "subject": subject,
            "detail": detail,
        }
        self._tell(self.changes, "changes", row)

    def _tell(self, kept: deque[dict[str, Any]], name: str, row: dict[str, Any]) -> None:
        kept.append(row)
        self._news[name].append(row)

    def step(self) -> dict[str, Any]:
        """A second passes; what a `recent` event tells of it."""
        self.now += STEP_S
        if self.churn:
            for index, model in enumerate(self.models):
                if model.why_not is None and model.running is None:
                    self._serve(index, model)
        second = round(self.now - START)
        point = self._point() if second % 2 == 0 else None
        if point is not None:
            self.points.append(point)
        news, self._news = self._news, {"finished": [], "refused": [], "changes": []}
        return {"at": self.now, **news, "point": point}

    def _serve(self, index: int, model: Model) -> None:
        mine = [request for request in self.requests if request["model"] == model.model]
        for request in mine:
            age = self.now - request["started"]
            if request["ttfb_s"] is None and age >= 1 + index % 2:
                self.first_byte(request)
            elif request["ttfb_s"] is not None:
                request["out_bytes"] += 900 + 130 * (self._numbers % 5)
            if age > 6 + (int(request["id"], 16) * 5) % 17:
                self.end(request)
        wanted = model.load * (1 + 0.6 * math.sin((self.now - START) / (19 + 7 * index) + index))
        for _ in range(max(0, round(wanted) - len(mine))):
            self.begin(model)

    def _point(self) -> dict[str, Any]:
        return {
            "at": self.now,
            "models": [
                {"model": m.model, "group": m.group, **dict(zip(FIGURES, self._figures(m), strict=True))}
                for m in self.models
                if m.why_not is None
            ],
        }

    def _figures(self, model: Model) -> tuple[float | None, ...]:
        carried = self._carried(model)
        wave = math.sin((self.now - START) / 23 + len(model.model))
        first = round(0.21 + 0.02 * carried + 0.05 * wave, 4) if carried else None
        late = None if first is None else round(first * (1.9 + 0.3 * wave), 4)
        if not model.published:
            return (carried, None, None, None, None, None, first, late)
        running, waiting = self._at_engine(model)
        rate = round(running * (31 + 4 * wave), 2)
        return (carried, running, waiting, self._kv(model), round(rate * 2.7, 2), rate, first, late)

    def _carried(self, model: Model) -> int:
        return sum(r["model"] == model.model and r["group"] == model.group for r in self.requests)

    def _at_engine(self, model: Model) -> tuple[int, int]:
        running = min(8, self._carried(model)) if model.running is None else model.running
        return running, max(0, self._carried(model) - 8)

    def _kv(self, model: Model) -> float:
        return round(min(0.97, 0.06 + 0.055 * self._carried(model)), 4)

    # The documents

    def stats(self, limit: int | None = None) -> dict[str, Any]:
        rows = [
            {**request, "age_s": round(self.now - request["started"], 3)} for request in self.requests[:limit]
        ]
        for row in rows:
            del row["started"]
        return {
            "uptime_s": 273_840.0 + self.now - START,
            "at": self.now,
            "version": "0.1.0",
            "in_flight": len(self.requests),
            "models": [self._row(model) for model in self.models],
            "requests": rows,
        }

    def _row(self, model: Model) -> dict[str, Any]:
        serves = model.why_not is None
        figures: dict[str, Any] = dict.fromkeys(ENGINE_FIGURES)
        if serves and model.published:
            running, waiting = self._at_engine(model)
            made = round((self.now - START) * 31 * model.load) + 1_204_331
            figures |= {"running": running, "waiting": waiting, "kv": self._kv(model), "preemptions": 3}
            figures |= {"prompt_tokens": round(made * 2.7), "generation_tokens": made}
            figures |= {"ttft_s": 0.2314 + model.load / 90, "queue_s": 0.0041 * model.load, "itl_s": 0.0287}
            figures["finished"] = {"stop": 18_204, "length": 311, "abort": 12}
        return {
            "model": model.model if serves else model.group,
            "group": model.group,
            "provider": model.provider,
            "healthy": serves,
            "why_not": model.why_not,
            "url": model.addresses[model.used] if serves else None,
            "inflight": self._carried(model),
            **figures,
            "engine_error": None if model.published or not serves else "answered 404",
        }

    def status(self) -> dict[str, Any]:
        return {
            "version": "0.1.0",
            "uptime_s": 273_840.0 + self.now - START,
            "daemons": self.daemons,
            "groups": {model.group: self._group(model) for model in self.models},
            "models": {
                model.model: {"group": model.group, "url": model.addresses[model.used], "alternates": []}
                for model in self.models
                if model.why_not is None
            },
        }

    def _group(self, model: Model) -> dict[str, Any]:
        serves = model.why_not is None
        actors = 0 if model.why_not == "no running actors" else 2
        attempts = [
            {
                "url": url,
                "error": model.errors.get(url),
                "seconds": 0.0031 if url not in model.errors else 3.0,
            }
            for index, url in enumerate(model.addresses)
            if url in model.errors or (serves and index == model.used)
        ]
        agent = {"id": f"{model.group}@c0@10.0.0.1", "node_ip": "10.0.0.1", "container": f"{model.group}-0"}
        return {
            "daemon": next(iter(self.daemons), "10.0.0.1:6380"),
            "agents_alive": 1,
            "actors_running": actors,
            "openai": model.addresses[model.used],
            "openai_candidates": list(model.addresses),
            "openai_note": model.note,
            "provider": model.provider,
            "mcp": "http://10.0.0.1:9000/mcp",
            "healthy": serves,
            "models": [model.model] if serves else None,
            "why_not": model.why_not,
            "mcp_candidates": ["http://10.0.0.1:9000/mcp"],
            "trusted": True,
            "probe": {"age_s": 1.2, "duration_s": 0.0031, "attempts": attempts} if attempts else None,
            "agents": [agent | {"alive": True, "degraded": False, "gpus": 2, "provider": model.provider}],
        }

    def history(self) -> dict[str, Any]:
        names = list(
            dict.fromkeys((m["model"], m["group"]) for point in self.points for m in point["models"])
        )
        lines = [
            {"model": model, "group": group, **{name: self._list(model, group, name) for name in FIGURES}}
            for model, group in names
        ]
        return {
            "at": self.now,
            "finished": list(self.finished),
            "refused": list(self.refused),
            "changes": list(self.changes),
            "series": {"step_s": 2, "at": [point["at"] for point in self.points], "models": lines},
        }

    def _list(self, model: str, group: str, name: str) -> list[float | None] | None:
        found = [
            next((m[name] for m in point["models"] if (m["model"], m["group"]) == (model, group)), None)
            for point in self.points
        ]
        return None if all(value is None for value in found) else found
