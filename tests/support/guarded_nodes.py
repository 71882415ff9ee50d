"""A node that asks everybody who he is, and an authorizer what he may do: Apache Kafka or minikafka.

    with guarded_node("minikafka", folder) as node:
        connect("aiokafka", node.address("LOGIN"), **node.options_of("aiokafka", "SCRAM-SHA-512"))

Alice, who may use what begins with her name, logs in by each of `WAYS`; `admin` is a super user, by PLAIN.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from minikafka.client import Acl
from minikafka.client.blocking import Admin
from support.certificates import PASSWORD as STORE_PASSWORD
from support.clients import CLIENTS, FOREIGN_CLIENTS
from support.oracle import KAFKA_ITSELF, Oracle, free_ports, needs_oracle, why_absent
from support.secured_nodes import PASSWORD, USER, Certificates, ConfiguredNode, SecuredNode
from support.signed_tokens import ec_entry, key_set, signed_token

LISTENERS = {"LOGIN": "SASL_SSL", "BRIEF": "SASL_SSL", "MUTUAL": "SSL"}
"""The protocol of each listener, by its name. Sessions of BRIEF end after
`SESSION_MS`; MUTUAL asks for certificates."""
SESSION_MS = 5_000
PAIRS = [
    *(("minikafka", client) for client in CLIENTS),
    pytest.param("kafka", "minikafka", id="kafka_itself-minikafka", marks=[pytest.mark.oracle, needs_oracle]),
    *(
        pytest.param("kafka", client, id=f"kafka_itself-{client}", marks=[*KAFKA_ITSELF, needs_oracle])
        for client in FOREIGN_CLIENTS
    ),
]
"""A kind of node and a client in Python; without ours of both, Apache Kafka is asked about itself."""
CERTIFICATE = "certificate"
WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", CERTIFICATE)
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
OWN = f"{USER}-"
"""What alice may use begins with this: topics, groups, transactional ids."""
ISSUER, AUDIENCE = "https://login.example", "kafka"
MODULES = "org.apache.kafka.common.security"
_MODULE_OF = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


@dataclass(frozen=True)
class GuardedNode(SecuredNode):
    """A running node, and what each client needs to log in as alice."""

    listeners: Mapping[str, str] = field(default_factory=lambda: LISTENERS)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()), repr=False)

    def listener_of(self, way: str) -> str:
        return "MUTUAL" if way == CERTIFICATE else "LOGIN"

    def address_of(self, way: str) -> str:
        return self.address(self.listener_of(way))

    def token(self, lasts_s: int = 3_600) -> str:
        """A signed token of alice."""
        now_s = int(time.time())
        claims = {"sub": USER, "iat": now_s, "exp": now_s + lasts_s, "iss": ISSUER, "aud": AUDIENCE}
        return signed_token(self.key, claims)

    def options_of(self, client: str, way: str) -> dict[str, Any]:
        """The options of a client's library by which alice logs in.

        Args:
            client: as in `support.clients.CLIENTS`.
            way: as in `WAYS`.
        """
        make = {
            "confluent-kafka": self._of_librdkafka,
            "kafka-python": self._of_kafka_python,
            "aiokafka": self._of_aiokafka,
            "minikafka": self._of_minikafka,
        }[client]
        return make(way)

    def properties(self, way: str, *, password: str = PASSWORD) -> dict[str, str]:
        """The settings of Java's client by which alice logs in; OAUTHBEARER needs those of a token beside them."""
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.files.trusted)}
        if way == CERTIFICATE:
            own = {"ssl.keystore.location": str(self.files.client_pkcs12), "ssl.keystore.password": STORE_PASSWORD}
            return {"security.protocol": "SSL", **trusted, **own}
        user = "" if way == "OAUTHBEARER" else f' username="{USER}" password="{password}"'
        jaas = f"{MODULES}.{_MODULE_OF[way]} required{user};"
        return {"security.protocol": "SASL_SSL", **trusted, "sasl.mechanism": way, "sasl.jaas.config": jaas}

    def admin_properties(self) -> dict[str, str]:
        """The settings of Java's client by which the super user logs in, at LOGIN."""
        jaas = f'{MODULES}.plain.PlainLoginModule required username="{ADMIN}" password="{ADMIN_PASSWORD}";'
        return {**self.properties("PLAIN"), "sasl.jaas.config": jaas}

    def admin(self) -> Admin:
        """Our client as the super user."""
        login = {"sasl_mechanism": "PLAIN", "sasl_username": ADMIN, "sasl_password": ADMIN_PASSWORD}
        return Admin(**self.options("LOGIN", **login))

    def log(self) -> str:
        """What a node of minikafka has logged."""
        return (self.files.folder.parent / "data.log").read_text()

    def _of_librdkafka(self, way: str) -> dict[str, Any]:
        given: dict[str, Any] = {"ssl.ca.location": str(self.files.trusted), "group.id": f"{OWN}unused"}
        if way == CERTIFICATE:
            given |= {"ssl.keystore.location": str(self.files.client_pkcs12), "ssl.keystore.password": STORE_PASSWORD}
            return {"security.protocol": "SSL", **given}
        given |= {"security.protocol": "SASL_SSL", "sasl.mechanisms": way}
        if way == "OAUTHBEARER":
            return {**given, "oauth_cb": lambda _: (self.token(), time.time() + 3_600)}
        return {**given, "sasl.username": USER, "sasl.password": PASSWORD}

    def _of_kafka_python(self, way: str) -> dict[str, Any]:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        given: dict[str, Any] = {"ssl_cafile": str(self.files.trusted)}
        if way == CERTIFICATE:
            chain, key = str(self.files.client_chain), str(self.files.client_encrypted_key)
            pair = {"ssl_certfile": chain, "ssl_keyfile": key, "ssl_password": PASSWORD}
            return {"security_protocol": "SSL", **given, **pair}
        return {**given, **self._of_python(way, AbstractTokenProvider, self.token)}

    def _of_aiokafka(self, way: str) -> dict[str, Any]:
        from aiokafka.abc import AbstractTokenProvider

        async def token() -> str:
            return self.token()

        context = ssl.create_default_context(cafile=str(self.files.trusted))
        if way == CERTIFICATE:
            context.load_cert_chain(self.files.client_chain, self.files.client_encrypted_key, PASSWORD)
            return {"security_protocol": "SSL", "ssl_context": context}
        return {"ssl_context": context, **self._of_python(way, AbstractTokenProvider, token)}

    def _of_python(self, way: str, provider: Any, token: Any) -> dict[str, Any]:
        """What kafka-python and aiokafka name alike."""
        given: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": way}
        if way == "OAUTHBEARER":
            kind = type("Provider", (provider,), {"token": lambda _: token()})
            return {**given, "sasl_oauth_token_provider": kind()}
        return {**given, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}

    def _of_minikafka(self, way: str) -> dict[str, Any]:
        given: dict[str, Any] = {"ssl_ca_location": str(self.files.trusted)}
        if way == CERTIFICATE:
            own = {"ssl_keystore_location": str(self.files.client_pkcs12), "ssl_keystore_password": STORE_PASSWORD}
            return {"security_protocol": "SSL", **given, **own}
        given |= {"security_protocol": "SASL_SSL", "sasl_mechanism": way}
        if way == "OAUTHBEARER":
            return {**given, "sasl_oauth_token_provider": self.token}
        return {**given, "sasl_username": USER, "sasl_password": PASSWORD}


