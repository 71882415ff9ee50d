"""`--bootstrap-controller`: commands that ask controllers instead of brokers; `bootstrap_controllers` of Admin."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.clients import eventually
from support.command_line import Minikafka
from support.oracle import KAFKA_ITSELF, needs_oracle
from support.oracle_cluster import OracleCluster

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.client.options import InvalidOption
from minikafka.protocol.errors import MismatchedEndpointTypeError

BOTH = "Only one of --bootstrap-server or --bootstrap-controller can be specified"
"""As Kafka's kafka-configs says it."""
NODES = {"minikafka": 3, "kafka": 1}


@pytest.fixture(scope="module", params=["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    kind = OracleCluster if request.param == "kafka" else LocalCluster
    with kind(tmp_path_factory.mktemp("controllers") / "nodes", brokers=NODES[request.param]) as running:
        yield running


def controllers_of(cluster: LocalCluster) -> str:
    return ",".join(f"127.0.0.1:{cluster.nodes[one].controller_port}" for one in cluster.controller_ids)


@pytest.mark.slow
def test_commands_ask_the_controllers(cluster: LocalCluster, minikafka: Minikafka) -> None:
    """The active one answers, whichever of them is named first."""
    for at in (controllers_of(cluster), *controllers_of(cluster).split(",")):
        asked = ("--bootstrap-controller", at)
        quorum = json.loads(minikafka("quorum", "describe", "--json", *asked).out)
        assert quorum["leader"] in cluster.controller_ids
        features = json.loads(minikafka("features", "describe", "--json", *asked).out)["features"]
        assert "metadata.version" in {one["name"] for one in features}
        altered = minikafka("configs", "alter", "broker", "--default", "--set", "num.io.threads=9", *asked)
        assert altered.code == 0, altered.err
        eventually(lambda asked=asked: "9" in minikafka("configs", "describe", "broker", "--default", *asked).out)
        for node_id in map(str, cluster.controller_ids):
            altered = minikafka("configs", "alter", "broker", node_id, "--set", "background.threads=11", *asked)
            assert altered.code == 0, altered.err
            known = ("configs", "describe", "broker", node_id, "-b", cluster.address(int(node_id)))
            eventually(lambda known=known: "background.threads" in minikafka(*known).out)
        assert minikafka("features", "downgrade", "transaction.version=1", "--dry-run", *asked).code == 0
        refused = minikafka("acls", "list", *asked)
        assert (refused.code, "uthorizer" in refused.err) == (1, True)


@pytest.mark.slow
def test_an_admin_describes_the_controllers(cluster: LocalCluster) -> None:
    with Admin(bootstrap_controllers=controllers_of(cluster)) as admin:
        described = admin.describe_cluster()
        assert {one.node_id: one.port for one in described.brokers} == {
            one: cluster.nodes[one].controller_port for one in cluster.controller_ids
        }
        assert described.controller_id in cluster.controller_ids


@pytest.mark.slow
def test_a_broker_is_no_controller(cluster: LocalCluster, minikafka: Minikafka) -> None:
    with pytest.raises(MismatchedEndpointTypeError):
        Admin(bootstrap_controllers=cluster.bootstrap).__enter__()
    ran = minikafka("quorum", "describe", "--bootstrap-controller", cluster.bootstrap)
    assert ran.code == 1
    assert "endpoint" in ran.err


def test_either_brokers_or_controllers_are_asked(minikafka: Minikafka) -> None:
    for words in ("quorum describe", "acls list", "configs describe topic", "features describe"):
        both = minikafka(*words.split(), "--bootstrap-server", "a:1", "--bootstrap-controller", "b:1")
        assert (both.code, BOTH in both.err) == (2, True)
    with pytest.raises(InvalidOption, match="not both bootstrap_servers and bootstrap_controllers"):
        Admin("a:1", bootstrap_controllers="b:1")
