"""Makes the metrics collectors of a node, and serves the metrics at the node's `metrics.listener`.

This module is only imported if `metrics.listener` is set, since `prometheus_client` takes a while to load.
`serve_metrics` is a trio task of the node.
"""

from collections.abc import Callable, Iterator, Mapping

import structlog
import trio

from minikafka.broker.connections.server import Guard
from minikafka.broker.metrics.authentication_metrics import authentication_metrics
from minikafka.broker.metrics.basic_login import BasicLogin
from minikafka.broker.metrics.client_metrics import client_metrics
from minikafka.broker.metrics.cluster_metrics import QuorumState, controller_metrics, quorum_metrics
from minikafka.broker.metrics.coordinator_metrics import group_metrics, transaction_metrics
from minikafka.broker.metrics.elections import ElectionCounter
from minikafka.broker.metrics.endpoints import Endpoints
from minikafka.broker.metrics.family import Collector, Family, gauge
from minikafka.broker.metrics.http_server import HttpServer
from minikafka.broker.metrics.process_metrics import failure_metrics, loop_metrics, process_metrics
from minikafka.broker.metrics.quota_metrics import quota_metrics
from minikafka.broker.metrics.refused_scrapes import RefusedScrapes
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
from minikafka.broker.security.authentication import ListenerAuthentication
from minikafka.broker.security.authentication_record import AuthenticationRecord
from minikafka.broker.security.node_guests import NodeGuests
from minikafka.broker.security.node_tls import NodeTls, has_tls
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.line_rate import LineRate
from minikafka.controller.quorum_controller import QuorumController

__all__ = ["broker_collectors", "node_collectors", "serve_metrics"]

log = structlog.get_logger("minikafka.metrics")


async def serve_metrics(
    config: NodeConfig,
    system: System,
    tls: NodeTls,
    collectors: list[Collector],
    why_not_ready: Callable[[], str],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the metrics of a node that has `metrics.listener`, until cancelled.

    Args:
        tls: Receives the certificates of the listener, if it has TLS.
        collectors, why_not_ready: See `Endpoints`.

    Raises:
        OSError: The address cannot be used.
        InvalidTlsSetting: A setting of TLS does not work.
    """
    listener, login = config.metrics_listener, config.metrics_login
    assert listener is not None, "the node serves metrics"
    if has_tls(listener):
        await system.disk.run(tls.load, (listener,))
    listening = tls.secured(listener.name, system.listen(listener))
    host, port = listening.address
    address = f"{f'[{host}]' if ':' in host else host}:{port}"
    log.info("metrics served", address=f"{listener.protocol.lower()}://{address}/metrics")
    task_status.started()
    refused = RefusedScrapes()
    endpoints = Endpoints(
        collectors,
        why_not_ready,
        None if login is None else BasicLogin(login.username, login.password),
        refused=refused,
        failure_delay_ms=config.number("connection.failed.authentication.delay.ms"),
    )
    await HttpServer(endpoints.respond, refused=refused).serve(listening)


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
        _logins(config, parts.controller, server.guards),
        *_quotas(parts),
        topic_metrics(partitions),
        group_metrics(coordinators.groups, partitions),
        transaction_metrics(coordinators.transactions.coordinator, services.now_ms),
        directory_metrics(lambda: parts.logs),
        client_metrics(services.telemetry, services.now_ms),
        *_controller_collectors(config, parts.controller),
        *_process(system),
        log_metrics(partitions),
    ]


def _logins(config: NodeConfig, controller: QuorumController, guards: Mapping[str, Guard]) -> Collector:
    """The collector of logins at all listeners; there are none at listeners without SASL.

    Args:
        guards: By client listener. At a controller listener, nodes and tools log in by the guard of nodes.
    """
    records = {listener.name: AuthenticationRecord(LineRate(lambda: 0)) for listener in config.listeners.all}
    for name, guard in guards.items():
        assert isinstance(guard, ListenerAuthentication)
        records[name] = guard.record
    guests = controller.security.guest
    if isinstance(guests, NodeGuests):
        records[guests.name] = guests.listener.record
    return authentication_metrics(records)


def _quotas(parts: BrokerParts) -> list[Collector]:
    quotas = parts.runtime_settings.quotas
    return [] if quotas is None else [quota_metrics(quotas.of_requests, lambda: trio.current_time() * 1000)]


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
    return [
        _state(why_not_ready),
        _logins(config, controller, {}),
        *_controller_collectors(config, controller),
        *_process(system),
    ]


def _process(system: System) -> list[Collector]:
    of_loop = [] if system.loop is None else [loop_metrics(system.loop.measured)]
    return [process_metrics(), failure_metrics(), *of_loop]


def _state(why_not_ready: Callable[[], str]) -> Collector:
    def collect() -> Iterator[Family | None]:
        yield gauge("minikafka_ready", "1 while the node serves clients, as /readyz says.", not why_not_ready())

    return collect
