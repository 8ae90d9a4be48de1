"""How engines spell their figures on `/metrics` (wire.md section 6): one table for each kind of engine.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean that an engine publishes as two counters."""

    total: str
    count: str


def _histogram(name: str) -> Mean:
    return Mean(f"{name}_sum", f"{name}_count")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of engine spells the figures. Of several spellings, the first that the page has counts."""

    counts: Mapping[str, tuple[str, ...]]
    """Field of `Figures` to the names of a counter or gauge whose samples add up."""
    kv: tuple[str, ...]
    """Names of a gauge whose samples are averaged."""
    means: Mapping[str, tuple[Mean, ...]]
    """Field of `Figures` to the spellings of a mean."""
    finished: str = ""
    """Name of the counter of finished requests, by `finished_reason`."""
    mirrored: frozenset[str] = frozenset()
    """Labels that tell copies of one fact apart: of samples that differ only in these, the largest counts."""
    parts: frozenset[str] = frozenset()
    """Labels that tell parts of a sum apart which the page also gives whole, with the label empty or absent."""

    def names(self) -> set[str]:
        """Every name that is wanted of a page."""
        plain = {
            name for names in (*self.counts.values(), self.kv, (self.finished,)) for name in names if name
        }
        means = [mean for means in self.means.values() for mean in means]
        return plain | {mean.total for mean in means} | {mean.count for mean in means}


VLLM = Dialect(
    counts={
        "running": ("vllm:num_requests_running",),
        "waiting": ("vllm:num_requests_waiting",),
        "prompt_tokens": ("vllm:prompt_tokens_total",),
        "generation_tokens": ("vllm:generation_tokens_total",),
        "preemptions": ("vllm:num_preemptions_total",),
    },
    kv=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    means={
        "ttft_s": (_histogram("vllm:time_to_first_token_seconds"),),
        "queue_s": (_histogram("vllm:request_queue_time_seconds"),),
        "itl_s": (
            _histogram("vllm:inter_token_latency_seconds"),
            _histogram("vllm:time_per_output_token_seconds"),
        ),
    },
    finished="vllm:request_success_total",
)

SGLANG = Dialect(
    counts={
        "running": ("sglang:num_running_reqs",),
        "waiting": ("sglang:num_queue_reqs",),
        "prompt_tokens": ("sglang:prompt_tokens_total",),
        "generation_tokens": ("sglang:generation_tokens_total",),
        "preemptions": ("sglang:num_retracted_requests_total",),
    },
    kv=("sglang:token_usage",),
    means={
        "ttft_s": (_histogram("sglang:time_to_first_token_seconds"),),
        "queue_s": (_histogram("sglang:queue_time_seconds"),),
        "itl_s": (
            _histogram("sglang:inter_token_latency_seconds"),
            _histogram("sglang:time_per_output_token_seconds"),
        ),
    },
    # with metrics for all schedulers, each rank of one replica tells the same; `dp_rank` tells replicas apart
    mirrored=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
    parts=frozenset({"priority"}),
)

LLAMACPP = Dialect(
    counts={
        "running": ("llamacpp:requests_processing",),
        "waiting": ("llamacpp:requests_deferred",),
        "prompt_tokens": ("llamacpp:prompt_tokens_total",),
        "generation_tokens": ("llamacpp:tokens_predicted_total",),
    },
    kv=("llamacpp:kv_cache_usage_ratio",),
    means={"itl_s": (Mean("llamacpp:tokens_predicted_seconds_total", "llamacpp:tokens_predicted_total"),)},
)

DIALECTS = (VLLM, SGLANG, LLAMACPP)
