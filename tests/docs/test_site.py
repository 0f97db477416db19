"""What `make docs` would stop at, found without building the site."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_every_page_stands_in_the_navigation_once():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = Counter(re.findall(r": ([\w-]+\.md)$", nav, re.MULTILINE))
    assert named == Counter(page.name for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_to_what_the_site_has(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).resolve().is_file()]
    outside = [
        link for link in links if "://" not in link and not (page.parent / link).resolve().is_relative_to(ROOT / "docs")
    ]
    assert (missing, outside) == ([], [])
