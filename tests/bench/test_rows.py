"""Raw rows come back as they were written; a line that is none is named."""

from __future__ import annotations

import pytest
from bench.rows import Facts, Listed, Row, programs, read, write_facts, write_row

FACTS = Facts("2026-11-30", {"kernel": "6"}, (Listed("nginx", "C", "1.22", {"W8": "reads none"}),))


def test_written_and_read() -> None:
    rows = [Row("nginx", "W1", 1, {"cpu_us": 21.5}), Row("nginx", "W1", 2, {}, "502")]
    lines = [write_facts(FACTS), *map(write_row, rows)]
    assert read(lines) == ((FACTS,), tuple(rows))


@pytest.mark.parametrize("line", ["", "{", "[]", '{"row":{}}', '{"run":{}}', '{"row":{"other":1}}'])
def test_a_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2: "):
        read([write_facts(FACTS), line])


def test_the_last_run_knows_a_program_best() -> None:
    later = Facts("2026-12-01", {}, (Listed("nginx", "C", "1.23"),))
    assert programs([FACTS, later])["nginx"].version == "1.23"
