"""The pytest plugin: the fixtures `kafka` and `kafka_cluster`, and the marker `kafka`. Installed, it is found.

It imports nothing that takes time before a test uses a fixture.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from minikafka.testing.kafka_cluster import KafkaCluster

__all__ = ["kafka", "kafka_cluster", "pytest_configure"]

_ARGUMENTS = {"brokers": int, "settings": dict, "topics": dict}
"""The arguments of the marker, and their types."""
_CLUSTER = pytest.StashKey["dict[int, KafkaCluster]"]()
CLUSTER_BROKERS = 3


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(brokers=…, settings={…}, topics={name: partitions}): the Kafka of this test, module or session",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka of one node, a `KafkaCluster`. It is empty at the beginning of each test."""
    yield from _given(request, 1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A Kafka of three nodes, a `KafkaCluster`. It is empty at the beginning of each test."""
    yield from _given(request, CLUSTER_BROKERS)


def _given(request: pytest.FixtureRequest, brokers: int) -> Iterator[KafkaCluster]:
    marked = _marked(request)
    cluster = _cluster_of_session(request, brokers)
    if marked["brokers"] is not None or marked["settings"]:
        cluster.reset(brokers=marked["brokers"], settings=marked["settings"])
    for topic, partitions in (marked["topics"] or {}).items():
        cluster.create_topic(topic, partitions=partitions)
    yield cluster
    _ends(request, cluster)


def _ends(request: pytest.FixtureRequest, cluster: KafkaCluster) -> None:
    """Disconnect the clients that a test has left, and name them."""
    left = cluster.reset()
    if left:
        test = request.node.nodeid
        warnings.warn(KafkaClientsLeft(f"{test} has left clients that were connected: {'; '.join(left)}"), stacklevel=1)


class KafkaClientsLeft(pytest.PytestWarning):
    """A test has ended before its clients have disconnected. They are disconnected, and harm no other test."""


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the markers of a test; those of the test have precedence over those of its module."""
    found: dict[str, Any] = dict.fromkeys(_ARGUMENTS)
    for marker in request.node.iter_markers("kafka"):
        unknown = [name for name in marker.kwargs if name not in _ARGUMENTS]
        if unknown or marker.args:
            wrong = unknown[0] if unknown else marker.args[0]
            raise pytest.UsageError(f"the marker kafka takes {', '.join(_ARGUMENTS)} by name, not {wrong!r}")
        for name, value in marker.kwargs.items():
            if not isinstance(value, _ARGUMENTS[name]):
                wanted = _ARGUMENTS[name].__name__
                raise pytest.UsageError(f"{name} of the marker kafka must be of type {wanted}, not {value!r}")
            if found[name] is None:
                found[name] = value
    return found


def _cluster_of_session(request: pytest.FixtureRequest, brokers: int) -> KafkaCluster:
    """The cluster of this process of pytest, which is started by the first test that uses it."""
    from minikafka.testing.kafka_cluster import KafkaCluster

    clusters = request.config.stash.setdefault(_CLUSTER, {})
    if brokers not in clusters:
        clusters[brokers] = KafkaCluster(brokers).__enter__()
        request.config.add_cleanup(lambda: clusters.pop(brokers).__exit__(None, None, None))
    return clusters[brokers]
