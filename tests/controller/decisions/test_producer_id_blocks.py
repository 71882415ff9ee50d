"""Blocks of producer ids: distinct, and only for registered brokers."""


import pytest
from support.images import applied, three_brokers

from minikafka.controller.decisions import producer_id_blocks
from minikafka.protocol.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError


def test_blocks_of_producer_ids_are_distinct() -> None:
    image = three_brokers()
    firsts: list[int] = []
    for _ in range(3):
        decision = producer_id_blocks.decide(image, node_id=1, broker_epoch=0)
        applied(decision.records, image)
        firsts.append(decision.reply.first)
        assert decision.reply.size == 1000
    assert firsts == [0, 1000, 2000]
    with pytest.raises(StaleBrokerEpochError):
        producer_id_blocks.decide(image, node_id=1, broker_epoch=9)
    with pytest.raises(BrokerIdNotRegisteredError):
        producer_id_blocks.decide(image, node_id=9, broker_epoch=0)
