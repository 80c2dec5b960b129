"""Attention pictures: the weights that are shown are the model's, and tokens are shown, never run."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest
from small_report import make_picture

from jobs.report import pages
from jobs.report.attention import (
    attention_page,
    entropies,
    entropy,
    entropy_facts,
    lines_svg,
    matrix_svg,
    picture,
    readable,
    sharpest,
    viewer_data,
)


@dataclass
class Maps:
    """As a translator gives them, but as nested lists."""

    source_tokens: list[str]
    target_tokens: list[str]
    encoder: Any
    decoder: Any
    cross: Any


MAPS = Maps(
    source_tokens=["▁The", "▁</script>", "▁sleep", "s", ".", "</s>"],
    target_tokens=["<s>", "▁Er"],
    encoder=[[[[1 / 6] * 6] * 6]],
    decoder=[[[[1.0, 0.0], [0.25, 0.75]]]],
    cross=[[[[0.5, 0.5, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1.0]]]],
)


def test_tokens_are_written_for_a_reader() -> None:
    tokens = ["<s>", "▁sing", "ing", ".", "▁", "<0x0A>", "</s>"]
    assert readable(tokens) == ["⟨start⟩", "sing", "·ing", ".", "␣", "<0x0A>", "⟨end⟩"]


def test_entropy_is_nothing_where_a_head_is_decided_and_most_where_it_is_not() -> None:
    assert entropy([[0, 1.0, 0], [1.0, 0, 0]]) == 0
    assert entropy([[0.25] * 4]) == pytest.approx(2)
    assert entropy([[1.0, 0], [0.5, 0.5]]) == pytest.approx(0.5)  # the mean over the queries


def test_entropy_of_every_head_becomes_a_fact() -> None:
    facts = entropy_facts([picture(MAPS)])
    decoder = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)) / 2
    assert facts["attention_entropy_encoder_1_1"] == pytest.approx(math.log2(6), abs=1e-4)
    assert facts["attention_entropy_decoder_1_1"] == pytest.approx(decoder, abs=1e-4)
    assert facts["attention_entropy_cross_1_1"] == pytest.approx(0.5)
    assert entropy_facts([]) == {}


def test_the_entropy_is_the_mean_over_the_sentences() -> None:
    one, other = make_picture(), make_picture(layers=2, heads=3)
    both = entropies([one, other])["encoder"][1][2]
    assert both == pytest.approx(entropy(one.weights["encoder"][1][2]))
    assert len(entropy_facts([one])) == 3 * 2 * 3


def test_what_the_page_is_given_are_the_weights() -> None:
    data = viewer_data([picture(MAPS)])
    packed = base64.b64decode(data["sentences"][0]["kinds"]["cross"]["layers"][0][0])
    assert [round(byte / 255, 1) for byte in packed] == [0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert data["sentences"][0]["text"] == "The </script> sleeps."


def test_rows_ask_and_columns_are_looked_at() -> None:
    shown = picture(MAPS)
    svg = matrix_svg(shown, "cross", 0, 0)
    tips = [unescape(tip) for tip in re.findall(r'data-tip="([^"]*)"', svg)]
    assert len(tips) == 2 * 6
    assert tips[0] == "Er → The: 50%"
    assert tips[-1] == "⟨end⟩ → ⟨end⟩: 100%"


def test_lines_are_as_strong_as_the_weights() -> None:
    svg = lines_svg(picture(MAPS), "cross", 0, [0])
    assert re.findall(r'stroke-opacity="([\d.]+)"', svg) == ["0.500", "0.500", "1.000"]
    single = lines_svg(picture(MAPS), "cross", 0, [0], query=1)
    assert re.findall(r'stroke-opacity="([\d.]+)"', single) == ["1.000"]


def test_the_first_head_shown_is_the_most_decided_of_the_upper_layers() -> None:
    shown = make_picture(layers=4, heads=3)
    layer, head = sharpest(shown, "cross")
    upper = [entropy(shown.weights["cross"][at][one]) for at in (2, 3) for one in range(3)]
    assert layer >= 2
    assert entropy(shown.weights["cross"][layer][head]) == min(upper)


def test_the_page_of_its_own_is_whole_and_escapes_tokens() -> None:
    page = attention_page([MAPS, MAPS], title="Attention of <b>me</b>")
    assert "<b>" not in page
    assert page.count("</script>") == 2  # the data and our script; the token that looks like one is neither
    text = re.search(r'id="attention-data">(.*?)</script>', page, re.S)
    assert text is not None
    assert json.loads(text[1])["sentences"][1]["source"][1] == "</script>"
    assert not re.search(r'(src|href)="?http', page)


def test_the_policy_names_the_very_script_of_the_page() -> None:
    page = attention_page([MAPS])
    script = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(script) == 1
    assert unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]) == pages.policy(script[0])


def test_a_signature_may_be_broken_after_its_bars_and_stays_text() -> None:
    assert pages.breakable("a|<b>|c") == "a|<wbr>&lt;b&gt;|<wbr>c"


def test_embedded_json_cannot_end_its_element_and_has_no_nan() -> None:
    text = str(pages.embedded_json({"a": "</script><!--", "b": [float("nan"), 1 / 3], "c": "\u2028&"}))
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": [None, 0.333333], "c": "\u2028&"}
