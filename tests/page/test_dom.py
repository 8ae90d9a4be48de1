"""The renderer: the document becomes what is wanted, and what did not change is not touched."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.page import scenes
from tests.page.conftest import Open, Opened

HARNESS = """async (script) => {
  const { h, render } = await import('/page/dom.js');
  const root = document.createElement('div');
  document.body.append(root);
  const draw = (...tree) => render(root, tree);
  const list = (...keys) => draw(h('ul', null, keys.map((key) => h('li', { key }, `item ${key}`))));
  const html = () => root.innerHTML;
  return await script(h, draw, list, html, root);
}"""


@pytest.fixture
def bench(open_page: Open) -> Opened:
    return open_page(scenes.empty())


def run(bench: Opened, script: str) -> object:
    """The result of `script`, which may use what HARNESS gives."""
    return bench.page.evaluate(f"() => ({HARNESS})(async (h, draw, list, html, root) => {{ {script} }})")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("abc", "abc"),
        ("abc", "acb"),
        ("abc", "c"),
        ("", "ab"),
        ("ab", ""),
        ("abcd", "xbdy"),
        ("abc", "cab"),
        ("abcde", "edcba"),
    ],
)
def test_keyed_children_end_in_the_wanted_order_and_are_the_same_nodes(
    bench: Opened, before: str, after: str
) -> None:
    script = f"""
      list(...{list(before)});
      const nodes = new Map([...root.querySelectorAll('li')].map((node) => [node.textContent, node]));
      list(...{list(after)});
      const found = [...root.querySelectorAll('li')];
      return [found.map((node) => node.textContent.slice(-1)).join(''),
              found.every((node) => !nodes.has(node.textContent) || nodes.get(node.textContent) === node)];
    """
    assert run(bench, script) == [after, True]


def test_only_what_differs_is_touched(bench: Opened) -> None:
    script = """
      const tree = (n) => h('p', { class: 'a' }, 'same ', h('b', { title: `t${n}` }, String(n)), h('i', null, 'on'));
      draw(tree(1));
      const seen = [];
      const watch = new MutationObserver((records) => seen.push(...records.map((each) => each.type)));
      watch.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
      draw(tree(1));
      const none = watch.takeRecords().length;
      draw(tree(2));
      return [none, watch.takeRecords().map((each) => each.type), html()];
    """
    html = '<p class="a">same <b title="t2">2</b><i>on</i></p>'
    assert run(bench, script) == [0, ["attributes", "characterData"], html]


def test_attributes_and_listeners_come_and_go(bench: Opened) -> None:
    script = """
      let clicks = 0;
      draw(h('button', { onclick: () => { clicks += 1; }, hidden: true, 'aria-label': 'x' }, 'go'));
      root.firstChild.click();
      draw(h('button', { hidden: false, title: null }, 'go'));
      root.firstChild.click();
      return [clicks, html()];
    """
    assert run(bench, script) == [1, "<button>go</button>"]


def test_a_child_of_another_kind_takes_the_place(bench: Opened) -> None:
    script = "draw('text', h('b', null, 1)); draw(h('b', null, 2), null || 'text'); return html();"
    assert run(bench, script) == "<b>2</b>text"


def test_drawings_are_made_in_their_namespace(bench: Opened) -> None:
    script = """
      draw(h('svg', { viewBox: '0 0 1 1' }, h('g', null, h('path', { d: 'M0 0' }))), h('p', null, 'after'));
      return [root.querySelector('path').namespaceURI, root.querySelector('p').namespaceURI]
        .map((uri) => uri.slice(-4));
    """
    assert run(bench, script) == ["/svg", "html"]


def test_a_selection_survives_updates_around_it(open_page: Open) -> None:
    opened = open_page(scenes.healthy())
    page = opened.page
    expect(page.get_by_role("list", name="Timeline")).to_contain_text("admitted")
    page.evaluate(
        """() => {
          const link = document.querySelectorAll('table.models .name a bdi')[1];
          getSelection().setBaseAndExtent(link.firstChild, 2, link.firstChild, 8);
        }"""
    )
    before = page.locator("#top .facts").inner_text()
    opened.tell(4)
    expect(page.locator("#top .facts")).not_to_have_text(before)
    assert page.evaluate("() => getSelection().toString()") == "epseek"
