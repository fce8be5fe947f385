"""Links between the pages lead somewhere, and every page can be reached."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "_build" not in path.parts
)


def without_code(text):
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchors(text):
    """Of the headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def exists(path):
    """Whether there is a page; those of the gallery are made from its scripts."""
    if path.parent == ROOT / "docs" / "examples":
        script = ROOT / "docs" / "gallery" / f"{path.stem}.py"
        return path.stem == "index" or script.exists()
    return path.exists()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path, broken = ROOT / page, []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        known = exists(other) and (not anchor or anchor in anchors(other.read_text()))
        broken += [] if known else [target]
    assert broken == []


def test_every_page_is_in_the_navigation():
    reached, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        reached.add(page.relative_to(ROOT).as_posix())
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            for title, name in re.findall(r"^(.+) <(.+)>$", block, re.M):
                assert len(title.split()) <= 2, title
                child = (page.parent / f"{name}.md").resolve()
                todo += [child] if child.exists() else []
    assert {page for page in PAGES if page.startswith("docs/")} - reached == set()
