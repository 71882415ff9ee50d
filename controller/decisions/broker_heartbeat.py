"""BrokerHeartbeat: a broker is told whether it may serve, and whether it may go (KIP-631).

That it was heard of counts as soon as the request is there (`sessions.py`); here it is decided what it becomes::

    fenced ──wants to serve, knows of its registration──► alive ──wants to go, leads──► in controlled shutdown
       ▲ ▲                                                 │ │                                    │
       │ └──────────wants to be fenced─────────────────────┘ │ leads nothing     leads nothing, all others know
       └───────────────may go◄───────────────────────────────┴────────────────────────────────────┘

Source: `BrokerHeartbeatManager.calculateNextBrokerState`, `ReplicationControlManager.processBrokerHeartbeat`.
"""

from minikafka.controller.decisions.broker_fencing import at_most, leaving, returning
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, BrokerRecord, Record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

__all__ = ["decide", "is_stale", "leads"]


def decide(image: Image, request: BrokerHeartbeatRequest, context: Context) -> Decision[BrokerHeartbeatResponse]:
    """What the broker becomes; STALE_BROKER_EPOCH for an older registration of its, or none."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    reply = BrokerHeartbeatResponse(
        is_caught_up=context.sessions.is_caught_up(request.broker_id, request.current_metadata_offset),
        is_fenced=broker.fenced,
    )
    if broker.fenced:
        return _fenced(image, broker, request, context, reply)
    if request.want_fence:
        return _fence(image, broker, context, reply, goes=request.want_shut_down)
    if not request.want_shut_down:
        return Decision([], reply)
    return _shutting_down(image, broker, context, reply)


def is_stale(image: Image, broker_id: int, broker_epoch: int) -> bool:
    """Whether a request does not come from a broker's last registration."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.epoch != broker_epoch


def leads(image: Image, node_id: int) -> bool:
    """Whether a node leads any partition."""
    return any(state.leader == node_id for topic in image.topics.values() for state in topic.partitions)


Reply = Decision[BrokerHeartbeatResponse]


def _fenced(
    image: Image,
    broker: BrokerRecord,
    request: BrokerHeartbeatRequest,
    context: Context,
    reply: BrokerHeartbeatResponse,
) -> Reply:
    """It may go at once; it may serve once it knows of its own registration."""
    if request.want_shut_down:
        reply.should_shut_down = True
        return Decision([], reply)
    if request.want_fence or not reply.is_caught_up:
        return Decision([], reply)
    reply.is_fenced = False
    alive: list[Record] = [BrokerChange(broker.node_id, broker.epoch, fenced=False, in_controlled_shutdown=False)]
    records, _ = at_most(alive, returning(image, broker.node_id, context))
    return Decision(records, reply)


def _fence(
    image: Image, broker: BrokerRecord, context: Context, reply: BrokerHeartbeatResponse, *, goes: bool
) -> Reply:
    """Out of service; one that goes may come back as another process at once, its session does not matter."""
    reply.is_fenced, reply.should_shut_down = True, goes
    shutting_down = True if goes else None
    out: list[Record] = [BrokerChange(broker.node_id, broker.epoch, fenced=True, in_controlled_shutdown=shutting_down)]
    records, _ = at_most(out, leaving(image, broker.node_id, context))
    return Decision(records, reply)


def _shutting_down(image: Image, broker: BrokerRecord, context: Context, reply: BrokerHeartbeatResponse) -> Reply:
    """Leaders move first; it may go when it leads nothing and every other broker knows that."""
    node_id = broker.node_id
    if not broker.in_controlled_shutdown and not leads(image, node_id):
        return _fence(image, broker, context, reply, goes=True)
    moving: list[Record] = []
    if not broker.in_controlled_shutdown:
        moving.append(BrokerChange(node_id, broker.epoch, in_controlled_shutdown=True))
    records, _ = at_most(moving, leaving(image, node_id, context))
    if records:
        return Decision(records, reply)
    others = [other for other in image.live_brokers() if image.may_lead(other)]
    if not context.sessions.others_caught_up(node_id, others):
        return Decision([], reply)
    return _fence(image, broker, context, reply, goes=True)
