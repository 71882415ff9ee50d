"""A Kafka that a test owns: clusters for tests, with their contents, their failures and their time in the test's hands.

    def test_orders(kafka):                     # a fixture of the pytest plugin: a Kafka that is empty for each test
        service = Service(bootstrap_servers=kafka.bootstrap_servers)
        with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2):
            service.order("tea")
        assert [record.value for record in kafka.records("orders")] == [b"tea"]

The nodes are those of `minikafka server`, with real replication, elections and coordinators, in one process beside that
of the tests: each in a thread with an event loop of its own, with memory for a disk. Tests in Python, and in other
languages, ask that process by HTTP::

    test ── KafkaCluster ──HTTP──► control/ ──► host/nodes.py ── a thread for each node
              │  contents.py                       │                  │
              └──── Kafka's protocol ──────────────┼────────────► faults/ ─► handlers of the broker
                                                   └─ clock, resets, kills, pauses

A request passes `faults/faulty_handlers.py` before its handler. That is the only place where nodes for tests differ
from others: it notes the request, and does to it what the faults in force say. A reset replaces all nodes by empty ones
within some milliseconds, so that nothing can be left of the test before.

    kafka_cluster.py     `KafkaCluster`, what tests use
    contents.py          topics, records and groups, by clients of this library
    request.py           `Request`, what a client has sent
    fault_handle.py      `FaultHandle`, a fault that a test has made
    client_settings.py   settings for clients of other projects
    server_process.py    the process of the nodes, `minikafka testing serve`
    pytest_plugin.py     the fixtures `kafka` and `kafka_cluster`, and the marker `kafka`
    control/             the verbs over HTTP: server and client
    faults/              which requests fail, and how
    host/                the nodes, their disks and their clock

*Caveats*: data is in memory, once as written and once as flushed. A node has the listener PLAINTEXT only. The request
log of a node stays empty. Fetch sessions are off, so that each Fetch names its partitions. A time that was advanced
goes back at the next reset.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.testing.control.http_client import TestingError
    from minikafka.testing.fault_handle import FaultHandle
    from minikafka.testing.kafka_cluster import ClockHandle, KafkaCluster
    from minikafka.testing.request import Request

__all__ = ["ClockHandle", "FaultHandle", "KafkaCluster", "Request", "TestingError"]

_MODULES = {
    "ClockHandle": "kafka_cluster",
    "FaultHandle": "fault_handle",
    "KafkaCluster": "kafka_cluster",
    "Request": "request",
    "TestingError": "control.http_client",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: pytest imports this package for the plugin, at each of its starts."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
