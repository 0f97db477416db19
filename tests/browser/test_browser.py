"""The page in a real browser: what a person sees, clicks and types."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.testing.scripted import ScriptedModel
from agentrewind.ui.server import Page
from agentrewind.ui.standalone import export_html
from tests.e2e.test_exec import here, until  # noqa: F401 (a fixture)
from tests.e2e.test_people import Gated, of_exec
from tests.long_runs import long_run

WIDTHS = (1280, 400)
PICTURES = os.environ.get("AGENTREWIND_PICTURES")
"""A directory for screenshots, to be looked at."""


@contextmanager
def opened(chromium, link, *, width=1280, dark=False):
    """A tab at the link; whatever its console says is an error of the page."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light")
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(link)
    tab.set_default_timeout(30_000)
    try:
        yield tab
        assert tab.evaluate("window.hacked") is None, "something of the run was executed"
    finally:
        context.close()
    assert said == []


def picture(tab, name):
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=f"{PICTURES}/{name}.png")


@pytest.fixture
def long(home, tmp_path):
    (tmp_path / "work").mkdir()
    run_id = long_run(Home.of(), tmp_path / "work", steps=1000, rewinds=40)
    with Page(Home.of()) as page:
        yield page.link(run_id), run_id


def test_two_thousand_nodes_and_forty_branches(chromium, long):
    link, _ = long
    with opened(chromium, link) as tab:
        tab.wait_for_selector("#tree .row")
        painted = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        drawn = tab.evaluate("performance.now()")
        print(f"first paint {painted:.0f} ms, the tree of 2,000 nodes after {drawn:.0f} ms")
        assert tab.locator(".count").inner_text() == "1,040 of 1,040"
        assert tab.locator("#tree .row").count() < 80, "only what is seen is drawn"
        tab.keyboard.press("End")
        assert "target_999" in tab.locator("#tree .row[aria-selected=true]").inner_text()
        tab.keyboard.press("Home")
        assert "target_0" in tab.locator("#tree .row[aria-selected=true]").inner_text()
        frames = tab.evaluate(SCROLLED)
        print(f"scrolling through all of it: {frames:.1f} ms a frame")
        picture(tab, "long")


SCROLLED = """async () => {
  const tree = document.getElementById("tree"), start = performance.now();
  let frames = 0;
  for (let at = 0; at < tree.scrollHeight; at += 400, frames += 1) {
    tree.scrollTop = at;
    await new Promise(requestAnimationFrame);
  }
  return (performance.now() - start) / frames;
}"""


def test_search_filters_and_keys(chromium, long):
    link, _ = long
    with opened(chromium, link) as tab:
        tab.wait_for_selector("#tree .row")
        tab.keyboard.press("/")
        tab.keyboard.type("target_77 ")
        assert tab.locator("#tree .row").first.inner_text().startswith("shell(make target_77")
        tab.locator("input[type=search]").fill("")
        tab.locator("select[aria-label=Filter]").select_option("rewinds")
        assert tab.locator(".count").inner_text() == "40 of 1,040"
        tab.locator("select[aria-label=Filter]").select_option("all")
        tab.keyboard.press("Escape")
        tab.keyboard.press("Home")
        tab.keyboard.press("]")
        assert "back to before" in tab.locator("#tree .row[aria-selected=true]").inner_text()
        tab.keyboard.press("?")
        tab.wait_for_selector("dialog[open]")
        tab.keyboard.press("Escape")
        tab.wait_for_selector("dialog[open]", state="detached")
        tab.keyboard.press("k")
        tab.keyboard.press("3")
        assert tab.locator("[role=tab][aria-selected=true]").inner_text() == "Memory"


def test_the_line_between_tree_and_pane_is_dragged_and_moved_by_keys(chromium, long):
    link, _ = long
    with opened(chromium, link) as tab:
        tab.wait_for_selector("#tree .row")
        width = lambda: tab.locator(".left").bounding_box()["width"]  # noqa: E731
        usual, selected = width(), tab.locator("#tree .row[aria-selected=true]").inner_text()
        at = tab.locator(".divider").bounding_box()
        tab.mouse.move(at["x"] + 3, 400)
        tab.mouse.down()
        tab.mouse.move(900, 400)
        tab.mouse.up()
        assert abs(width() - 900) < 20
        tab.keyboard.press("ArrowLeft")
        assert 10 < 900 - width() < 50
        assert tab.locator("#tree .row[aria-selected=true]").inner_text() == selected
        picture(tab, "wide-tree")
        tab.reload()
        tab.wait_for_selector("#tree .row")
        assert 10 < 900 - width() < 50, "it is remembered"
        tab.locator(".divider").focus()
        tab.keyboard.press("Home")
        assert abs(width() - usual) < 2


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_serious_for_people_who_see_or_point_otherwise(chromium, long, width, dark):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    link, _ = long
    with opened(chromium, link, width=width, dark=dark) as tab:
        tab.wait_for_selector("#tree .row")
        views = {
            "tree": lambda: None,
            "step": lambda: tab.keyboard.press("Enter"),
            "keys": lambda: tab.keyboard.press("?"),
        }
        for name, go in views.items():
            go()
            tab.wait_for_timeout(600)
            picture(tab, f"{name}-{width}-{'dark' if dark else 'light'}")
            found = [
                (item["id"], item["help"], [node["target"] for node in item["nodes"]][:3])
                for item in axe.run(tab).response["violations"]
                if item["impact"] in ("serious", "critical")
            ]
            assert found == [], name


