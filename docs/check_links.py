"""Check the built site: every link inside it leads somewhere, and no page loads from elsewhere.

python docs/check_links.py docs/_build/html
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "source": "src", "iframe": "src", "link": "href"}


@dataclass
class Page(HTMLParser):
    """Anchors of a page, what it links to, and what it loads."""

    anchors: set[str] = field(default_factory=lambda: {"", "top"})
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attributes):
        """Note one element."""
        found = dict(attributes)
        self.anchors.update(found[name] for name in ("id", "name") if found.get(name))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        target = found.get(LOADED.get(tag, ""))
        if target and found.get("rel") not in ("canonical", "search", "next", "prev", "index"):
            self.loads.append(target)


def read(path):
    """One page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(root):
    """A line for every link that is broken and every file that is not of the site."""
    pages = {path.resolve(): read(path) for path in sorted(Path(root).rglob("*.html"))}
    if not pages:
        yield f"{root} has no pages: build them first, with make docs"
    for path, page in pages.items():
        shown = path.relative_to(Path(root).resolve())
        for target in page.loads:
            if urlsplit(target).netloc:
                yield f"{shown}: loads {target}, which is not part of the site"
        for target in (*page.links, *page.loads):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.is_file():
                yield f"{shown}: {target} is not there"
            elif file in pages and unquote(parts.fragment) not in pages[file].anchors:
                yield f"{shown}: {target} has no such place on its page"


def main():
    """Print what is wrong; the exit code says whether anything is."""
    found = list(problems(sys.argv[1]))
    sys.stderr.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
