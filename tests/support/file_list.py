"""The list of files, `docs/files.md`, made from the first line of each module's docstring.

    PYTHONPATH=tests python -m support.file_list        writes it anew

Modules that exist once per API (`protocol/messages/fetch.py`, `broker/apis/fetch.py`) have one line together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "files.md"
PACKAGES = ("protocol", "storage", "controller", "client", "broker", "cli", "spark_connector", "testing")
FOLDERS = (*PACKAGES, "docker", "bench", "examples")
MESSAGES = ROOT / "protocol" / "messages"
HEAD = """\
# Every file

The files of the packages, and what each does. Each package's docstring is a tour and ends in *Caveats*. Its tests are
in `tests/`, in a folder of the same name; `tests/support/` has the programs that write this page, `docs/log-events.md`
and the page of the client's options.

<!-- Written by `make pages` from the docstrings of the modules: change those. -->

"""


def main() -> None:
    PAGE.write_text(file_list())


def file_list() -> str:
    """The page as it should be: a heading for each package, a line for each file."""
    lines = [line for top in FOLDERS for folder in folders(ROOT / top) for line in section(folder)]
    return HEAD + "\n".join(lines)


def folders(top: Path) -> list[Path]:
    return sorted({path.parent for path in top.rglob("*.py")})


def section(folder: Path) -> Iterator[str]:
    tour = folder / "__init__.py"
    yield f"## {folder.relative_to(ROOT).as_posix()}/\n"
    if tour.exists():
        yield f"{summary(tour)}\n"
    files = [path for path in sorted(folder.glob("*.py")) if path != tour]
    if any(is_api(path) for path in files):
        example = "" if folder == MESSAGES else "; `metadata.py` also creates the topics that are missing"
        yield f"- `<api>.py`: one module per API{example}"
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
