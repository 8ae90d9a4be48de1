"""The page of a real router, with a real daemon and agent behind it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.support.cluster import Cluster
from tests.support.engine import running
from tests.support.streams import Stepped

PATH = "/v1/chat/completions"
BODY = b'{"model":"tiny","messages":[],"stream":true}'
REQUEST = f"POST {PATH} HTTP/1.1\r\nHost: router\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
POLICY = "require-trusted-types-for 'script'"


def test_a_models_life_is_seen_as_it_happens(browser: Browser, tmp_path: Path) -> None:
    with running("tiny") as engine, Cluster(tmp_path) as cluster, browser.new_context() as context:
        daemon = cluster.daemon()
        router = cluster.router(daemon)
        page = context.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        answer = page.goto(f"{router.base}/")
        assert answer is not None
        assert POLICY in answer.headers["content-security-policy"]
        expect(page.get_by_role("status")).to_have_text("No model yet")
        expect(page.get_by_text("1 daemon connected.")).to_be_visible()

        cluster.register(daemon, "glm", f"{engine.port}/v1")
        expect(page.get_by_role("status")).to_have_text("The one model is serving", timeout=15_000)
        page.locator("table.models").get_by_role("link", name="tiny").click()

        played = Stepped()
        engine.play(PATH, played)
        with router.connect() as client:
            client.sendall(REQUEST)
            row = page.get_by_role("region", name="In flight").locator("tbody tr")
            expect(row).to_contain_text("waiting for the first byte")
            played.step(2)
            expect(row).to_contain_text("streaming")
            played.finish()
            expect(row).to_have_count(0)
        ended = page.get_by_role("region", name="Finished lately").locator("tbody tr")
        expect(ended).to_contain_text("answered")

        engine.die()
        expect(page.get_by_text("Does not answer at its address.")).to_be_visible(timeout=15_000)
        page.get_by_role("link", name="All models").click()
        expect(page.get_by_role("list", name="Timeline")).to_contain_text(
            "glm does not answer at its address"
        )
        assert not faults
