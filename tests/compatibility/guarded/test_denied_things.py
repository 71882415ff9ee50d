"""Each client shows the same of what ACLs deny as with Apache Kafka: errors, or that there is nothing."""

from __future__ import annotations

import pytest
from support.clients import CLIENTS
from support.denied_things import NOTHING, expected, outcomes, prepare, recorded
from support.guarded_nodes import PAIRS, GuardedNode

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("node_kind", "client_name"), PAIRS)
def test_each_client_shows_what_it_shows_of_kafka(guarded: GuardedNode, node_kind: str, client_name: str) -> None:
    prepare(guarded)
    shown = outcomes(guarded, client_name)
    assert shown == expected(client_name, shown, node_kind)


@pytest.mark.parametrize("client_name", CLIENTS)
def test_the_table_tells_denials_from_nothing(client_name: str) -> None:
    shown = list(recorded()[client_name].values())
    assert sum(text.endswith("_AUTHORIZATION_FAILED") for text in shown) >= 9, shown
    assert {"GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"} <= set(shown)
    assert sum(text == NOTHING for text in shown) <= 3
