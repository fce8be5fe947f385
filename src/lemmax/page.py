"""HTML pages in a single file: no scripts, nothing loaded from elsewhere, readable on a phone.

Every block is a `Markup`; plain strings are escaped.
"""

import base64
import html
import io
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

TONES = ("good", "caution", "bad", "plain")
# Pictures have 150 dots per inch, so 10-point letters are 21 dots high. If scaled down by more than
# this, to less than 9 dots, they are illegible.
_SMALLEST = 0.43

_STYLE = """
:root { color-scheme: light dark; --text: #1c2024; --paper: #ffffff; --faint: #5b6570;
  --line: #d5dae0; --shade: #f4f6f8; --good: #0b6b3a; --caution: #8a5300; --bad: #a3182b;
  --plain: #4a5560; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --paper: #16191d; --faint: #a2abb5;
  --line: #363c44; --shade: #1f2429; --good: #1d7f4c; --caution: #9a6410; --bad: #b83a4b;
  --plain: #59636e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 0 0 .75rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1.5rem; }
p { margin: .5rem 0; }
.faint, figcaption, caption { color: var(--faint); font-size: .9rem; }
figure { margin: 1rem 0; }
pre { background: var(--shade); border-radius: 6px; padding: .6rem .8rem; white-space: pre-wrap; }
.scroll { overflow-x: auto; }
img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .25rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem .3rem 0; text-align: left;
  vertical-align: top; }
.badge { display: inline-block; border-radius: 4px; padding: .05rem .5rem; color: #fff;
  font-size: .85rem; font-weight: 600; white-space: nowrap; }
.good { background: var(--good); } .caution { background: var(--caution); }
.bad { background: var(--bad); } .plain { background: var(--plain); }
.card { background: var(--shade); border-radius: 6px; padding: .6rem .8rem; margin: .6rem 0; }
.card p { margin: .3rem 0; }
details { margin: .75rem 0; } summary { cursor: pointer; color: var(--faint); }
a { color: inherit; }
tr:target { background: var(--shade); }
"""


class Markup(str):
    """HTML that needs no escaping."""

    __slots__ = ()


def markup(*items: Any) -> Markup:
    """Join blocks; anything that is not `Markup` is escaped.

    Examples
    --------
    >>> from lemmax import page
    >>> page.markup("1 < 2 ", page.badge("yes", "good"))
    '1 &lt; 2 <span class="badge good">yes</span>'
    """
    shown = (item if isinstance(item, Markup) else html.escape(str(item)) for item in items)
    return Markup("".join(shown))


def page(title: str, *blocks: Any) -> str:
    """A complete document: the title as a heading, then the blocks.

    Examples
    --------
    >>> from lemmax import page
    >>> "<h1>A &amp; B</h1>" in page.page("A & B", page.paragraph("text"))
    True
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # An empty icon keeps browsers from requesting one.
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{markup(*blocks)}\n</body>\n</html>\n"
    )


def section(title: str, *blocks: Any, name: str = "") -> Markup:
    """A section with a heading; ``name`` is its anchor."""
    anchor = f' id="{html.escape(name)}"' if name else ""
    return markup(
        Markup(f"<section{anchor}><h2>"), title, Markup("</h2>"), *blocks, _end("section")
    )


def heading(text: str) -> Markup:
    """A heading within a section."""
    return _element("h3", text)


def paragraph(*items: Any, faint: bool = False) -> Markup:
    """A paragraph; less prominent if ``faint``."""
    return _element("p", *items, kind="faint" if faint else "")


def code(text: str) -> Markup:
    """A code block; long lines are wrapped."""
    return _element("pre", _element("code", text))


def card(*blocks: Any) -> Markup:
    """A box around blocks."""
    return _element("div", *blocks, kind="card")


def details(summary: str, *blocks: Any) -> Markup:
    """Blocks that are collapsed until they are opened."""
    return _element("details", _element("summary", summary), *blocks)


def link(text: str, target: str) -> Markup:
    """A link; ``#name`` leads to an anchor of the page."""
    return markup(Markup(f'<a href="{html.escape(target)}">'), text, _end("a"))


def badge(text: str, tone: str = "plain") -> Markup:
    """A short text in a coloured box; ``tone`` is ``good``, ``caution``, ``bad`` or ``plain``."""
    if tone not in TONES:
        raise ValueError(f"There is no tone {tone!r}; use one of {', '.join(TONES)}.")
    return _element("span", text, kind=f"badge {tone}")


def table(
    header: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    caption: str = "",
    names: Sequence[str] | None = None,
) -> Markup:
    """A table, which scrolls horizontally on narrow screens.

    Parameters
    ----------
    header : sequence
    rows : iterable of sequences
    caption : str
    names : sequence of str, optional
        Anchors of the rows; empty strings for none.
    """
    rows = list(rows)
    head = _element("tr", *(_element("th", cell) for cell in header))
    body = (
        _element("tr", *(_element("td", cell) for cell in row), name=name)
        for row, name in zip(rows, names or [""] * len(rows), strict=True)
    )
    title = _element("caption", caption) if caption else Markup("")
    return _element(
        "div",
        _element("table", title, _element("thead", head), _element("tbody", *body)),
        kind="scroll",
    )


def picture(source: Any, description: str, caption: str = "") -> Markup:
    """An embedded picture.

    Parameters
    ----------
    source : path or matplotlib Figure
        A PNG file, or a figure to be saved as one.
    description : str
        Alternative text.
    caption : str
        Caption below the picture.
    """
    if isinstance(source, (str, pathlib.Path)):
        data = pathlib.Path(source).read_bytes()
    else:
        buffer = io.BytesIO()
        source.savefig(buffer, format="png", dpi=150)
        data = buffer.getvalue()
    width, height = _png_size(data)
    # On a phone the letters would be illegible, so the picture scrolls instead.
    least = _SMALLEST * width
    encoded = base64.b64encode(data).decode("ascii")
    image = Markup(
        f'<img width="{width}" height="{height}" style="min-width: {least:.0f}px" '
        f'alt="{html.escape(description)}" src="data:image/png;base64,{encoded}">'
    )
    below = _element("figcaption", caption) if caption else Markup("")
    return _element("figure", _element("div", image, kind="scroll"), below)


def _png_size(data: bytes) -> tuple[int, int]:
    """Width and height, from the header of a PNG file."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ValueError("Pictures on a page must be PNG files.")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _element(tag: str, *items: Any, kind: str = "", name: str = "") -> Markup:
    classed = f' class="{kind}"' if kind else ""
    anchor = f' id="{html.escape(name)}"' if name else ""
    return markup(Markup(f"<{tag}{anchor}{classed}>"), *items, _end(tag))


def _end(tag: str) -> Markup:
    return Markup(f"</{tag}>")
