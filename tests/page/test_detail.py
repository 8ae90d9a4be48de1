"""One model, opened."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from playwright.sync_api import expect
from tests.page import scenes
from tests.page.conftest import Open, Opened
from tests.page.scene import Model, Scene


def quiet(*models: Model) -> Scene:
    """A cluster in which nothing happens by itself."""
    return Scene(list(models) or [Model("tiny", running=1)], {"10.0.0.1:6380": scenes.daemon("a")})


def cells(opened: Opened, section: str = "In flight") -> list[list[str]]:
    rows = opened.page.get_by_role("region", name=section).locator("tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_a_click_opens_a_model_and_back_returns_to_where_it_was(open_page: Open) -> None:
    opened = open_page(scenes.healthy())
    page = opened.page
    page.locator("table.models").get_by_role("link", name="deepseek-v4").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("deepseek-v4")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    assert page.url.endswith("/?model=deepseek-v4")
    assert page.title() == "deepseek-v4 · mentatd-serve"
    page.go_back()
    expect(page.get_by_role("heading", name="Models")).to_be_visible()
    page.go_forward()
    expect(page.get_by_role("heading", level=1)).to_have_text("deepseek-v4")
    page.get_by_role("link", name="All models").click()
    expect(page.get_by_role("heading", name="Models")).to_be_visible()


def test_the_keyboard_alone_opens_a_model(open_page: Open) -> None:
    page = open_page(scenes.healthy()).page
    page.get_by_role("link", name="Skip to the models").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Qwen/Qwen3-Coder-480B-A35B-Instruct")


def test_a_request_appears_ticks_gets_its_first_byte_and_finishes(open_page: Open) -> None:
    scene = quiet()
    opened = open_page(scene, "/?model=tiny")
    page = opened.page
    expect(page.get_by_text("No request right now.")).to_be_visible()
    request = scene.begin(scene.models[0], prompt_bytes=2345, client="10.0.0.9")
    opened.tell()
    row = page.get_by_role("region", name="In flight").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("waiting for the first byte")
    expect(row).to_contain_text("10.0.0.9")
    expect(row).to_contain_text("2.35 kB")
    waited = row.locator("td").nth(3)
    first = waited.inner_text()
    expect(waited).to_have_text(re.compile(r"^\d\.\d s$"))
    expect(waited).not_to_have_text(first)
    scene.first_byte(request)
    request["out_bytes"] = 1200
    opened.tell()
    expect(row).to_contain_text("streaming")
    expect(waited).to_have_text("")
    expect(row.locator("td").nth(4)).to_have_text("1.00 s")
    expect(row.locator("td").nth(5)).to_have_text("1.20 kB")
    scene.end(request)
    opened.tell()
    expect(row).to_have_count(0)
    ended = page.get_by_role("region", name="Finished lately").locator("tbody tr")
    expect(ended).to_have_count(1)
    expect(ended).to_contain_text("answered")
    expect(ended).to_contain_text("200")


def test_a_request_that_its_engine_does_not_work_on_is_marked_as_what_it_is(open_page: Open) -> None:
    opened = open_page(scenes.wedged(), "/?model=tiny")
    page = opened.page
    expect(page.locator("tr.stuck")).to_have_count(3)
    expect(page.locator("tr.stuck").first).to_contain_text(
        "no first byte, while the engine reports nothing running"
    )
    expect(page.locator("tr.waiting")).to_have_count(1)  # it has not waited for long
    opened.router.scene.models[0].running = 4
    opened.tell()
    expect(page.locator("tr.stuck")).to_have_count(0)


def test_of_five_thousand_requests_the_oldest_two_hundred_are_shown(open_page: Open) -> None:
    opened = open_page(scenes.crowded(), "/?model=tiny")
    expect(opened.page.get_by_text("the oldest 200 of 5 000 requests")).to_be_visible()
    expect(opened.page.locator("table.rows").first.locator("tbody tr")).to_have_count(200)


def test_polled_rows_are_cut_to_two_hundred_too(open_page: Open) -> None:
    opened = open_page(scenes.crowded(), "/?model=tiny", streaming=False)
    expect(opened.page.locator("table.rows").first.locator("tbody tr")).to_have_count(200)


def test_why_a_request_failed_is_told(open_page: Open) -> None:
    scene = quiet()
    scene.end(scene.begin(scene.models[0]), 502, "failed", "http://10.0.0.1:8000/v1: connection reset")
    scene.end(scene.begin(scene.models[0]), 499, "client_left")
    opened = open_page(scene, "/?model=tiny")
    newest, oldest = cells(opened, "Finished lately")
    assert newest[3] == "client left"
    assert oldest[3] == "no answer\nhttp://10.0.0.1:8000/v1: connection reset"
    assert oldest[4] == "502"


def test_the_charts_say_their_figures_in_words_and_show_those_under_the_pointer(open_page: Open) -> None:
    opened = open_page(scenes.healthy(), "/?model=deepseek-v4")
    page = opened.page
    expect(page.locator(".plot")).to_have_count(4)
    plot = page.get_by_role("img", name="Tokens per second in the last five minutes")
    assert re.search(r"out: \d+, at most \d+", plot.get_attribute("aria-label") or "")
    legend = page.locator("figure", has_text="Tokens per second").locator(".legend b").first
    now = legend.inner_text()
    plot.hover(position={"x": 80, "y": 40})
    expect(legend).not_to_have_text(now)
    expect(page.locator("line.cursor")).to_have_count(4)
    page.mouse.move(0, 0)
    expect(page.locator("line.cursor")).to_have_count(0)


def test_time_that_nobody_looked_at_is_a_gap(open_page: Open) -> None:
    scene = scenes.lived(quiet(Model("tiny", load=3)), 60)
    for point in list(scene.points)[10:20]:
        point["models"][0]["kv"] = None
    opened = open_page(scene, "/?model=tiny")
    path = opened.page.locator("figure", has_text="KV cache").locator("path.line").get_attribute("d")
    assert path is not None
    assert path.count("M") == 2


def test_a_model_that_two_groups_serve_has_a_page_for_each(open_page: Open) -> None:
    scene = quiet(Model("tiny", "left", running=1), Model("tiny", "right", running=2))
    opened = open_page(scene)
    page = opened.page
    page.locator("table.models tbody tr").nth(1).get_by_role("link").click()
    assert page.url.endswith("/?model=tiny&group=right")
    expect(page.locator(".tiles")).to_contain_text("Running\n2", use_inner_text=True)
    page.get_by_role("link", name="left", exact=True).click()
    assert page.url.endswith("/?model=tiny&group=left")
    expect(page.locator(".tiles")).to_contain_text("Running\n1", use_inner_text=True)


def test_a_model_whose_group_fails_while_it_is_open_stays_open(open_page: Open) -> None:
    scene = scenes.healthy()
    opened = open_page(scene, "/?model=gemma-3-27b-it")
    page = opened.page
    scene.models[2].why_not = "no running actors"
    opened.tell()
    expect(page.get_by_text("Waits for a running actor.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("gemma")
    scene.models[2].why_not = None
    opened.tell()
    expect(page.get_by_role("heading", level=1)).to_have_text("gemma-3-27b-it")


def test_a_model_that_nothing_serves_is_told_of(open_page: Open) -> None:
    page = open_page(scenes.healthy(), "/?model=gpt-4o").page
    expect(page.get_by_role("heading", level=1)).to_have_text("gpt-4o")
    expect(page.get_by_text("Nothing serves this model")).to_be_visible()


@pytest.mark.parametrize("name", ["tiny", *scenes.HOSTILE])
def test_the_command_to_copy_names_the_model_whatever_it_is_called(open_page: Open, name: str) -> None:
    opened = open_page(scenes.empty())
    command = opened.js("words.js", "curl", "http://router:6381", name)
    program, *arguments = shlex.split(command.replace("\\\n", ""))
    assert program == "curl"
    assert arguments[1] == "http://router:6381/v1/chat/completions"
    assert json.loads(arguments[-1])["model"] == name
    assert "\u202e" not in command


@pytest.mark.parametrize("secure", [True, False])
def test_the_command_is_copied(open_page: Open, secure: bool) -> None:
    """A page that did not come by HTTPS has no `navigator.clipboard`."""
    init = "" if secure else "Object.defineProperty(navigator, 'clipboard', { get: () => undefined });"
    permissions = ["clipboard-read", "clipboard-write"]
    opened = open_page(quiet(), "/?model=tiny", init=init, permissions=permissions)
    opened.page.evaluate(
        "() => { addEventListener('copy', () => { window.pasted = getSelection().toString(); }); }"
    )
    opened.page.get_by_role("button", name="Copy").click()
    expect(opened.page.get_by_text("Copied.")).to_be_visible()
    pasted = opened.page.evaluate(
        "() => navigator.clipboard ? navigator.clipboard.readText() : window.pasted"
    )
    assert pasted.startswith(f"curl -N {opened.router.url}/v1/chat/completions")
