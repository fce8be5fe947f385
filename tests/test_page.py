"""Pages in one file: everything escaped, everything inside."""

import base64
import re

import pytest
from matplotlib.figure import Figure

from lemmax import page

HOSTILE = '<script>alert("x")</script> & more'


def test_text_is_escaped_wherever_it_goes():
    blocks = [
        page.paragraph(HOSTILE),
        page.heading(HOSTILE),
        page.badge(HOSTILE, "bad"),
        page.table([HOSTILE], [[HOSTILE]], caption=HOSTILE),
        page.section(HOSTILE, HOSTILE, name=HOSTILE),
        page.details(HOSTILE, page.card(HOSTILE)),
        page.link(HOSTILE, HOSTILE),
        page.picture(Figure(), HOSTILE, caption=HOSTILE),
    ]
    text = page.page(HOSTILE, *blocks)
    assert "<script" not in text
    assert 'alert("x")' not in text
    assert text.count("&lt;script&gt;") == 17


def test_blocks_nest_without_being_escaped_again():
    text = page.card(page.paragraph("a ", page.badge("b", "good")))
    assert text == '<div class="card"><p>a <span class="badge good">b</span></p></div>'


def test_a_page_fetches_nothing():
    figure = Figure(figsize=(4, 3))
    text = page.page("t", page.picture(figure, "p"))
    assert not re.search(r"https?://|//cdn|@import|<script|url\(", text)
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert len(sources) == 2
    assert all(source.startswith("data:") for source in sources)


def test_pictures_come_from_figures_and_from_files(tmp_path):
    figure = Figure(figsize=(4, 3))
    figure.savefig(tmp_path / "p.png", dpi=100)
    embedded = page.picture(tmp_path / "p.png", "words")
    encoded = re.search(r"base64,([^\"]*)", embedded).group(1)
    assert base64.b64decode(encoded) == (tmp_path / "p.png").read_bytes()
    assert 'width="400" height="300" style="min-width: 172px" alt="words"' in embedded
    made = page.picture(Figure(figsize=(8, 3)), "words")
    assert 'width="1200" height="450" style="min-width: 516px"' in made
    (tmp_path / "p.jpg").write_bytes(b"not a picture")
    with pytest.raises(ValueError, match="PNG"):
        page.picture(tmp_path / "p.jpg", "words")


def test_badges_say_it_in_words_and_know_their_tones():
    assert "corrected" in page.badge("corrected", "caution")
    with pytest.raises(ValueError, match="There is no tone 'pink'"):
        page.badge("x", "pink")
