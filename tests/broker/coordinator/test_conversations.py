"""What Apache Kafka 4.3.1 answered in conversations about groups, asked of the coordinator in memory.

Those of this folder were recorded for it; those of `tests/conversations` are also played against a whole node.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.conversation import read
from support.coordinator_player import can_play, play_in_memory

HERE = Path(__file__).parent
EVERYWHERE = HERE.parents[1] / "conversations"
FILES = sorted([*HERE.glob("conversations/*.txt"), *EVERYWHERE.glob("*/*/*.txt")])
ABOUT_GROUPS = [path for path in FILES if "Group" in path.read_text() and can_play(read(path))]


@pytest.mark.parametrize("path", ABOUT_GROUPS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_coordinator_answers_as_kafka_did(path: Path) -> None:
    differences = play_in_memory(read(path))
    assert not differences, "\n".join(map(str, differences))


def test_enough_conversations_are_played() -> None:
    assert len(ABOUT_GROUPS) > 60
