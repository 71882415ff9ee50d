"""UnregisterBroker: unknown, fenced and unfenced brokers."""


from support.images import broker, cluster, decided, name_of

from minikafka.controller.decisions import unregister_broker
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest


def test_a_fenced_broker_can_be_unregistered() -> None:
    image = cluster(broker(1), broker(2, fenced=True))
    codes = [
        name_of(decided(unregister_broker.decide, image, UnregisterBrokerRequest(broker_id=node_id)).error_code)
        for node_id in (77, -1, 1, 2, 2)
    ]
    unknown = "BROKER_ID_NOT_REGISTERED"
    assert codes == [unknown, unknown, "INVALID_REQUEST", "NONE", unknown]
    assert list(image.brokers) == [1]
