"""The metrics page of an engine: the rows that a router reads."""

from __future__ import annotations

from mentatd.demo.counters import Counters, page


def test_the_rows() -> None:
    counters = Counters(running=2, held=4096, prompt_tokens=11, generation_tokens=7)
    counters.ttft_s.add(0.25)
    counters.ttft_s.add(0.5)
    counters.finished["stop"] += 3
    rows = dict(row.rsplit(" ", 1) for row in page(counters, "poet").splitlines() if not row.startswith("#"))
    labels = 'engine="0",model_name="poet"'
    assert rows[f"vllm:num_requests_running{{{labels}}}"] == "2"
    assert rows[f"vllm:num_requests_waiting{{{labels}}}"] == "0"
    assert rows[f"vllm:kv_cache_usage_perc{{{labels}}}"] == "0.25"
    assert rows[f"vllm:prompt_tokens_total{{{labels}}}"] == "11"
    assert rows[f"vllm:generation_tokens_total{{{labels}}}"] == "7"
    assert rows[f"vllm:num_preemptions_total{{{labels}}}"] == "0"
    assert rows[f'vllm:request_success_total{{finished_reason="stop",{labels}}}'] == "3"
    assert rows[f"vllm:time_to_first_token_seconds_sum{{{labels}}}"] == "0.750000"
    assert rows[f"vllm:time_to_first_token_seconds_count{{{labels}}}"] == "2"
    assert rows[f"vllm:inter_token_latency_seconds_count{{{labels}}}"] == "0"
    assert rows[f"vllm:request_queue_time_seconds_count{{{labels}}}"] == "0"


def test_every_family_has_its_type() -> None:
    text = page(Counters(), "poet")
    assert text.count("# TYPE ") == 10
    assert text.endswith("\n")
