"""UnregisterBroker: removes a broker's registration (KIP-500).

As in Kafka the broker may be unfenced: it leaves its ISRs, its heartbeats fail with STALE_BROKER_EPOCH, and it may
register again. The last unfenced broker is not removed, since no broker could then serve requests.
"""

from collections.abc import Generator

from minikafka.controller.decisions.broker_fencing import limited, remove_from_isrs
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import RemoveBroker
from minikafka.protocol.errors import BrokerIdNotRegisteredError, InvalidRequestError, KafkaError, RequestTimedOutError
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from minikafka.storage.steps import without_pauses

__all__ = ["decide", "deciding"]


def deciding(
    image: Image, request: UnregisterBrokerRequest, context: Context
) -> Generator[None, None, Decision[UnregisterBrokerResponse]]:
    """Remove the broker from its ISRs, then remove its registration, in steps.

    The error is REQUEST_TIMED_OUT if the broker is in more ISRs than one decision can change; a repeated request
    continues.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return _refuse(BrokerIdNotRegisteredError(f"Broker ID {request.broker_id} is not currently registered"))
    if image.live_brokers() == [request.broker_id]:
        return _refuse(InvalidRequestError(f"Broker ID {request.broker_id} is the only unfenced broker: stop it first"))
    records, more = yield from limited(
        [RemoveBroker(broker.node_id, broker.epoch)], remove_from_isrs(image, broker.node_id, context)
    )
    if more:
        again = RequestTimedOutError("The broker has more partitions than one request can change: repeat the request")
        return Decision(records[1:], _refuse(again).reply)
    return Decision(records, UnregisterBrokerResponse(error_message=None))


decide = without_pauses(deciding)


def _refuse(error: KafkaError) -> Decision[UnregisterBrokerResponse]:
    return Decision([], UnregisterBrokerResponse(error_code=error.code, error_message=error.detail))
