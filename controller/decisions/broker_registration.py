"""BrokerRegistration: registers a broker process and assigns its broker epoch (KIP-631).

A registered broker is fenced and a member of no ISR; a later heartbeat unfences it. Each process has an incarnation id:
a second process with the node id of a live broker is rejected, and a repeated request of the same process succeeds. The
last process of the active controller's own node is gone, as that was the controller's, too: its next process is
registered at once, and is then live as long as the controller. The broker of a node that is the whole cluster is
unfenced at once: it has nothing to catch up with, and nobody waits. A broker with an unclean shutdown may have lost
records that it had not synced, so it is removed from the eligible leader replicas (KIP-966). A broker proves a clean
shutdown with the broker epoch in its clean-shutdown markers, one in each data directory. The epoch of an earlier
process is accepted if no later process was unfenced; Kafka accepts only that of the last process. A broker lists the
directories that it can use; a replica in another directory cannot lead (KIP-858).

Source: `ClusterControlManager.registerBroker`, `ReplicationControlManager.handleBrokerShutdown`.
"""

import sys
from collections.abc import Generator
from dataclasses import replace

from minikafka.controller.decisions.broker_fencing import elect_only_broker, limited, remove_from_isrs
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, Endpoint, Record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from minikafka.storage.directories.directory_ids import is_reserved
from minikafka.storage.steps import without_pauses

__all__ = ["SECURITY_PROTOCOLS", "decide", "deciding"]

SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
"""The name of each security protocol, by its id in requests."""


def deciding(
    image: Image, request: BrokerRegistrationRequest, context: Context
) -> Generator[None, None, Decision[BrokerRegistrationResponse]]:
    """Decide in steps; the reply has the broker epoch or an error. The session of a registered process is read in the
    first step.

    The error is REQUEST_TIMED_OUT if the broker is in more ISRs than one decision can change: some of them are changed,
    and the next registration continues.
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
        log_dirs=tuple(sorted(request.log_dirs)),
    )
    unclean_shutdown = known is None or not _continues(image, known, request.previous_broker_epoch)
    if _is_whole_cluster(image, request.broker_id, context):
        elected = elect_only_broker(image, registered, context, unclean_shutdown=unclean_shutdown)
        records, _ = yield from limited([replace(registered, fenced=False)], elected, sys.maxsize)
        return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))
    removed = remove_from_isrs(image, request.broker_id, context, unclean_shutdown=unclean_shutdown)
    records, more = yield from limited([registered], removed)
    if more:
        return Decision(records[1:], BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


decide = without_pauses(deciding)


def _is_whole_cluster(image: Image, node_id: int, context: Context) -> bool:
    """Whether a broker's node is the only controller, and no other broker is registered."""
    return set(context.controllers) == {node_id} and image.brokers.keys() <= {node_id}


def _error(
    image: Image, request: BrokerRegistrationRequest, known: BrokerRecord | None, context: Context
) -> ErrorCode:
    if request.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if known is not None and known.incarnation_id != request.incarnation_id and _is_alive(known, context):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if not request.listeners or any(one.security_protocol not in SECURITY_PROTOCOLS for one in request.listeners):
        return ErrorCode.INVALID_REGISTRATION
    if len(set(request.log_dirs)) < len(request.log_dirs) or any(is_reserved(one) for one in request.log_dirs):
        return ErrorCode.INVALID_REGISTRATION
    return ErrorCode.NONE if _has_features(image, request.features) else ErrorCode.UNSUPPORTED_VERSION


def _is_alive(known: BrokerRecord, context: Context) -> bool:
    """Whether the registered process is this one or has a session, and is not in controlled shutdown."""
    if known.in_controlled_shutdown:
        return False
    if known.node_id == context.static.node_id:
        return known.epoch == context.own_epoch
    return context.sessions.is_live(known.node_id, known.epoch, context.now_ms)


def _has_features(image: Image, features: list[Feature]) -> bool:
    """Whether the broker supports the finalized feature levels; features that it does not list are not checked."""
    levels = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}
    return all(
        levels[name][0] <= level <= levels[name][1] for name, level in image.features.items() if name in levels
    )


def _continues(image: Image, known: BrokerRecord, previous_epoch: int) -> bool:
    """Whether the broker has all records that it had when it was last in an ISR.

    A process may stop before it learns its epoch. Then its marker has the epoch of the process before. That is enough
    if no process was unfenced in between, since a fenced broker is in no ISR.
    """
    return image.served_epochs.get(known.node_id, known.epoch) <= previous_epoch <= known.epoch


def _again(known: BrokerRecord, request: BrokerRegistrationRequest) -> Decision[BrokerRegistrationResponse]:
    """Decide about a repeated registration of the same process: it keeps its epoch; endpoints and rack are updated.

    A directory that has failed meanwhile is reported by a heartbeat, which handles its replicas.
    """
    directories = known.log_dirs or tuple(sorted(request.log_dirs))
    amended = replace(known, endpoints=_endpoints(request), rack=request.rack, log_dirs=directories)
    records: list[Record] = [] if amended == known else [amended]
    return Decision(records, BrokerRegistrationResponse(broker_epoch=known.epoch))


def _endpoints(request: BrokerRegistrationRequest) -> tuple[Endpoint, ...]:
    return tuple(
        (one.name, one.host, one.port, SECURITY_PROTOCOLS[one.security_protocol]) for one in request.listeners
    )