@contextmanager
def guarded_node(kind: str, folder: Path) -> Iterator[GuardedNode]:
    """A running node of `minikafka` or `kafka`, with users and ACLs. Skips the test if there is no Kafka."""
    reason = why_absent()
    if kind == "kafka" and reason:
        pytest.skip(reason)
    node = GuardedNode(free_ports(len(LISTENERS)), Certificates(folder / "certificates"))
    node.files.write()
    keys = folder / "keys.json"
    keys.write_bytes(key_set(ec_entry(node.key)))
    given = settings(node, keys)
    if kind == "kafka":
        allowed = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",)
        running: Any = Oracle(folder / "data", settings=given, port=node.port, options=allowed)
    else:
        running = ConfiguredNode(folder, node.port, given)
    with running:
        with node.admin() as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.upsert_user_scram_credential(USER, PASSWORD, mechanism=mechanism)
            grant(admin)
        yield node


def grant(admin: Admin) -> None:
    """Allow alice all that begins with her name."""
    kinds = ("topic", "group", "transactional_id")
    acls = [Acl(kind, OWN, f"User:{USER}", "all", pattern="prefixed") for kind in kinds]
    refused = {str(acl): error for acl, error in admin.create_acls(acls).items() if error is not None}
    assert not refused, json.dumps(refused, default=str)


def settings(node: GuardedNode, keys: Path) -> dict[str, str]:
    """The settings of a node: a login or a certificate at each listener, that of the controller too."""
    urls = [f"{name}://{node.address(name)}" for name in LISTENERS]
    protocols = {**LISTENERS, "CONTROLLER": "SSL"}
    given = {
        "listeners": ",".join([*urls, f"CONTROLLER://127.0.0.1:{node.port + 100}"]),
        "advertised.listeners": ",".join(urls),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "MUTUAL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(node.files.node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(node.files.trusted),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:node",
        "sasl.enabled.mechanisms": ",".join(_MODULE_OF),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "10",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    users = f'user_{ADMIN}="{ADMIN_PASSWORD}" user_{USER}="{PASSWORD}"'
    for listener in ("login", "brief"):
        for mechanism, module in _MODULE_OF.items():
            prefix = f"listener.name.{listener}.{mechanism.lower()}"
            more = f" {users}" if mechanism == "PLAIN" else ""
            given[f"{prefix}.sasl.jaas.config"] = f"{MODULES}.{module} required{more};"
        handler = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        given[f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class"] = handler
    return given
