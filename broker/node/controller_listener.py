"""`ControllerListener`: serves administration tools at the controller listener of a node.

The other controllers use the same port, with a protocol of their own: `controller/quorum/peers.py` binds the port, and
passes on the connections that use Kafka's protocol.
"""

import trio

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS, ControllerServices
from minikafka.broker.apis.services import NodeSetup
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.idle_connections import close_idle_connections
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.server import Server
from minikafka.broker.connections.transport import StreamTransport
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.direct_requests import DirectRequests
from minikafka.controller.quorum.peer_frames import PushedBackStream
from minikafka.controller.quorum.peer_network import peer_host
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.settings.effective_settings import EffectiveSettings

__all__ = ["ControllerListener"]


class ControllerListener:
    """The server of a controller listener.

    Args:
        config: The settings of the node.
        system: The clock, disk, network and randomness of the node.
        controller: The controller of the node.
    """

    def __init__(self, config: NodeConfig, system: System, controller: QuorumController) -> None:
        self._config = config
        self._system = system
        self._controller = controller

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        listeners = self._config.listeners.for_controllers
        if not listeners or not self._config.is_controller:
            task_status.started()
            return
        server, name = self._server(), listeners[0].name

        async def serve(stream: PushedBackStream) -> None:
            await server.serve_one(StreamTransport(stream, peer_host(stream.stream), "", 0), name)

        self._controller.serve_clients(serve)
        task_status.started()
        await close_idle_connections(server.connections, self._config.number("connections.max.idle.ms"))

    def _server(self) -> Server:
        config, system, controller, number = self._config, self._system, self._controller, self._config.number
        effective = EffectiveSettings(config.static, controller.image)
        setup = NodeSetup(config, effective, system.log_levels, routes_of(CONTROLLER_HANDLERS))
        direct = DirectRequests(controller, config.static, system.random)
        dispatcher = Dispatcher(
            ControllerServices(controller.image, controller, direct, setup),
            setup.routes,
            clock=trio.current_time,
            observer=RequestLog(system.log_levels, ROOT),
            large_messages=LargeMessages(system.disk.run),
        )
        return Server(
            dispatcher,
            size_bytes_max=number("socket.request.max.bytes"),
            connections_max=lambda: min(number("max.connections"), system.tools_max),
            connections_max_of=lambda host: number("max.connections.per.ip"),
            memory=RequestMemory(number("queued.max.request.bytes")),
        )
