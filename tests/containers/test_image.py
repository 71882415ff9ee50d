"""One node in a container serves clients on the host, with no option but the port, or with Kafka's variables."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import confluent_kafka as ck
import pytest
from support.containers import IMAGE, docker, logs, wait_healthy

from containers.client import RECORDS, read, write

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]
AS_SAFE_AS_POSSIBLE = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"]
HERE = {"bootstrap.servers": "localhost:9092"}
Run = Callable[..., str]


@pytest.fixture
def run(image: None) -> Iterator[Run]:
    """Runs a container in the background; all are removed at the end, with their volumes."""
    names: list[str] = []

    def started(*options: str) -> str:
        names.append(docker("run", "--detach", *options, IMAGE))
        return names[-1]

    yield started
    for name in names:
        docker("rm", "--force", "--volumes", name)


def test_a_producer_on_the_host_needs_no_option_but_the_port(run: Run) -> None:
    name = run("--publish", "9092:9092")
    wait_healthy(name)
    assert len(write(HERE, "events")) == RECORDS


def test_data_survive_a_restart_which_is_a_clean_shutdown_of_a_user_without_rights(run: Run) -> None:
    name = run("--publish", "9092:9092", *AS_SAFE_AS_POSSIBLE)
    wait_healthy(name)
    assert docker("exec", name, "id", "-u") == "1000"
    written = write(HERE, "events")
    docker("stop", "--time", "30", name)
    assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0", logs(name)
    docker("start", name)
    wait_healthy(name)
    assert read(HERE, "events") == written


def test_variables_of_kafkas_image(run: Run) -> None:
    """Settings of a file for Apache Kafka's image; the health check follows the listeners."""
    settings = {
        "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
        "KAFKA_NODE_ID": "7",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@localhost:29093",
        "KAFKA_LISTENERS": "CONTROLLER://localhost:29093,PLAINTEXT_HOST://0.0.0.0:9192,PLAINTEXT://0.0.0.0:19092",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:19092,PLAINTEXT_HOST://localhost:9192",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_NUM_PARTITIONS": "4",
    }
    options = [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
    wait_healthy(run("--publish", "9192:9192", *options))
    assert len(write({"bootstrap.servers": "localhost:9192"}, "events")) == RECORDS
    metadata = ck.Producer({"bootstrap.servers": "localhost:9192"}).list_topics("events", 30)
    assert metadata.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert [(one.id, one.host, one.port) for one in metadata.brokers.values()] == [(7, "localhost", 9192)]
    assert len(metadata.topics["events"].partitions) == 4


def test_an_invalid_variable_is_named(image: None) -> None:
    command = ["docker", "run", "--rm", "--env", "KAFKA_NUM_PARTITIONS=none", IMAGE]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "num.partitions=none (from the environment variable KAFKA_NUM_PARTITIONS): Not a number" in ran.stderr


def test_the_command_line_is_in_the_image(run: Run) -> None:
    name = run()
    wait_healthy(name)
    docker("exec", name, "minikafka", "topics", "create", "made-inside")
    assert "made-inside" in docker("exec", name, "minikafka", "topics", "list")
