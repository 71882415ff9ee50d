"""The list of files in `ARCHITECTURE.md`, made from the first line of each module's docstring.

    PYTHONPATH=tests python -m support.file_list        writes it anew

Modules that exist once per API (`protocol/messages/fetch.py`, `broker/apis/fetch.py`) have one line together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGES = ("protocol", "storage", "controller", "client", "broker", "cli", "spark_connector")
FOLDERS = (*PACKAGES, "docker", "bench", "examples")
MESSAGES = ROOT / "protocol" / "messages"
BEGIN = "<!-- Written by `make pages` from the docstrings of the modules: change those. -->\n"
END = "<!-- End of the list of files. -->\n"


def main() -> None:
    before, _, after = parts(PAGE.read_text())
    PAGE.write_text(before + file_list() + after)


def list_in(page: str) -> str:
    """The list in the page, between its two comments."""
    return parts(page)[1]


def parts(page: str) -> tuple[str, str, str]:
    """The page up to the list, the list, and the rest."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin], page[begin:end], page[end:]


def file_list() -> str:
    """The list as it should be: a heading for each package, a line for each file."""
    lines = [line for top in FOLDERS for folder in folders(ROOT / top) for line in section(folder)]
    return "\n" + "\n".join(lines) + "\n"


def folders(top: Path) -> list[Path]:
    return sorted({path.parent for path in top.rglob("*.py")})


def section(folder: Path) -> Iterator[str]:
    tour = folder / "__init__.py"
    about = f": {summary(tour)}" if tour.exists() else ""
    yield f"**`{folder.relative_to(ROOT).as_posix()}/`**{about}\n"
    files = [path for path in sorted(folder.glob("*.py")) if path != tour]
    if any(is_api(path) for path in files):
        yield "- `<api>.py`: one module per API"
    yield from (f"- `{path.name}`: {summary(path)}" for path in files if not is_api(path))
    yield ""


def is_api(path: Path) -> bool:
    return path.parent == MESSAGES or (path.parent.name == "apis" and (MESSAGES / path.name).exists())


def summary(path: Path) -> str:
    """The first paragraph of the module's docstring, as one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    main()
