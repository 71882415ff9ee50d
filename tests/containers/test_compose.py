"""The cluster of docker-compose.yml serves clients on the host and inside, and loses nothing by `down` and `up`.

With docker-compose.secure.yml it does the same for those who log in.
"""

from __future__ import annotations

import json
from pathlib import Path

import confluent_kafka as ck
import pytest
from support.clients import eventually
from support.containers import IMAGE, OF_CLIENTS, ComposeCluster, docker
from support.logins import Login

from containers.client import RECORDS, read, write

INSIDE = "broker-1:9092,broker-2:9092,broker-3:9092"
ADMIN = f"{OF_CLIENTS}/admin.properties"
PROGRAM = Path(__file__).with_name("client.py")

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]
both = pytest.mark.parametrize("cluster", [False, True], ids=["open", "secured"], indirect=True)
secured = pytest.mark.parametrize("cluster", [True], ids=["secured"], indirect=True)


def inside(cluster: ComposeCluster, judge: Path, action: str, topic: str) -> list[str]:
    """What the client does in a container that is in the network for clients only."""
    mounts = ["--volume", f"{judge}:/judge:ro", "--volume", f"{PROGRAM}:/client.py:ro", "--env", "PYTHONPATH=/judge"]
    place = ["--network", cluster.network("clients"), "--entrypoint", "python3"]
    settings = json.dumps(cluster.login().at(INSIDE).confluent)
    printed = docker("run", "--rm", *mounts, *place, IMAGE, "/client.py", settings, action, topic)
    values: list[str] = json.loads(printed.splitlines()[-1])
    return values


@both
def test_clients_on_the_host_and_inside_read_what_the_others_write(cluster: ComposeCluster, judge: Path) -> None:
    login = cluster.login().confluent
    written = write(login, "from-the-host")
    assert len(written) == RECORDS
    assert inside(cluster, judge, "read", "from-the-host") == written
    written = inside(cluster, judge, "write", "from-inside")
    assert len(written) == RECORDS
    assert read(login, "from-inside") == written


@both
def test_records_are_on_three_brokers_which_have_two_networks(cluster: ComposeCluster) -> None:
    login = cluster.login().confluent
    write(login, "replicated")

    def in_sync() -> int:
        topic = ck.Producer(login).list_topics("replicated", 30).topics["replicated"]
        return len(topic.partitions[0].isrs)

    eventually(lambda: in_sync() == 3)
    assert docker("network", "inspect", "--format", "{{.Internal}}", cluster.network("cluster")) == "true"
    for node_id in cluster.node_ids:
        name = cluster.container(node_id)
        assert docker("exec", name, "id", "-u") == "1000"
        assert docker("inspect", "--format", "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}", name) == (
            "true [ALL]"
        )


@both
def test_any_broker_can_be_the_one_that_a_client_connects_to_first(cluster: ComposeCluster) -> None:
    login = cluster.login()
    written = write(login.confluent, "bootstrap")
    for node_id in cluster.node_ids:
        assert read(login.at(cluster.address(node_id)).confluent, "bootstrap") == written


@both
def test_a_broker_that_is_cut_off_from_the_others_is_fenced_and_comes_back(cluster: ComposeCluster) -> None:
    first = cluster.login().at(cluster.address(1)).confluent

    def live() -> int:
        return len(ck.Producer(first).list_topics(timeout=30).brokers)

    cluster.isolate(3)
    eventually(lambda: live() == 2, timeout_s=60)
    cluster.rejoin(3)
    eventually(lambda: live() == 3, timeout_s=60)
    cluster.check_running()


@both
def test_down_and_up_loses_nothing(cluster: ComposeCluster) -> None:
    login = cluster.login().confluent
    written = write(login, "kept")
    assert len(written) == RECORDS
    cluster.down(volumes=False)
    cluster.up()
    assert read(login, "kept") == written
    assert len(write(login, "kept")) == RECORDS


@secured
def test_who_does_not_log_in_gets_nothing(cluster: ComposeCluster) -> None:
    login = cluster.login()
    for strange in (Login.of(cluster.bootstrap), Login({**login.java, "security.protocol": "SSL"})):
        with pytest.raises(ck.KafkaException):
            ck.Producer({**strange.confluent, "log_level": 0}).list_topics(timeout=3)
    allowed = docker("exec", cluster.container(1), "minikafka", "acls", "list", "--command-config", ADMIN)
    assert allowed.count("User:alice") == len(("topic", "group", "transactional_id")) == allowed.count("User:")
    files = docker("exec", cluster.container(1), "ls", "-l", OF_CLIENTS).splitlines()[1:]
    assert {line.split()[0] for line in files} == {"-rw-r-----"}
