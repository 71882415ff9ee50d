"""Kafka Streams on three nodes: word count, windowed join and table, while nodes and the application are killed.

With exactly_once_v2 the outputs are those that are computed in one go. With at_least_once they are not, by which the
test is seen to tell them apart. `MINIKAFKA_STREAMS=20` kills twenty times (`make streams`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support.clusters import heal
from support.java_programs import why_not_compiled
from support.streams.application import Application, Results, compile_in, create_topics, write
from support.streams.pipelines import Expected, Input, inputs

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer

ROUNDS = int(os.environ.get("MINIKAFKA_STREAMS", "2"))
SEED = int(os.environ.get("MINIKAFKA_STREAMS_SEED", "1"))
STEPS = 40
"""How many records of each input a round writes."""
PATIENCE_S = 120.0
READ_S = 0.2
COMMIT_MS = 200
NEVER_MS = 600_000

pytestmark = [
    pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(200 + 60 * ROUNDS),
    pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs the application."""
    return compile_in(tmp_path_factory.mktemp("classes"))


def until(results: Results, application: Application, reached: Callable[[], bool]) -> None:
    """Read results until there are enough of them. The application is started again if it ends."""
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        sizes = {topic: len(seen) for topic, seen in results.seen.items()}
        assert time.monotonic() < deadline, f"after {PATIENCE_S} s: {sizes} {application.log_tail()}"
        application.keep_running()
        results.read(READ_S)


def test_each_record_counts_once(three: LocalCluster, tmp_path: Path, name: str, command: list[str]) -> None:
    random = Random(SEED)
    given: list[Input] = []
    with Admin(three.bootstrap) as admin:
        create_topics(admin, name, replicas=3)
    with (
        Application(command, tmp_path, three.bootstrap, name, "exactly_once_v2", COMMIT_MS) as application,
        Producer(three.bootstrap, delivery_timeout_ms=int(PATIENCE_S * 1000)) as producer,
    ):
        results = Results(three.bootstrap, name)
        for number in range(ROUNDS):
            some = inputs(number * STEPS, STEPS, random)
            write(producer, name, some)
            given += some
            enough = results.count + STEPS // 4
            until(results, application, lambda enough=enough: results.count >= enough)
            if number % 2 == 0:
                application.kill()
                application.keep_running()
            else:
                node = random.choice(three.node_ids)
                three.kill(node)
                three.start(node)
        heal(three)
        expected = Expected(given)
        until(results, application, lambda: expected.is_reached(results.seen))
        results.read(1)
    assert expected.wrongs(results.seen) == []
    print(f"\n{len(given)} inputs, {results.count} outputs, {application.starts} starts of the application")


def test_at_least_once_is_not_exactly_once(
    three: LocalCluster, tmp_path: Path, name: str, command: list[str]
) -> None:
    given = inputs(0, STEPS, Random(SEED))
    expected = Expected(given)
    with Admin(three.bootstrap) as admin:
        create_topics(admin, name, replicas=3)
    with (
        Application(command, tmp_path, three.bootstrap, name, "at_least_once", NEVER_MS) as application,
        Producer(three.bootstrap) as producer,
    ):
        results = Results(three.bootstrap, name)
        write(producer, name, given)
        until(results, application, lambda: expected.is_reached(results.seen))
        application.kill()
        until(results, application, lambda: expected.is_exceeded(results.seen))
    wrongs = expected.wrongs(results.seen)
    assert any("counts of" in one for one in wrongs), wrongs
    assert any("too many" in one for one in wrongs), wrongs
