"""The pages of the documentation, and their code blocks.

A block is fenced. Its language says what becomes of it: `bash` and `python` are run; `text` is output, a form, or what
cannot be run in a test, such as an installation; the languages of data are parsed. A title says more:

    ```python title="produce.py"            a file, for later blocks to run
    ```bash title="Another terminal"        runs beside the blocks that follow, until the page ends
    ```text title="Output"                  what the block before prints; … stands for any text, or lines

Blocks in an HTML comment are run too: they prepare what the page takes for granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUN = ("bash", "python")
DATA = ("json", "properties", "yaml")
LANGUAGES = (*RUN, *DATA, "text")
BESIDE, OUTPUT = "Another terminal", "Output"

_FENCE = re.compile(r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the page, the line of its first line, and its text without the fences."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_file(self) -> bool:
        return "." in self.title


def pages() -> list[Path]:
    """All pages of the site, and README.md."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order. Raises ValueError for a fence that is not as above, or is never closed."""
    return list(_blocks(page, page.read_text().split("\n")))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    start, language, title = -1, "", ""
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start >= 0:
            yield Block(page, start + 2, language, title, "\n".join(lines[start + 1 : number]) + "\n")
            start = -1
        elif (found := _FENCE.match(line)) is not None and found["language"] in LANGUAGES:
            start, language, title = number, found["language"], found["title"] or ""
        else:
            raise ValueError(f"{page}:{number + 1}: {line}: one of {', '.join(LANGUAGES)}, and title=\"…\"")
    if start >= 0:
        raise ValueError(f"{page}:{start + 1}: a block that does not end")


def prose(page: Path) -> str:
    """The text of a page without its blocks and comments."""
    without = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", without, flags=re.DOTALL)


def slug(heading: str) -> str:
    """The anchor of a heading, as MkDocs and GitHub make it of ours."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
