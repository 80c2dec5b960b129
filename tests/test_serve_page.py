"""The page in a real browser: type, see, point, switch layer, compare, phone size; no error in the console."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from local_models import LocalModels
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from small_model import learned_directory, random_directory, source_lines

from jobs.serve.http.app import build_app
from jobs.serve.settings import ServedModel, ServeSettings

pytestmark = pytest.mark.slow
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1280,1000",
]  # fmt: skip
FIRST = ServedModel(name="small", directory="unused")
PARSER = ServedModel(name="parser", directory="unused", target="trees")
SETTINGS = ServeSettings(models=(FIRST, replace(FIRST, name="other"), PARSER))
LINE = source_lines(1, seed=3, longest=5)[0]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    parser = random_directory(tmp_path_factory.mktemp("serve") / "parser", symbols=("(S", ")S", "(NP", ")NP", "XX"))
    models = LocalModels(learned_directory(tmp_path_factory.getbasetemp()), parser=parser)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(build_app(SETTINGS, models), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=20)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with its driver on this machine: the packages chromium and chromium-driver have them")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def wait(browser: Any, condition: Any) -> Any:
    return WebDriverWait(browser, 60).until(condition)


def show(browser: Any, address: str, text: str) -> None:
    """Open the page, type, and wait for the translation and its attention."""
    browser.get("about:blank")
    browser.get(address)
    box = wait(browser, lambda b: b.find_element(By.ID, "source"))
    wait(browser, lambda b: "s" in b.find_element(By.ID, "status").text)
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(text)
    wait(browser, lambda b: [e.get_attribute("value") for e in b.find_elements(By.ID, "source")] == [text])
    wait(browser, lambda b: f"{len(text)} characters" in b.find_element(By.ID, "count").text)
    wait(browser, lambda b: " in " in b.find_element(By.ID, "status").text)
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, ".column.asking .word"))


def words(browser: Any, side: str) -> list[str]:
    return [word.text for word in browser.find_elements(By.CSS_SELECTOR, f".column.{side} .word")]


def choose(browser: Any, label: str, value: str) -> None:
    Select(browser.find_element(By.XPATH, f"//label[starts-with(., '{label}')]/select")).select_by_value(value)


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_what_is_typed_is_translated_and_its_attention_shown(browser: Any, address: str) -> None:
    show(browser, address, LINE)
    target = browser.find_element(By.ID, "target").text
    wait(browser, lambda b: words(b, "asking") == [*target.split(), "⟨end⟩"])
    assert words(browser, "looked") == [*LINE.split(), "⟨end⟩"]
    before = browser.find_elements(By.CSS_SELECTOR, ".lines path")
    webdriver.ActionChains(browser).move_to_element(
        browser.find_element(By.CSS_SELECTOR, ".column.asking .word")
    ).perform()
    wait(browser, lambda b: "attends to" in b.find_element(By.CSS_SELECTOR, "#attention .note").text)
    assert 0 < len(browser.find_elements(By.CSS_SELECTOR, ".lines path")) < len(before)
    assert errors(browser) == []


def test_a_letter_that_no_subword_has_is_read_as_it_is_written(browser: Any, address: str) -> None:
    show(browser, address, "kaba lori\u20ac, mino")
    assert words(browser, "looked") == ["kaba", "lori\u20ac,", "mino", "⟨end⟩"]
    assert errors(browser) == []


def shaded(browser: Any, side: str) -> list[float]:
    """How strongly each word of the first sentence is shaded in one of the two texts."""
    words = browser.find_elements(By.CSS_SELECTOR, f"#{side} .word-of")
    return [
        float(browser.execute_script("return arguments[0].style.getPropertyValue('--share') || '0'", w)) for w in words
    ]


def test_a_word_pointed_at_in_either_text_shades_what_it_attends_to(browser: Any, address: str) -> None:
    show(browser, address, LINE)
    count = len(LINE.split())
    said = browser.find_elements(By.CSS_SELECTOR, "#target .word-of")
    webdriver.ActionChains(browser).move_to_element(said[1]).perform()
    wait(browser, lambda b: shaded(b, "target")[1] == 1)
    assert sum(share > 0 for share in shaded(browser, "target")) == 1
    assert max(shaded(browser, "echo")) > 0.3
    typed = browser.find_elements(By.CSS_SELECTOR, "#echo .word-of")
    assert len(typed) == count
    frame, box = typed[0].rect, browser.find_element(By.ID, "source")
    left = frame["x"] + frame["width"] / 2 - box.rect["x"] - box.rect["width"] / 2
    top = frame["y"] + frame["height"] / 2 - box.rect["y"] - box.rect["height"] / 2
    webdriver.ActionChains(browser).move_to_element_with_offset(box, left, top).perform()
    wait(browser, lambda b: shaded(b, "echo") == [1.0] + [0.0] * (count - 1))
    assert max(shaded(browser, "target")) > 0.3
    assert errors(browser) == []


def test_layers_heads_maps_and_tabs_by_keyboard(browser: Any, address: str) -> None:
    show(browser, address, LINE)
    choose(browser, "As", "map")
    mean = [cell.get_attribute("style") for cell in browser.find_elements(By.CSS_SELECTOR, ".map .cell")]
    choose(browser, "Layer", "1")
    choose(browser, "Head", "0")
    one = [cell.get_attribute("style") for cell in browser.find_elements(By.CSS_SELECTOR, ".map .cell")]
    assert len(one) == len(mean) > 0
    assert one != mean
    choose(browser, "Attention", "encoder")
    count = len(LINE.split()) + 1
    assert len(browser.find_elements(By.CSS_SELECTOR, ".map .cell")) == count * count
    browser.find_element(By.ID, "tab-attention").send_keys(Keys.ARROW_RIGHT)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".nbest tbody tr")) == 4
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    fates = {node.get_attribute("class") for node in browser.find_elements(By.CSS_SELECTOR, ".beam .node")}
    assert {fate.split()[1] for fate in fates} == {"kept", "ended", "dropped"}
    best = browser.find_elements(By.CSS_SELECTOR, ".beam .node.best text:first-of-type")
    target = browser.find_element(By.ID, "target").text
    assert "".join(text.text for text in best[:-1]) == target.replace(" ", "")
    assert errors(browser) == []


def test_a_parsers_tree_is_drawn(browser: Any, address: str) -> None:
    show(browser, f"{address}/#text=mino&model=parser", "kaba lori")
    assert browser.find_element(By.ID, "target").text.startswith("(")
    browser.find_element(By.ID, "tab-tree").click()
    leaves = [text.text for text in wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "#tree svg.tree text"))]
    assert [leaf for leaf in leaves if leaf in ("kaba", "lori")] == ["kaba", "lori"]
    Select(browser.find_element(By.ID, "model")).select_by_value("small")
    wait(browser, lambda b: not b.find_element(By.ID, "tab-tree").is_displayed())
    assert browser.find_element(By.ID, "attention").is_displayed()
    assert errors(browser) == []


def test_two_models_side_by_side_and_the_link_that_holds_them(browser: Any, address: str) -> None:
    show(browser, address, LINE)
    Select(browser.find_element(By.ID, "compare")).select_by_value("other")
    wait(browser, lambda b: "Both models say the same" in b.find_element(By.ID, "difference").text)
    link, target = browser.current_url, browser.find_element(By.ID, "target").text
    browser.get("about:blank")
    browser.get(link)
    wait(browser, lambda b: b.find_element(By.ID, "other").text == target)
    assert browser.find_element(By.ID, "source").get_attribute("value") == LINE
    assert errors(browser) == []


def test_a_phone_needs_no_sideways_scrolling(browser: Any, address: str) -> None:
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        show(browser, address, LINE)
        for tab in ("tab-attention", "tab-nbest", "tab-search"):
            browser.find_element(By.ID, tab).click()
            time.sleep(0.1)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        boxes = [browser.find_element(By.ID, name).rect for name in ("source", "target")]
        assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"] - 1, "one above the other"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert errors(browser) == []


def test_every_control_has_a_name(browser: Any, address: str) -> None:
    show(browser, address, LINE)
    script = """
        return [...document.querySelectorAll("button, select, textarea, input, a")]
          .filter((each) => each.offsetParent && !(each.textContent.trim() || each.ariaLabel || each.labels?.length
            || each.getAttribute("aria-labelledby"))).map((each) => each.outerHTML)"""
    assert browser.execute_script(script) == []
    browser.get(f"{address}/docs")
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, ".operation")) > 8)
    assert errors(browser) == []


def test_the_files_of_the_page_are_short() -> None:
    assets = Path(__file__).resolve().parents[1] / "jobs" / "serve" / "assets"
    assert all(len(file.read_text(encoding="utf-8").splitlines()) < 300 for file in assets.iterdir())
