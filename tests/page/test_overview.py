"""The table of models, the header and the cluster below it."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.page import scenes
from tests.page.conftest import Open


def test_each_model_has_its_figures_and_what_is_not_known_is_a_dash(open_page: Open) -> None:
    opened = open_page(scenes.healthy())
    row = opened.row("deepseek-v4")
    carried = sum(request["model"] == "deepseek-v4" for request in opened.router.scene.requests)
    assert row["Proxied"] == str(carried)
    assert row["Running"] == str(min(8, carried))
    assert row["KV cache"].endswith(" %")
    assert re.fullmatch(r"\d\.\d\d M", row["Tokens in"])
    assert row["Per token"] == "29 ms"
    silent = opened.row("bge-m3")
    assert silent["Proxied"].isdigit()
    assert {silent[name] for name in ("Running", "Waiting", "KV cache", "Tokens in", "First token")} == {"–"}
    expect(opened.page.get_by_text("no figures from the engine")).to_be_visible()
    expect(opened.page.get_by_text("on its address 2 of 2")).to_be_visible()


def test_each_series_is_drawn_in_its_cell(open_page: Open) -> None:
    opened = open_page(scenes.healthy())
    row = opened.page.locator("table.models tbody tr").first
    expect(row.locator("svg.spark path.line")).to_have_count(5)
    assert row.locator("path.line").first.get_attribute("d").startswith("M")  # type: ignore[union-attr]


def test_the_figures_follow_the_stream(open_page: Open) -> None:
    scene = scenes.Scene([scenes.Model("tiny", load=0, running=0)])
    opened = open_page(scene)
    assert opened.row("tiny")["Proxied"] == "0"
    for _ in range(3):
        scene.begin(scene.models[0])
    opened.tell()
    expect(opened.page.locator("td[data-label=Proxied] .figure")).to_have_text("3")
    assert "/stats.json" not in opened.router.asked


def test_a_group_that_fails_keeps_its_row_with_the_reason_and_recovers(open_page: Open) -> None:
    scene = scenes.healthy()
    opened = open_page(scene)
    page, model = opened.page, scene.models[2]
    expect(page.get_by_role("status")).to_have_text("All 4 models serving")
    model.why_not = "endpoint probe failed: …"
    model.errors = dict.fromkeys(model.addresses, "connection refused")
    opened.tell()
    row = page.locator("table.models tr.off")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Answers at none of its 2 addresses")
    expect(row.locator(".verdicts li")).to_have_text([re.compile("refused 3.00 s")] * 2)
    expect(row.locator("td[data-label]")).to_have_count(0)
    expect(page.get_by_role("status")).to_have_text(
        "3 of 4 models serving; gemma answers at none of its 2 addresses"
    )
    model.why_not, model.errors = None, {}
    opened.tell()
    expect(row).to_have_count(0)
    expect(page.get_by_role("status")).to_have_text("All 4 models serving")


def test_models_come_and_go_and_the_others_stay_where_they_are(open_page: Open) -> None:
    scene = scenes.healthy()
    opened = open_page(scene)
    rows = opened.page.locator("table.models tbody tr")
    opened.page.evaluate("() => { window.kept = document.querySelectorAll('table.models tbody tr')[2]; }")
    removed = scene.models.pop(1)
    opened.tell()
    expect(rows).to_have_count(3)
    assert opened.page.evaluate("() => window.kept === document.querySelectorAll('table.models tbody tr')[1]")
    scene.models.insert(0, removed)
    opened.tell()
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("deepseek-v4")
    assert opened.page.evaluate("() => window.kept === document.querySelectorAll('table.models tbody tr')[2]")


def test_an_engine_that_took_requests_and_stopped_is_named_on_top(open_page: Open) -> None:
    opened = open_page(scenes.wedged())
    expect(opened.page.get_by_role("status")).to_have_text(
        "All 2 models serving; tiny holds requests while its engine reports nothing running"
    )
    expect(opened.page.get_by_text("3 requests without a first byte")).to_be_visible()


def test_two_hundred_models_can_be_filtered_and_the_filter_is_in_the_address(open_page: Open) -> None:
    opened = open_page(scenes.many())
    page, rows = opened.page, opened.page.locator("table.models tbody tr")
    expect(rows).to_have_count(200)
    page.get_by_role("searchbox").press_sequentially("del-01")
    expect(rows).to_have_count(10)
    assert page.url.endswith("/?find=del-01")
    opened.tell()
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.reload()
    expect(rows).to_have_count(10)
    expect(page.get_by_role("searchbox")).to_have_value("del-01")
    page.get_by_role("searchbox").fill("no such thing")
    expect(page.get_by_text("No model or group has this in its name.")).to_be_visible()


def test_an_empty_cluster_says_what_to_do_next(open_page: Open) -> None:
    opened = open_page(scenes.empty())
    page = opened.page
    expect(page.get_by_role("status")).to_have_text("No model yet")
    for command in ("mentatd-lite", "mentatd-register --group", "mentatd-demo"):
        expect(page.locator("pre", has_text=command)).to_be_visible()
    opened.router.scene.daemons["10.0.0.1:6380"] = scenes.daemon("box")
    opened.tell()
    expect(page.get_by_text("1 daemon connected.")).to_be_visible()
    expect(page.locator("pre", has_text="mentatd-lite")).to_have_count(0)
    opened.router.scene.models.append(scenes.Model("tiny"))
    opened.tell()
    expect(page.get_by_role("status")).to_have_text("The one model is serving")
    expect(page.get_by_role("link", name="tiny").first).to_be_visible()


def test_the_cluster_shows_daemons_groups_agents_and_what_changed(open_page: Open) -> None:
    page = open_page(scenes.troubled()).page
    daemons = page.get_by_role("table", name="Daemons")
    expect(daemons.get_by_role("row", name="192.168.1.14:6380")).to_contain_text("no answer within 3 s")
    expect(daemons.get_by_role("row", name="192.168.1.14:6380")).to_contain_text(
        re.compile(r"(4[89]|5\d) s ago")
    )
    gemma = page.get_by_role("table", name="Groups").get_by_role("row", name="gemma")
    expect(gemma).to_contain_text("gemma-0 on 10.0.0.1")
    expect(gemma).to_contain_text("192.168.1.13:8000/v1")
    expect(gemma).to_contain_text("2 of 2 addresses")
    newest = page.get_by_role("list", name="Timeline").get_by_role("listitem").first
    expect(newest).to_contain_text("192.168.1.14:6380 daemon lost")
    lately = page.get_by_role("list", name="Refused or failed lately")
    expect(lately).to_contain_text("the engine ended the exchange before an answer")
    expect(lately).to_contain_text("(unknown) model not found")


def test_the_age_of_a_daemons_view_goes_on_between_two_documents(open_page: Open) -> None:
    page = open_page(scenes.healthy()).page
    cell = page.get_by_role("table", name="Daemons").get_by_role("row", name="rack1-a").locator("td").last
    expect(cell).to_have_text(re.compile(r"^\d+ s ago$"))
    expect(cell).not_to_have_text(cell.inner_text())


def test_a_phone_shows_every_figure_without_scrolling_sideways(open_page: Open) -> None:
    page = open_page(scenes.troubled(), viewport={"width": 360, "height": 800}).page
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    cells = page.locator("table.models tbody tr").first.locator("td[data-label]")
    for cell in cells.all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