def test_a_run_that_is_alive_is_rewound_from_the_page(chromium, here, monkeypatch):  # noqa: F811
    monkeypatch.setenv("AGENTREWIND_HOME", here.environ["AGENTREWIND_HOME"])
    gated = Gated(here)
    with ScriptedModel(gated) as model:
        running = of_exec(here, model, sys.executable, str(Path(__file__).parents[1] / "e2e/programs/httpx_loop.py"))
        gated.is_waiting()
        run_id = Home.of().find("last")
        with Page(Home.of()) as page, opened(chromium, page.link(run_id)) as tab:
            tab.wait_for_selector("#tree .row")
            assert tab.locator("h1 .pill").inner_text() == "running"
            tab.keyboard.press("Home")
            tab.keyboard.press("j")
            tab.keyboard.press("r")
            tab.wait_for_selector("dialog .plan")
            assert "wrong.txt" in tab.locator("dialog .plan").inner_text()
            assert (here.workspace / "wrong.txt").exists(), "a preview touches nothing"
            tab.locator("#note").fill("noted when you were brought back")
            tab.locator("dialog button[type=submit]").click()
            tab.wait_for_selector("text=Waiting for the agent")
            picture(tab, "waiting")
            gated.open()
            tab.wait_for_selector("text=The agent goes on from there")
            until(lambda: running.poll() is not None)
            tab.wait_for_selector("h1 .pill.done")
            tab.wait_for_selector("#tree .row.went-back")
            picture(tab, "rewound")
            assert not (here.workspace / "wrong.txt").exists()
            assert (here.workspace / "right.txt").exists()
            _undo_and_compare(tab, here.workspace)
            written = export_html(Run(Home.of(), run_id), here.base / "run.html")
        assert written.steps > 3
    with opened(chromium, (here.base / "run.html").as_uri()) as tab:
        tab.wait_for_selector("#tree .row.went-back")
        assert tab.locator("button", has_text="Rewind to here").count() == 0
        tab.keyboard.press("Home")
        tab.keyboard.press("2")
        tab.wait_for_selector(".pane .card")
        assert "one.txt" in tab.locator(".pane").inner_text()
        picture(tab, "offline")


def _undo_and_compare(tab, workspace):
    """From an ended run: a diff across branches, a rewind at once, and its undo."""
    tab.locator("#tree").focus()
    tab.keyboard.press("End")
    tab.keyboard.press("c")
    tab.wait_for_selector("text=Now select another step")
    tab.keyboard.press("[")
    tab.keyboard.press("k")
    tab.keyboard.press("2")
    tab.wait_for_selector("select[aria-label='What is compared'] option[value=pin][selected]", state="attached")
    assert "right.txt" in tab.locator(".pane").inner_text()
    picture(tab, "across")
    tab.keyboard.press("Home")
    tab.keyboard.press("r")
    tab.wait_for_selector("dialog .plan")
    tab.locator("#note").fill("Begin again.")
    tab.locator("dialog button[type=submit]").click()
    tab.wait_for_selector("dialog[open]", state="detached")
    assert not (workspace / "right.txt").exists()
    tab.locator("button", has_text="Undo the last rewind").click()
    tab.wait_for_selector("text=Taken back")
    assert (workspace / "right.txt").exists()


def test_the_command_prints_a_link_that_opens(chromium, home, tmp_path):
    (tmp_path / "work").mkdir()
    long_run(Home.of(), tmp_path / "work", steps=20, rewinds=1)
    program = Path(sys.executable).with_name("agentrewind")
    running = subprocess.Popen(
        [program, "view", "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        link = running.stdout.readline().strip()
        with opened(chromium, link) as tab:
            tab.locator("a.run").first.click()
            tab.wait_for_selector("#tree .row")
    finally:
        running.terminate()
        running.wait()
        running.stdout.close()
