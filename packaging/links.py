#!/usr/bin/env python3
"""Whether the documentation hangs together as a site, before and after it is built.

    packaging/links.py            # the pages: each is in docs/SUMMARY.md once, none leads out of docs/
    packaging/links.py SITE       # the site that mdBook made: every link and anchor leads somewhere

A page that SUMMARY.md does not name is not in the site, and a link out of docs/ is dead there though
it works in the source. That links between the pages of the source lead somewhere is checked by
crates/cli/tests/tidy.rs, which needs no site.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

TREE = Path(__file__).resolve().parents[1]
DOCS = TREE / "docs"

#: What is shown where none of our files are, so that it may link to addresses alone.
ALONE = [TREE / "packaging/README.md"]

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)


def links(page: Path):
    """What a page of Markdown links to, code left out."""
    for link, picture in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        yield link or picture


def is_address(link: str) -> bool:
    return bool(urlsplit(link).scheme)


def check_pages() -> list[str]:
    """Faults of the pages as a source of the site."""
    faults = []
    summary = DOCS / "SUMMARY.md"
    listed = [(DOCS / unquote(link)).resolve() for link in links(summary)]
    if not listed or listed[0] != DOCS / "tutorial.md":
        faults.append(f"{summary}: the tutorial comes first")
    pages = sorted(page for page in DOCS.rglob("*.md") if page != summary)
    for page in pages:
        if (times := listed.count(page)) != 1:
            faults.append(f"{page}: {times} times in {summary.name}; once is right")
        for link in links(page):
            if is_address(link) or link.startswith("#"):
                continue
            leads_to = (page.parent / unquote(urlsplit(link).path)).resolve()
            if not leads_to.is_relative_to(DOCS) or leads_to == summary:
                faults.append(f"{page}: {link} leads out of the site")
    for page in sorted(set(listed) - set(pages)):
        faults.append(f"{summary}: {page} is no page")
    for page in ALONE:
        for link in links(page):
            if not is_address(link):
                faults.append(f"{page}: {link} is dead where this page is shown")
    return faults


class Page(HTMLParser):
    """The anchors of a page of the site, and what it links to."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def check_site(site: Path) -> list[str]:
    """Dead links and anchors of a built site."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    faults = [] if pages else [f"{site}: there are no pages"]
    for path, page in pages.items():
        # It is shown for addresses that are none, with links from the top of a server.
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                faults.append(f"{path}: {link}: no such file")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    faults.append(f"{path}: {link}: no such anchor")
    return faults


def main() -> int:
    if len(sys.argv) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    faults = check_site(Path(sys.argv[1])) if len(sys.argv) == 2 else check_pages()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
