"""UnregisterBroker: a broker that will not come back is forgotten (KIP-500)."""

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.image import Image
from minikafka.controller.records import RemoveBroker
from minikafka.protocol.errors import BrokerIdNotRegisteredError, InvalidRequestError
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

__all__ = ["decide"]


def decide(image: Image, request: UnregisterBrokerRequest, context: Context) -> Decision[UnregisterBrokerResponse]:
    """Forget a fenced broker. One that is alive would have to register again, so it is refused."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        return Decision([], UnregisterBrokerResponse(error_code=BrokerIdNotRegisteredError.code, error_message=message))
    if not broker.fenced:
        message = f"Broker ID {request.broker_id} is alive; stop it first"
        return Decision([], UnregisterBrokerResponse(error_code=InvalidRequestError.code, error_message=message))
    return Decision([RemoveBroker(broker.node_id, broker.epoch)], UnregisterBrokerResponse(error_message=None))
