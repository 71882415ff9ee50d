"""A cluster that began with an earlier metadata.version, and is raised: recorded from a directory of Kafka's that
`kafka-storage format --release-version 4.0-IV1` had formatted."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.conversation import read
from support.conversation_player import play
from support.node import NodeProcess

pytestmark = pytest.mark.timeout(300)
PATH = Path(__file__).parent / "earlier_level" / "from-4.0-IV1-to-4.3-IV0.txt"


@pytest.mark.slow
def test_what_a_cluster_of_an_earlier_level_takes(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", settings={"initial.metadata.version": "4.0-IV1"}) as node:
        found = play(read(PATH), node.address)
        assert not found, "\n".join(map(str, found)) + "\n" + node.log_tail(20)
