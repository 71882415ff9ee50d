"""No record is lost or duplicated if the driver, Python workers, the stream's process or the broker is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.node import NodeProcess
from support.oracle import java
from support.spark_brokers import create, produce
from support.spark_driver import SOURCE, WORKERS, SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 3
BATCHES_MIN = 30
BATCHES_A_STAGE = 5
RECORDS_FIRST, RECORDS_A_STAGE, STAGES = 250, 150, 5
"""More than this number of batches takes in one stage."""
RECORDS = RECORDS_FIRST + STAGES * RECORDS_A_STAGE


class Keeper(SparkDriver):
    """The driver of `support.spark_keeper`."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        super().__init__(folder, "support.spark_keeper", bootstrap, topic)

    def batches(self) -> int:
        kept = self.folder / "kept"
        return len(list(kept.iterdir())) if kept.exists() else 0

    def rows(self) -> list[str]:
        return [line for path in (self.folder / "kept").iterdir() for line in path.read_text().splitlines()]

    def wait_for_batches(self, wanted: int) -> None:
        self.wait_for(lambda: self.batches() >= wanted, f"waiting for batch {wanted} of {self.batches()}")


def send(node: NodeProcess, first: int, last: int) -> None:
    messages = [{"value": b"%d" % number, "partition": number % PARTITIONS} for number in range(first, last)]
    produce(node.bootstrap, "restarts", messages, **{"enable.idempotence": True})


@pytest.mark.skipif(java() is None, reason="no Java")
def test_killed_processes_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    with NodeProcess(tmp_path / "data") as node:
        create(node.bootstrap, {"restarts": PARTITIONS})
        send(node, 0, RECORDS_FIRST)
        keeper = Keeper(node.bootstrap, "restarts", tmp_path)
        stages = iter(range(STAGES))

        def go_on() -> None:
            """Produces records, so that the query always has some to read."""
            wanted, first = keeper.batches() + BATCHES_A_STAGE, RECORDS_FIRST + next(stages) * RECORDS_A_STAGE
            send(node, first, first + RECORDS_A_STAGE)
            keeper.wait_for_batches(wanted)

        try:
            go_on()
            keeper.kill()
            keeper.start()
            go_on()
            keeper.wait_for(lambda: keeper.kill_processes(*WORKERS) > 0, "waiting for workers")
            go_on()
            node.kill()
            node.restart()
            go_on()
            keeper.wait_for(lambda: keeper.kill_processes(*SOURCE) > 0, "waiting for the stream's process")
            go_on()
            keeper.kill()
            keeper.start()
            keeper.wait_for(lambda: len(keeper.rows()) >= RECORDS, "waiting for the last records")
        finally:
            keeper.kill()
        rows = keeper.rows()
        assert keeper.batches() >= BATCHES_MIN
        assert [value for value, count in Counter(rows).items() if count > 1] == []
        assert sorted(int(one.split()[2]) for one in rows) == list(range(RECORDS))
