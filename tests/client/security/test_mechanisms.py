"""A mechanism without an exchange of its own is refused: PLAIN, which sends the password, does not stand in for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.broker.security.mechanisms import mechanism_of
from minikafka.broker.settings.sasl_settings import MechanismSettings
from minikafka.client.security.sasl_exchange import sasl_exchange
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeResponse
from minikafka.protocol.sasl.jaas import Login, LoginModule

LATER = ("GSSAPI", "SCRAM-SHA-1", "plain", "")


@pytest.mark.parametrize("mechanism", LATER)
def test_a_client_sends_no_password_by_it(mechanism: str) -> None:
    exchange = sasl_exchange("broker:9092", SaslLogin(mechanism, "alice", "secret"), "nonce")
    next(exchange)
    with pytest.raises(ValueError, match="no exchange for"):
        exchange.send(SaslHandshakeResponse())


@pytest.mark.parametrize("mechanism", LATER)
def test_a_broker_compares_no_password_by_it(mechanism: str) -> None:
    settings = MechanismSettings(mechanism, Login(LoginModule.PLAIN, {"user_alice": "secret"}), 0)
    with pytest.raises(ValueError, match="no dialogue for"):
        mechanism_of(settings, cast(Any, None))
