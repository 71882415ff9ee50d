"""How a round of real processes is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.checks.anomaly import Kind
from chaos.history import Read, ReadAll
from chaos.round import Round
from chaos.script import Script
from minikafka.protocol.names import TopicPartition

COMPACTED = TopicPartition("compacted", 0)


class NoCluster:
    """Addresses, and no processes."""

    bootstrap = "127.0.0.1:1"
    node_ids = (1,)
    client_hosts = ()

    def address(self, node_id: int) -> str:
        return self.bootstrap


@pytest.mark.parametrize("replaced", [False, True])
def test_a_tombstone_must_stay_until_a_later_record_of_its_key(tmp_path: Path, replaced: bool) -> None:
    cluster: Any = NoCluster()
    round_ = Round(cluster, "planted", "seed", tmp_path, minutes=0)
    it = Script()
    it.send("a", 0, to=COMPACTED, tombstone=True)
    it.send("b", 1, to=COMPACTED, key="k" if replaced else "other")
    it.do("last", ReadAll(COMPACTED, 0, 2, 2, (Read(COMPACTED, 1, "k" if replaced else "other", "b"),)))
    round_.found.events = it.recorder.events
    round_._judge()
    assert [one.kind for one in round_.found.anomalies] == ([] if replaced else [Kind.LOST_WRITE])
