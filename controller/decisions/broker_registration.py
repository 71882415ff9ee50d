"""BrokerRegistration: a broker comes up and gets its broker epoch (KIP-631).

It begins fenced and in sync for nothing; the heartbeats that follow let it in. Every process has an incarnation id of
its own: a second process with the id of a living broker is refused, the same one may ask again. A broker that comes up
after a crash may have lost what it had not synced, so it is not eligible to lead any more (KIP-966, TRAPS 17). That it
did not crash it shows by the broker epoch that it had when it closed its logs.

Source: `ClusterControlManager.registerBroker`, `ReplicationControlManager.handleBrokerShutdown`.
"""

from dataclasses import replace

from minikafka.controller.decisions.broker_fencing import at_most, leaving
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, Endpoint, Record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)

__all__ = ["SECURITY_PROTOCOLS", "decide"]

SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
"""By their numbers on the wire."""


def decide(
    image: Image, request: BrokerRegistrationRequest, context: Context
) -> Decision[BrokerRegistrationResponse]:
    """The broker's epoch, or why it cannot join.

    REQUEST_TIMED_OUT where it was in sync for more partitions than one decision can take it out of: the next
    registration goes on with that.
    """
    known = image.brokers.get(request.broker_id)
    error = _error(image, request, known, context)
    if error is not ErrorCode.NONE:
        return Decision([], BrokerRegistrationResponse(error_code=error))
    if known is not None and known.incarnation_id == request.incarnation_id:
        return _again(known, request)
    epoch = image.last_broker_epoch + 1
    registered = BrokerRecord(
        node_id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request),
        rack=request.rack,
        fenced=True,
    )
    crashed = known is None or known.epoch != request.previous_broker_epoch
    records, more = at_most([registered], leaving(image, request.broker_id, context, crashed=crashed))
    if more:
        return Decision(records[1:], BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _error(
    image: Image, request: BrokerRegistrationRequest, known: BrokerRecord | None, context: Context
) -> ErrorCode:
    if request.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if known is not None and known.incarnation_id != request.incarnation_id and _is_alive(known, context):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if not request.listeners or any(one.security_protocol not in SECURITY_PROTOCOLS for one in request.listeners):
        return ErrorCode.INVALID_REGISTRATION
    return ErrorCode.NONE if _has_features(image, request.features) else ErrorCode.UNSUPPORTED_VERSION


def _is_alive(known: BrokerRecord, context: Context) -> bool:
    """Whether the process that registered is there and stays."""
    alive = context.sessions.is_live(known.node_id, known.epoch, context.now_ms)
    return alive and not known.in_controlled_shutdown


def _has_features(image: Image, features: list[Feature]) -> bool:
    """Whether it can all that the cluster has agreed on; a feature that it does not name is not checked."""
    levels = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}
    return all(
        levels[name][0] <= level <= levels[name][1] for name, level in image.features.items() if name in levels
    )


def _again(known: BrokerRecord, request: BrokerRegistrationRequest) -> Decision[BrokerRegistrationResponse]:
    """The same process: it keeps its epoch, whatever else it says now."""
    amended = replace(known, endpoints=_endpoints(request), rack=request.rack)
    records: list[Record] = [] if amended == known else [amended]
    return Decision(records, BrokerRegistrationResponse(broker_epoch=known.epoch))


def _endpoints(request: BrokerRegistrationRequest) -> tuple[Endpoint, ...]:
    return tuple(
        (one.name, one.host, one.port, SECURITY_PROTOCOLS[one.security_protocol]) for one in request.listeners
    )
