"""What a demonstration engine counts, written as vLLM's metrics page (wire.md section 6 names them)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mentatd.demo.questions import MAX_MODEL_LEN

_CACHE_TOKENS = 4 * MAX_MODEL_LEN


@dataclass(slots=True)
class Mean:
    """A histogram of which only the sum and the count are of use."""

    sum: float = 0.0
    count: int = 0

    def add(self, seconds: float) -> None:
        self.sum += seconds
        self.count += 1


def _reasons() -> dict[str, int]:
    return {"stop": 0, "length": 0, "abort": 0}


@dataclass(slots=True)
class Counters:
    """Owned by one engine; every figure since its start."""

    running: int = 0
    """Requests being answered now."""
    held: int = 0
    """Tokens in the cache now: prompts and answers of the running requests."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    ttft_s: Mean = field(default_factory=Mean)
    itl_s: Mean = field(default_factory=Mean)
    queue_s: Mean = field(default_factory=Mean)
    finished: dict[str, int] = field(default_factory=_reasons)
    """By reason; `abort` is a client that left."""


def page(counters: Counters, model: str) -> str:
    """The metrics page, Prometheus text 0.0.4."""
    return "".join(f"{row}\n" for row in _rows(counters, f'engine="0",model_name="{model}"'))


def _rows(counters: Counters, labels: str) -> Iterator[str]:
    gauges = {
        "num_requests_running": counters.running,
        "num_requests_waiting": 0,
        "kv_cache_usage_perc": round(min(1.0, counters.held / _CACHE_TOKENS), 4),
    }
    totals = {
        "prompt_tokens_total": counters.prompt_tokens,
        "generation_tokens_total": counters.generation_tokens,
        "num_preemptions_total": 0,
    }
    means = {
        "time_to_first_token_seconds": counters.ttft_s,
        "inter_token_latency_seconds": counters.itl_s,
        "request_queue_time_seconds": counters.queue_s,
    }
    for name, value in gauges.items():
        yield f"# TYPE vllm:{name} gauge"
        yield f"vllm:{name}{{{labels}}} {value}"
    for name, value in totals.items():
        yield f"# TYPE vllm:{name.removesuffix('_total')} counter"
        yield f"vllm:{name}{{{labels}}} {value}"
    yield "# TYPE vllm:request_success counter"
    for reason, count in counters.finished.items():
        yield f'vllm:request_success_total{{finished_reason="{reason}",{labels}}} {count}'
    for name, mean in means.items():
        yield f"# TYPE vllm:{name} histogram"
        yield f'vllm:{name}_bucket{{le="+Inf",{labels}}} {mean.count}'
        yield f"vllm:{name}_sum{{{labels}}} {mean.sum:.6f}"
        yield f"vllm:{name}_count{{{labels}}} {mean.count}"
