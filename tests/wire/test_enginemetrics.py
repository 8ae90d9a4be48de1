"""Engines' metrics pages: every engine's spelling, sums and means, aliases, and any page in any cuts."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.recorded import FIXTURES

from mentatd.wire.dialects import DIALECTS
from mentatd.wire.enginemetrics import (
    LINE_LIMIT,
    MODELS_LIMIT,
    NOTHING,
    SERIES_LIMIT,
    Figures,
    MetricsReader,
    assign,
)
from mentatd.wire.openai import ModelEntry

VLLM_PAGE = (FIXTURES / "vllm-0.32" / "metrics.txt").read_bytes()
LLAMACPP_PAGE = (FIXTURES / "llamacpp-2026.10" / "metrics.txt").read_bytes()


def read(page: bytes, *, cuts: int = 1 << 20) -> dict[str, Figures]:
    reader = MetricsReader()
    for at in range(0, len(page), cuts):
        reader.feed(page[at : at + cuts])
    return reader.end()


def one(*lines: str) -> Figures:
    """The figures of the one model of a page."""
    (figures,) = read("\n".join(lines).encode()).values()
    return figures


def test_a_real_vllm_page() -> None:
    assert read(VLLM_PAGE) == {
        "tiny": Figures(
            running=0,
            waiting=0,
            kv=0.0,
            prompt_tokens=72,
            generation_tokens=24,
            preemptions=0,
            ttft_s=0.1425185203552246 / 8,
            queue_s=0.00026489500032766955 / 8,
            itl_s=0.07965062800030864 / 16,
            finished={"stop": 0, "length": 8, "abort": 0, "error": 0, "repetition": 0},
        )
    }


def test_a_real_llamacpp_page() -> None:
    """It names no model, and has neither times in a queue nor reasons."""
    figures = Figures(running=0, waiting=0, prompt_tokens=40, generation_tokens=13)
    assert read(LLAMACPP_PAGE) == {"": replace(figures, itl_s=0.118879 / 13)}


def test_an_sglang_page() -> None:
    labels = 'engine_type="unified",model_name="m",tp_rank="0",pp_rank="0"'
    assert one(
        f"sglang:num_running_reqs{{{labels}}} 2.0",
        f"sglang:num_queue_reqs{{{labels}}} 1.0",
        f"sglang:token_usage{{{labels}}} 0.28",
        'sglang:prompt_tokens_total{model_name="m"} 8.128902e+06',
        'sglang:generation_tokens_total{model_name="m"} 7.557572e+06',
        f"sglang:num_retracted_requests_total{{{labels}}} 3.0",
        'sglang:time_to_first_token_seconds_sum{model_name="m"} 5.0',
        'sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 4.0',
        'sglang:time_to_first_token_seconds_count{model_name="m"} 10.0',
        'sglang:queue_time_seconds_sum{model_name="m"} 1.0',
        'sglang:queue_time_seconds_count{model_name="m"} 10.0',
        'sglang:inter_token_latency_seconds_sum{model_name="m"} 4.0',
        'sglang:inter_token_latency_seconds_count{model_name="m"} 100.0',
    ) == Figures(2, 1, 0.28, 8128902, 7557572, 3, 0.5, 0.1, 0.04, None)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("vllm:gpu_cache_usage_perc 0.5",), Figures(kv=0.5)),
        (("vllm:gpu_cache_usage_perc 0.5", "vllm:kv_cache_usage_perc 0.25"), Figures(kv=0.25)),
        (
            (
                "vllm:time_per_output_token_seconds_sum 4",
                "vllm:time_per_output_token_seconds_count 8",
            ),
            Figures(itl_s=0.5),
        ),
        (
            (
                "vllm:time_per_output_token_seconds_sum 4",
                "vllm:time_per_output_token_seconds_count 8",
                "vllm:inter_token_latency_seconds_sum 1",
                "vllm:inter_token_latency_seconds_count 8",
            ),
            Figures(itl_s=0.125),
        ),
        (("llamacpp:kv_cache_usage_ratio 0.75",), Figures(kv=0.75)),
        (
            (
                "sglang:time_per_output_token_seconds_sum 4",
                "sglang:time_per_output_token_seconds_count 8",
            ),
            Figures(itl_s=0.5),
        ),
    ],
)
def test_old_and_new_spellings(lines: tuple[str, ...], expected: Figures) -> None:
    assert one(*lines) == expected


def test_several_engines_are_added_up_and_their_shares_averaged() -> None:
    assert one(
        'vllm:num_requests_running{engine="0",model_name="m"} 2',
        'vllm:num_requests_running{engine="1",model_name="m"} 3',
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25',
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75',
        'vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1',
        'vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 5',
        'vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1',
        'vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 3',
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 4',
        'vllm:request_success_total{engine="1",finished_reason="stop",model_name="m"} 5',
        'vllm:request_success_total{engine="1",finished_reason="abort",model_name="m"} 1',
    ) == Figures(running=5, kv=0.5, ttft_s=1.5, finished={"stop": 9, "abort": 1})


def test_ranks_of_one_replica_tell_the_same_once() -> None:
    """SGLang with metrics for all schedulers; replicas and priorities are other things."""
    assert one(
        'sglang:num_running_reqs{dp_rank="0",tp_rank="0",pid="7"} 4',
        'sglang:num_running_reqs{dp_rank="0",tp_rank="1",pid="8"} 5',
        'sglang:num_running_reqs{dp_rank="1",tp_rank="2",pid="9"} 2',
        'sglang:num_queue_reqs{priority=""} 3',
        'sglang:num_queue_reqs{priority="1"} 1',
        'sglang:num_queue_reqs{priority="2"} 2',
    ) == Figures(running=7, waiting=3)


def test_several_models_on_one_engine() -> None:
    page = b'vllm:num_requests_running{model_name="a"} 1\nvllm:num_requests_running{model_name="b"} 2\n'
    assert read(page) == {"a": Figures(running=1), "b": Figures(running=2)}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e999"])
def test_what_is_no_number_is_not_known(value: str) -> None:
    assert (
        one(
            f"vllm:num_requests_running {value}",
            f'vllm:num_requests_waiting{{engine="0"}} {value}',
            'vllm:num_requests_waiting{engine="1"} 1',
            f"vllm:kv_cache_usage_perc {value}",
            f"vllm:time_to_first_token_seconds_sum {value}",
            "vllm:time_to_first_token_seconds_count 2",
        )
        == NOTHING
    )


def test_a_reason_whose_count_is_not_known() -> None:
    assert one(
        'vllm:request_success_total{finished_reason="stop"} NaN', "vllm:request_success_total 2"
    ) == Figures(finished={"stop": None, "": 2})


@pytest.mark.parametrize("count", ["0", "NaN", "-1"])
def test_a_mean_of_nothing_is_not_known(count: str) -> None:
    assert (
        one("vllm:time_to_first_token_seconds_sum 0", f"vllm:time_to_first_token_seconds_count {count}")
        == NOTHING
    )
    for half in "sum", "count":
        assert one(f"vllm:time_to_first_token_seconds_{half} 3") == NOTHING


def test_counts_are_whole_where_they_can_be() -> None:
    figures = one(
        "vllm:num_requests_running 2.0", "vllm:num_requests_waiting 1.5", "vllm:prompt_tokens_total 1e300"
    )
    assert (figures.running, figures.waiting, figures.prompt_tokens) == (2, 1.5, 1e300)
    assert repr(figures.running) == "2"


@pytest.mark.parametrize(
    ("label", "model"),
    [
        (r"a\\b\"c\nd", 'a\\b"c\nd'),
        ("ü/😀", "ü/😀"),
        ("a}b, {c=", "a}b, {c="),
        ("", ""),
    ],
)
def test_names_in_labels(label: str, model: str) -> None:
    page = f'vllm:num_requests_running{{engine="0", model_name="{label}" ,}} 1'
    assert read(page.encode()) == {model: Figures(running=1)}


def test_a_name_that_is_not_utf_8() -> None:
    assert read(b'vllm:num_requests_running{model_name="a\xff"} 1') == {"a\ufffd": Figures(running=1)}


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:num_requests_running 7 1796018375",
        b"vllm:num_requests_running\t7",
        b"vllm:num_requests_running 7\r",
        b"vllm:num_requests_running{} 7",
    ],
)
def test_forms_of_a_sample(line: bytes) -> None:
    assert read(line) == {"": Figures(running=7)}


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:num_requests_running",
        b"vllm:num_requests_running ",
        b"vllm:num_requests_running x",
        b"vllm:num_requests_running 1_0",
        b'vllm:num_requests_running{model_name="m} 7',
        b"vllm:num_requests_running{model_name=m} 7",
        b'vllm:num_requests_running{model_name="m" engine="0"} 7',
        b"vllm:num_requests_running{ 7",
        b"vllm:num_requests_running_more 7",
        b" vllm:num_requests_running 7",
        b"# TYPE vllm:num_requests_running gauge",
        b"vllm:num_requests_running " + b" " * LINE_LIMIT + b"7",
    ],
)
def test_what_is_no_sample_is_skipped(line: bytes) -> None:
    assert read(line + b"\nvllm:num_requests_waiting 1\n") == {"": Figures(waiting=1)}
    assert read(line) == {}


def test_a_line_without_an_end_is_given_up() -> None:
    """Whatever stands in it, it keeps no memory and is no sample."""
    reader = MetricsReader()
    for _ in range(4):
        reader.feed(b"x" * LINE_LIMIT)
    assert len(reader._rest) <= LINE_LIMIT
    reader.feed(b"vllm:num_requests_running 9\nvllm:num_requests_waiting 1\n")
    assert reader.end() == {"": Figures(waiting=1)}


def test_a_page_of_nothing_known() -> None:
    assert read(b"") == {}
    assert read(b"process_open_fds 34.0\n") == {}


def test_samples_and_models_are_bounded() -> None:
    many = "".join(f'vllm:num_requests_running{{engine="{n}"}} 1\n' for n in range(SERIES_LIMIT + 10))
    assert read(many.encode()) == {"": Figures(running=SERIES_LIMIT)}
    names = "".join(f'vllm:num_requests_running{{model_name="{n}"}} 1\n' for n in range(MODELS_LIMIT + 10))
    assert len(read(names.encode())) == MODELS_LIMIT


def test_a_repeated_sample_counts_once() -> None:
    assert one("vllm:num_requests_running 1", "vllm:num_requests_running 1") == Figures(running=1)


@given(st.integers(1, 400))
def test_any_cuts_make_the_same_page(cuts: int) -> None:
    page = VLLM_PAGE[20000:24000] + LLAMACPP_PAGE
    assert read(page, cuts=cuts) == read(page)


_FRAGMENTS = [name.encode() for dialect in DIALECTS for name in sorted(dialect.names())] + [
    *(b"{", b"}", b'model_name="', b'"', b",", b"=", b"\\", b"\n", b" ", b"1", b"NaN", b"\xff", b"#"),
]


@given(st.lists(st.sampled_from(_FRAGMENTS) | st.binary(max_size=4)), st.integers(1, 40))
def test_any_bytes_are_a_page(pieces: list[bytes], cuts: int) -> None:
    page = b"".join(pieces)
    figures = read(page, cuts=cuts)
    assert figures == read(page)
    for row in figures.values():
        values = [getattr(row, f.name) for f in fields(row) if f.name != "finished"]
        values += (row.finished or {}).values()
        assert all(value is None or abs(value) < float("inf") for value in values)


# -- whose figures a listed model has

ONE, TWO = Figures(running=1), Figures(running=2)


def entry(name: str, root: str | None = None) -> ModelEntry:
    rest = "" if root is None else f',"root":"{root}"'
    return ModelEntry(name, f'{{"id":"{name}"{rest}}}'.encode())


@pytest.mark.parametrize(
    ("page", "listed", "expected"),
    [
        ({"a": ONE, "b": TWO}, [entry("a"), entry("b")], {"a": ONE, "b": TWO}),
        ({"a": ONE}, [entry("a", "/m"), entry("alias", "/m")], {"a": ONE, "alias": ONE}),
        ({"a": ONE}, [entry("a"), entry("alias")], {"a": ONE, "alias": ONE}),
        (
            {"a": ONE, "b": TWO},
            [entry("a", "/1"), entry("b", "/2"), entry("alias", "/2")],
            {"a": ONE, "b": TWO, "alias": TWO},
        ),
        ({"a": ONE, "b": TWO}, [entry("a"), entry("b"), entry("c")], {"a": ONE, "b": TWO}),
        ({"a": ONE}, [entry("a", "/1"), entry("other", "/2")], {"a": ONE}),
        ({"served": ONE}, [entry("a", "/1"), entry("b", "/1")], {"a": ONE, "b": ONE}),
        ({"": ONE}, [entry("gemma"), entry("alias")], {"gemma": ONE, "alias": ONE}),
        ({}, [entry("a")], {}),
        ({"a": ONE}, [], {}),
    ],
)
def test_whose_figures_a_listed_model_has(
    page: dict[str, Figures], listed: list[ModelEntry], expected: dict[str, Figures]
) -> None:
    assert assign(page, listed) == expected


def test_a_root_that_is_no_text_is_none() -> None:
    listed = [ModelEntry("a", b'{"id":"a","root":7}'), ModelEntry("b", b'{"id":"b","root":null}')]
    assert assign({"x": ONE}, listed) == {"a": ONE, "b": ONE}
