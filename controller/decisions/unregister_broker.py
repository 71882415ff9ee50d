"""UnregisterBroker: a broker that will not come back is forgotten (KIP-500).

As in Kafka it may even be alive: its partitions go on without it, its heartbeats are stale from then on, and it is
back once it registers again. Only the last one that is alive is kept, since nobody could serve after it.
"""

from minikafka.controller.decisions.broker_fencing import at_most, leaving
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import RemoveBroker
from minikafka.protocol.errors import BrokerIdNotRegisteredError, InvalidRequestError, KafkaError, RequestTimedOutError
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

__all__ = ["decide"]


def decide(image: Image, request: UnregisterBrokerRequest, context: Context) -> Decision[UnregisterBrokerResponse]:
    """Take it out of everything, then forget it.

    REQUEST_TIMED_OUT where it is in sync for more partitions than one decision can change: asked again, it goes on.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return _refuse(BrokerIdNotRegisteredError(f"Broker ID {request.broker_id} is not currently registered"))
    if image.live_brokers() == [request.broker_id]:
        return _refuse(InvalidRequestError(f"Broker ID {request.broker_id} is alive, and no other is; stop it first"))
    records, more = at_most([RemoveBroker(broker.node_id, broker.epoch)], leaving(image, broker.node_id, context))
    if more:
        again = RequestTimedOutError("The broker has more partitions than can be changed at once; ask again")
        return Decision(records[1:], _refuse(again).reply)
    return Decision(records, UnregisterBrokerResponse(error_message=None))


def _refuse(error: KafkaError) -> Decision[UnregisterBrokerResponse]:
    return Decision([], UnregisterBrokerResponse(error_code=error.code, error_message=error.message))
