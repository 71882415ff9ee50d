"""Every code block of the documentation does what the page says, against a real node on ports of the test.

Pages about Spark are run in `tests/spark/test_pages.py`, in the JVM of Spark's other tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.forked_commands import ForkedCommands
from support.page_runner import BlockFailed, PageRunner
from support.pages import DOCS, ROOT, RUN, Block, blocks, pages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ELSEWHERE = {DOCS / "spark.md"}
PAGES = [page for page in pages() if page not in ELSEWHERE and any(one.language in RUN for one in blocks(page))]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the command `minikafka`."""
    with ForkedCommands(tmp_path_factory.mktemp("commands")) as commands:
        yield commands.bin


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_the_page_run(page: Path, programs: Path, tmp_path: Path) -> None:
    with PageRunner(tmp_path / "page", programs) as runner:
        runner.run(blocks(page))


BROKEN = {
    "a command that fails": ("bash", "minikafka topics describe no-such-topic", "", "exit code 1"),
    "an option that is gone": ("bash", "minikafka topics list --colour", "", "No such option"),
    "a name that is gone": ("python", "from minikafka import Produser", "", "ImportError"),
    "an exception": ("python", "from minikafka import Admin\nawait Admin().list_topics()", "", "Error"),
    "another output": ("bash", "echo one", "two", "the page says"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_block_that_is_broken_is_noticed(name: str, programs: Path, tmp_path: Path) -> None:
    language, text, output, expected = BROKEN[name]
    page = [Block(ROOT / "README.md", 1, language, "", text)]
    page += [Block(ROOT / "README.md", 2, "text", "Output", output)] if output else []
    with PageRunner(tmp_path / "page", programs) as runner, pytest.raises(BlockFailed, match=expected):
        runner.run(page)
