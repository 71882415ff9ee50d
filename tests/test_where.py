"""The quiz of `docs/where.md`: every answer is a file of this repository."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"\| (?P<number>\d+) \| (?P<change>.+) \| `(?P<file>[^`]+)` \|")


def test_the_questions_are_numbered_and_every_answer_exists() -> None:
    rows = [found for line in (ROOT / "docs/where.md").read_text().splitlines() if (found := ROW.fullmatch(line))]
    assert [int(row["number"]) for row in rows] == list(range(1, 32))
    missing = [row["file"] for row in rows if not (ROOT / row["file"]).is_file()]
    assert missing == []
