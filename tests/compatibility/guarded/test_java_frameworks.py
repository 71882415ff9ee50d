"""Kafka Connect and Kafka Streams by each login and by certificates, with ACLs for what begins with the user's name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest
from support.guarded_nodes import GuardedNode
from support.java_logins import JAVA_WAYS, TOKEN_BY_HTTP, JavaLogins, java_logins
from support.java_programs import why_not_compiled
from support.kafka_connect import Worker
from support.oracle import KAFKA_ITSELF
from support.streams.application import Application, Results, compile_in, create_topics, write
from support.streams.pipelines import Expected, inputs

from minikafka.client import NewTopic
from minikafka.client.blocking import Admin, Producer

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or ""),
    pytest.mark.parametrize("node_kind", ["minikafka", pytest.param("kafka", marks=KAFKA_ITSELF)]),
]
PATIENCE_S = 120.0
STEPS = 20


@pytest.fixture
def logins(guarded: GuardedNode, tmp_path: Path) -> Iterator[JavaLogins]:
    with java_logins(guarded, tmp_path) as made:
        yield made


@pytest.fixture
def names(own_name: str) -> dict[str, str]:
    """A unique name for each way to log in."""
    return {way: f"{own_name}-{number}" for number, way in enumerate(JAVA_WAYS)}


def until(reached: Callable[[], bool], log_tail: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, log_tail()
        time.sleep(0.1)


def write_properties(file: Path, settings: Mapping[str, object]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def file_connectors(logins: JavaLogins, way: str, name: str, folder: Path) -> list[dict[str, object]]:
    """A source from a file into a topic, and a sink from there into another file; both log in by `way`."""
    login = {"bootstrap.servers": logins.address_of(way), **logins.of(way)}
    file = "org.apache.kafka.connect.file.FileStream"
    source = {"connector.class": f"{file}SourceConnector", "file": folder / f"{name}.given", "topic": name}
    sink = {
        "connector.class": f"{file}SinkConnector", "file": folder / f"{name}.taken", "topics": name,
        "consumer.override.group.id": name,
    }  # fmt: skip
    return [
        {"name": f"{kind}-{name}", **given, **{f"{client}.override.{key}": value for key, value in login.items()}}
        for kind, client, given in (("source", "producer", source), ("sink", "consumer", sink))
    ]


def test_files_pass_through_a_standalone_worker(
    guarded: GuardedNode, logins: JavaLogins, names: dict[str, str], tmp_path: Path
) -> None:
    """One worker, whose connectors log in by all ways."""
    with guarded.admin() as admin:
        admin.create_topics([NewTopic(name, partitions=1, replication_factor=1) for name in names.values()])
    connectors = []
    for way, name in names.items():
        (tmp_path / f"{name}.given").write_text(f"a\n{way}\n")
        connectors += file_connectors(logins, way, name, tmp_path)
    settings = {
        "bootstrap.servers": logins.address_of(TOKEN_BY_HTTP), "offset.storage.file.filename": tmp_path / "offsets",
        "connector.client.config.override.policy": "All", **logins.of(TOKEN_BY_HTTP),
    }  # fmt: skip

    def passed() -> list[str]:
        taken = {way: tmp_path / f"{name}.taken" for way, name in names.items()}
        return [way for way, file in taken.items() if file.exists() and file.read_text() == f"a\n{way}\n"]

    with Worker(tmp_path, settings, connectors, logins.jvm_options) as worker:
        until(lambda: passed() == list(JAVA_WAYS), lambda: f"{passed()} only\n{worker.log_tail()}")


def test_streams_count_exactly_once(
    guarded: GuardedNode, logins: JavaLogins, names: dict[str, str], tmp_path: Path
) -> None:
    """An application for each way to log in, in one JVM."""
    way_of_results = "SCRAM-SHA-512"
    address = guarded.address_of(way_of_results)
    options = {"bootstrap_servers": address, **guarded.options_of("minikafka", way_of_results)}
    given = inputs(0, STEPS, Random(1))
    files, results = [], {}
    with Admin(**options) as admin, Producer(**options) as producer:
        for way, name in names.items():
            place = {"application.id": name, "bootstrap.servers": logins.address_of(way), "replication.factor": 1}
            settings = {**logins.of(way), **place, "request.timeout.ms": 30_000}
            files.append(write_properties(tmp_path / f"{name}.properties", settings))
            create_topics(admin, name, replicas=1)
            write(producer, name, given)
            results[way] = Results(address, name, guarded.options_of("confluent-kafka", way_of_results))
    expected = Expected(given)

    def reached() -> list[str]:
        for result in results.values():
            result.read(0.05)
        return [way for way, result in results.items() if expected.is_reached(result.seen)]

    command = compile_in(tmp_path, "320m", logins.jvm_options)
    with Application(command, tmp_path, address, "", "exactly_once_v2", 200, files) as application:
        until(lambda: reached() == list(JAVA_WAYS), lambda: f"{reached()} only\n{application.log_tail()}")
    assert [way for way, result in results.items() if expected.wrongs(result.seen)] == []
