"""What did not change is not made again."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.page import scenes
from tests.page.conftest import Open, Opened

HARNESS = """async (script) => {
  const { memo, settle } = await import('/page/memo.js');
  let made = 0;
  const make = (key, given) => memo(`test ${key}`, given, () => ({ number: (made += 1) })).number;
  return script(make, settle);
}"""


@pytest.fixture
def bench(open_page: Open) -> Opened:
    return open_page(scenes.empty())


def run(bench: Opened, script: str) -> object:
    """The result of `script`, which may use what HARNESS gives; nothing else is drawn meanwhile."""
    return bench.page.evaluate(f"() => ({HARNESS})((make, settle) => {{ {script} }})")


def test_the_same_is_given_again_in_the_next_drawing_and_in_this_one(bench: Opened) -> None:
    script = """
      const first = [make('a', { n: 1 }), make('a', { n: 1 }), make('b', { n: 1 })];
      settle();
      return [...first, make('a', { n: 1 }), make('b', { n: 1 })];
    """
    assert run(bench, script) == [1, 1, 2, 1, 2]


def test_another_thing_is_made_anew(bench: Opened) -> None:
    script = """
      const first = make('a', { n: 1, list: [1, null] });
      settle();
      const second = make('a', { n: 1, list: [1, 0] });
      settle();
      return [first, second, make('a', { n: 1, list: [1, null] })];
    """
    assert run(bench, script) == [1, 2, 3]


def test_what_a_drawing_did_not_use_is_forgotten(bench: Opened) -> None:
    script = "const first = make('a', 1); settle(); settle(); return [first, make('a', 1)];"
    assert run(bench, script) == [1, 2]


COUNTED = """
  window.written = 0;
  const { toFixed } = Number.prototype;
  Number.prototype.toFixed = function (digits) { window.written += 1; return toFixed.call(this, digits); };
"""


def test_of_two_hundred_models_only_those_that_changed_are_drawn(open_page: Open) -> None:
    scene = scenes.many()
    opened = open_page(scene, init=COUNTED)
    page = opened.page
    expect(page.locator("svg.spark").first).to_be_visible()  # the history is there

    def written(in_flight: int, changed: int) -> int:
        """The figures that are written anew when that many of the models have another load."""
        stats = scene.stats(limit=200)
        stats["in_flight"] = in_flight
        for row in stats["models"][:changed]:
            row["generation_tokens"] = 1234
        page.evaluate("() => { window.written = 0; }")
        opened.router.push(("stats", stats), ("status", scene.status()))
        expect(page.locator("#top .facts div", has_text="In flight")).to_contain_text(str(in_flight))
        return int(page.evaluate("() => window.written"))

    all_of_them = written(701, 200)
    assert all_of_them > 400
    assert written(702, 200) < all_of_them / 10
    assert written(703, 5) > 0
    assert written(704, 5) < all_of_them / 10
