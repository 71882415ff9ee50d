"""The cluster of docker-compose.yml serves clients on the host and inside, and loses nothing by `down` and `up`."""

from __future__ import annotations

import json
from pathlib import Path

import confluent_kafka as ck
import pytest
from support.clients import eventually
from support.containers import IMAGE, ComposeCluster, docker

from containers.client import RECORDS, read, write

INSIDE = "broker-1:9092,broker-2:9092,broker-3:9092"
PROGRAM = Path(__file__).with_name("client.py")

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]


def inside(cluster: ComposeCluster, judge: Path, action: str, topic: str) -> list[str]:
    """What the client does in a container that is in the network for clients only."""
    mounts = ["--volume", f"{judge}:/judge:ro", "--volume", f"{PROGRAM}:/client.py:ro", "--env", "PYTHONPATH=/judge"]
    place = ["--network", cluster.network("clients"), "--entrypoint", "python3"]
    printed = docker("run", "--rm", *mounts, *place, IMAGE, "/client.py", INSIDE, action, topic)
    values: list[str] = json.loads(printed.splitlines()[-1])
    return values


def test_clients_on_the_host_and_inside_read_what_the_others_write(cluster: ComposeCluster, judge: Path) -> None:
    written = write(cluster.bootstrap, "from-the-host")
    assert len(written) == RECORDS
    assert inside(cluster, judge, "read", "from-the-host") == written
    written = inside(cluster, judge, "write", "from-inside")
    assert len(written) == RECORDS
    assert read(cluster.bootstrap, "from-inside") == written


def test_records_are_on_three_brokers_which_have_two_networks(cluster: ComposeCluster) -> None:
    write(cluster.bootstrap, "replicated")

    def in_sync() -> int:
        topic = ck.Producer({"bootstrap.servers": cluster.bootstrap}).list_topics("replicated", 30).topics["replicated"]
        return len(topic.partitions[0].isrs)

    eventually(lambda: in_sync() == 3)
    assert docker("network", "inspect", "--format", "{{.Internal}}", cluster.network("cluster")) == "true"
    for node_id in cluster.node_ids:
        name = cluster.container(node_id)
        assert docker("exec", name, "id", "-u") == "1000"
        assert docker("inspect", "--format", "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}", name) == (
            "true [ALL]"
        )


def test_any_broker_can_be_the_one_that_a_client_connects_to_first(cluster: ComposeCluster) -> None:
    written = write(cluster.bootstrap, "bootstrap")
    for port in cluster.ports.values():
        assert read(f"localhost:{port}", "bootstrap") == written


def test_a_broker_that_is_cut_off_from_the_others_is_fenced_and_comes_back(cluster: ComposeCluster) -> None:
    def live() -> int:
        return len(ck.Producer({"bootstrap.servers": f"localhost:{cluster.ports[1]}"}).list_topics(timeout=30).brokers)

    cluster.isolate(3)
    eventually(lambda: live() == 2, timeout_s=60)
    cluster.rejoin(3)
    eventually(lambda: live() == 3, timeout_s=60)
    cluster.check_running()


def test_down_and_up_loses_nothing(cluster: ComposeCluster) -> None:
    written = write(cluster.bootstrap, "kept")
    assert len(written) == RECORDS
    cluster.down(volumes=False)
    cluster.up()
    assert read(cluster.bootstrap, "kept") == written
    assert len(write(cluster.bootstrap, "kept")) == RECORDS
