"""The code blocks of docs/spark.md, in the session of the other tests; `tests/docs/` runs those of the other pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.forked_commands import ForkedCommands
from support.page_runner import PageRunner
from support.pages import DOCS, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_blocks_of_the_page_run(spark: SparkSession, tmp_path: Path) -> None:
    with (
        ForkedCommands(tmp_path / "commands") as commands,
        PageRunner(tmp_path / "page", commands.bin, {"spark": spark}) as runner,
    ):
        runner.run(blocks(DOCS / "spark.md"))
