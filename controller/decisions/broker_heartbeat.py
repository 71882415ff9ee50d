"""BrokerHeartbeat: decides whether a broker is unfenced, in controlled shutdown, or may shut down (KIP-631).

The session of the broker is renewed when the request arrives (`broker_sessions.py`). Its state::

    fenced ──unfence requested, caught up──► unfenced ──shutdown requested, leads──► in controlled shutdown
      ▲ ▲                                      │ │                                             │
      │ └───────────fence requested────────────┘ │ leads nothing         leads nothing, other brokers caught up
      └──────────────may shut down◄──────────────┴─────────────────────────────────────────────┘

A heartbeat that reports failed data directories (`directory_failures.py`), or a change of the cordoned directories
(KIP-1066), changes nothing else.

Source: `BrokerHeartbeatManager.calculateNextBrokerState`, `ReplicationControlManager.processBrokerHeartbeat`.
"""

from collections.abc import Generator, Set

from minikafka.controller.decisions.broker_fencing import elect_with_returned, limited, remove_from_isrs
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.decisions.directory_failures import directories_failed, lost_directories
from minikafka.controller.metadata.features import cordons_directories
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, BrokerRecord, Record
from minikafka.controller.metadata.steps import partitions_where
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.storage.steps import at_once

__all__ = ["decide", "deciding", "is_stale"]

Reply = Decision[BrokerHeartbeatResponse]
Deciding = Generator[None, None, Reply]


def decide(image: Image, request: BrokerHeartbeatRequest, context: Context) -> Reply:
    """Make the decision of `deciding`, without steps."""
    made = deciding(image, request, context)
    return made if isinstance(made, Decision) else at_once(made)


def deciding(image: Image, request: BrokerHeartbeatRequest, context: Context) -> Reply | Deciding:
    """Decide the broker's next state; STALE_BROKER_EPOCH for an older registration or none. Returns the decision itself
    if it needs no steps, since most heartbeats change nothing, and a generator otherwise."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision([], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    reply = BrokerHeartbeatResponse(
        is_caught_up=context.sessions.is_caught_up(request.broker_id, request.current_metadata_offset),
        is_fenced=broker.fenced,
    )
    lost = lost_directories(broker, request.offline_log_dirs)
    if lost:
        return _without(image, broker, lost, context, reply)  # the next heartbeat changes the state
    cordoned = request.cordoned_log_dirs if cordons_directories(image.features) else None
    if cordoned is not None and tuple(sorted(set(cordoned))) != broker.cordoned:
        changed = BrokerChange(broker.node_id, broker.epoch, cordoned=tuple(sorted(set(cordoned))))
        return Decision([changed], reply)
    if broker.fenced:
        return _fenced(image, broker, request, context, reply)
    if request.want_fence:
        return _fencing(image, broker, context, reply, shuts_down=request.want_shut_down)
    if not request.want_shut_down:
        return Decision([], reply)
    return _shutting_down(image, broker, context, reply)


def is_stale(image: Image, broker_id: int, broker_epoch: int) -> bool:
    """Whether the epoch is not that of the broker's current registration."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.epoch != broker_epoch


def _without(
    image: Image, broker: BrokerRecord, lost: Set[bytes], context: Context, reply: BrokerHeartbeatResponse
) -> Deciding:
    return Decision((yield from directories_failed(image, broker, lost, context)), reply)


def _fenced(
    image: Image,
    broker: BrokerRecord,
    request: BrokerHeartbeatRequest,
    context: Context,
    reply: BrokerHeartbeatResponse,
) -> Reply | Deciding:
    """Decide about a fenced broker: it may shut down at once, and is unfenced once it has applied its registration."""
    if request.want_shut_down:
        reply.should_shut_down = True
        return Decision([], reply)
    if request.want_fence or not reply.is_caught_up:
        return Decision([], reply)
    return _unfencing(image, broker, context, reply)


def _unfencing(image: Image, broker: BrokerRecord, context: Context, reply: BrokerHeartbeatResponse) -> Deciding:
    """Unfence the broker. Leaderless partitions that do not fit into the decision get their leader from the timer of
    `leader_balancing.electing_leaderless`."""
    reply.is_fenced = False
    unfenced: list[Record] = [BrokerChange(broker.node_id, broker.epoch, fenced=False, in_controlled_shutdown=False)]
    records, _ = yield from limited(unfenced, elect_with_returned(image, broker.node_id, context))
    return Decision(records, reply)


def _fencing(
    image: Image, broker: BrokerRecord, context: Context, reply: BrokerHeartbeatResponse, *, shuts_down: bool
) -> Deciding:
    """Fence the broker. A broker that shuts down may register again at once, before its session times out.

    A broker that is in more ISRs than one decision can change leaves as many of them; its next heartbeat goes on.
    """
    in_shutdown = True if shuts_down else None
    fenced: list[Record] = [BrokerChange(broker.node_id, broker.epoch, fenced=True, in_controlled_shutdown=in_shutdown)]
    records, more = yield from limited(fenced, remove_from_isrs(image, broker.node_id, context))
    if more:
        return Decision(records[1:], reply)
    reply.is_fenced, reply.should_shut_down = True, shuts_down
    return Decision(records, reply)


def _shutting_down(image: Image, broker: BrokerRecord, context: Context, reply: BrokerHeartbeatResponse) -> Deciding:
    """Move the broker's leaderships. It may shut down once it leads nothing and all other brokers have applied that.
    The other brokers may apply it between the steps, so their progress is read last."""
    node_id = broker.node_id
    if not broker.in_controlled_shutdown and not (yield from _leading(image, node_id)):
        return (yield from _fencing(image, broker, context, reply, shuts_down=True))
    moving: list[Record] = []
    if not broker.in_controlled_shutdown:
        moving.append(BrokerChange(node_id, broker.epoch, in_controlled_shutdown=True))
    records, _ = yield from limited(moving, remove_from_isrs(image, node_id, context))
    if records:
        return Decision(records, reply)
    others = [other for other in image.live_brokers() if image.may_lead(other)]
    if not context.sessions.others_caught_up(node_id, others):
        return Decision([], reply)
    return (yield from _fencing(image, broker, context, reply, shuts_down=True))


def _leading(image: Image, node_id: int) -> Generator[None, None, bool]:
    """Whether a node leads any partition."""
    for found in partitions_where(image.topics.values(), lambda state: state.leader == node_id):
        if found is not None:
            return True
        yield
    return False
