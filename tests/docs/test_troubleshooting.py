"""The words that troubleshooting is looked up by are those that the programs say."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
SOURCE = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
GATES = (ROOT / "src/mentatd/cluster/admission.py").read_text()


def test_it_has_every_gates_words_in_the_order_of_the_gates() -> None:
    headings = re.findall(r"^### `([^`…]+)", PAGE, re.MULTILINE)
    judged = GATES[GATES.index("def why_not(") : GATES.index("def _announced(")]
    judged = judged.replace("return STALE", f'return "{"endpoint probe stale"}"')
    judged = judged.replace("return _failure(", 'return "endpoint probe failed: "(')
    words = re.findall(r'return f?"([^"{]+)', judged)
    assert [heading.strip() for heading in headings] == [word.strip() for word in words]


def test_the_explanation_has_the_same_words() -> None:
    table = (ROOT / "docs/how-it-works.md").read_text()
    for heading in re.findall(r"^### `([^`]+)`", PAGE, re.MULTILINE):
        assert f"| `{heading}`" in table


def test_its_codes_are_those_of_the_errors_page() -> None:
    errors = (ROOT / "docs/errors.md").read_text()
    for code in re.findall(r"(?:^\| \d{3}|,) `([a-z_]+)`", PAGE, re.MULTILINE):
        assert f"| `{code}` |" in errors, code


def test_its_log_lines_are_written_somewhere() -> None:
    names = set(re.findall(r"`((?:announce|register|setting|loop)_[a-z_]+)`", PAGE))
    assert len(names) > 5
    for name in names:
        assert f'"{name}"' in SOURCE, name
