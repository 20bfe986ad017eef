"""Follow every internal link of the built pages: the file must exist, and so must the place in it.

python docs/check_links.py build/docs/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places a page offers and the links it makes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = {""}
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := given.get(key))}
        link = given.get("href") if tag in ("a", "link") else given.get("src")
        if link:
            self.links.append(link)


def dead_links(root: Path) -> list[str]:
    """'page: link' for every internal link that leads nowhere."""
    pages = {path: Page(path) for path in root.rglob("*.html") if "_static" not in path.parts}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.exists() and (target not in pages or unquote(parts.fragment) in pages[target].places)
            if not found:
                dead.append(f"{path.relative_to(root)}: {link}")
    return sorted(set(dead))


if __name__ == "__main__":
    found = dead_links(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "no dead internal link")
    sys.exit(1 if found else 0)
