"""Makes the metrics collectors of a node, and serves the metrics at the node's `metrics.listener`.

This module is only imported if `metrics.listener` is set, since `prometheus_client` takes a while to load.
`serve_metrics` is a trio task of the node.
"""

from collections.abc import Callable, Iterator

import structlog
import trio

from minikafka.broker.metrics.client_metrics import client_metrics
from minikafka.broker.metrics.cluster_metrics import QuorumState, controller_metrics, quorum_metrics
from minikafka.broker.metrics.coordinator_metrics import group_metrics, transaction_metrics
from minikafka.broker.metrics.elections import ElectionCounter
from minikafka.broker.metrics.endpoints import Endpoints
from minikafka.broker.metrics.family import Collector, Family, gauge
from minikafka.broker.metrics.http_server import HttpServer
from minikafka.broker.metrics.process_metrics import failure_metrics, loop_metrics, process_metrics
from minikafka.broker.metrics.replica_metrics import (
    directory_metrics,
    fetcher_metrics,
    isr_metrics,
    log_metrics,
    replica_metrics,
)
from minikafka.broker.metrics.request_metrics import connection_metrics, request_metrics, topic_metrics
from minikafka.broker.node.broker_parts import BrokerParts
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum_controller import QuorumController

__all__ = ["broker_collectors", "node_collectors", "serve_metrics"]

log = structlog.get_logger("minikafka.metrics")


async def serve_metrics(
    config: NodeConfig,
    system: System,
    collectors: list[Collector],
    why_not_ready: Callable[[], str],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the metrics of a node that has `metrics.listener`, until cancelled.

    Raises:
        OSError: The address cannot be used.
    """
    assert config.metrics_listener is not None, "the node serves metrics"
    listening = system.listen(config.metrics_listener)
    host, port = listening.address
    log.info("metrics served", address=f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
    task_status.started()
    await HttpServer(Endpoints(collectors, why_not_ready).respond).serve(listening)


def broker_collectors(
    config: NodeConfig, system: System, parts: BrokerParts, why_not_ready: Callable[[], str]
) -> list[Collector]:
    """The collectors of a broker, which may also be a controller."""
    partitions, replicas, coordinators, server = parts.partitions, parts.replicas, parts.coordinators, parts.server
    services, times = parts.services, parts.times
    return [
        _state(why_not_ready),
        replica_metrics(partitions, lambda: parts.image, lambda: parts.long_polls.waiting),
        fetcher_metrics(replicas.fetchers.fetched),
        isr_metrics(replicas.isr_changes),
        connection_metrics(
            lambda: [one.info.listener for one in server.connections],
            lambda: server.accepted,
            lambda: len(services.fetching.sessions),
        ),
        *([] if times is None else [request_metrics(times, lambda key: services.setup.routes[key].name)]),
        topic_metrics(partitions),
        group_metrics(coordinators.groups, partitions),
        transaction_metrics(coordinators.transactions.coordinator, services.now_ms),
        directory_metrics(lambda: parts.logs),
        client_metrics(services.telemetry, services.now_ms),
        *_controller_collectors(config, parts.controller),
        *_process(system),
        log_metrics(partitions),
    ]


def _controller_collectors(config: NodeConfig, controller: QuorumController) -> list[Collector]:
    """The collectors of a node as a controller, or as an observer of the metadata log."""
    return [
        *(_of_controller(controller) if config.is_controller else []),
        quorum_metrics(
            lambda: QuorumState(
                controller.leader_id, controller.leader_epoch, controller.offset, controller.committed_offset
            )
        ),
    ]


def _of_controller(controller: QuorumController) -> list[Collector]:
    elections = ElectionCounter(controller.image, lambda: controller.is_active)
    controller.subscribe(elections.applied)
    return [controller_metrics(lambda: controller.image, lambda: controller.is_active), elections.collector()]


def node_collectors(
    config: NodeConfig, system: System, controller: QuorumController, why_not_ready: Callable[[], str]
) -> list[Collector]:
    """The collectors of a controller-only node."""
    return [_state(why_not_ready), *_controller_collectors(config, controller), *_process(system)]


def _process(system: System) -> list[Collector]:
    return [process_metrics(), failure_metrics(), *([loop_metrics(system.loop)] if system.loop is not None else [])]


def _state(why_not_ready: Callable[[], str]) -> Collector:
    def collect() -> Iterator[Family | None]:
        yield gauge("minikafka_ready", "1 while the node serves clients, as /readyz says.", not why_not_ready())

    return collect
