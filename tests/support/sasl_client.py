"""A client of a SASL listener, its frames and their answers in words; the listener and its clock are the test's."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import trio
from trio.testing import MockClock

from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.connections.exchange import Exchange, State
from minikafka.broker.connections.long_polls import Receiver
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect, LastAnswer
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.security.authentication import ListenerAuthentication
from minikafka.broker.security.authentication_record import AuthenticationRecord
from minikafka.broker.security.guards import token_validator
from minikafka.broker.security.mechanisms import Credentials, mechanism_of
from minikafka.broker.security.sasl_session import Mechanism
from minikafka.broker.security.signing_keys import KeyReading
from minikafka.broker.security.token_keys import TokenKeys
from minikafka.broker.settings.sasl_settings import sasl_settings
from minikafka.broker.settings.token_settings import UNSECURED_HANDLER, TokenSettings
from minikafka.controller.line_rate import LineRate
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ScramRecord
from minikafka.controller.security.access import Principal
from minikafka.protocol.headers import encode_request, response_parts
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.protocol.sasl.scram import ScramMechanism, derive_keys
from minikafka.protocol.sasl.unsecured_token import Token
from minikafka.storage.disks.memory_disk import MemoryDisk

JAAS = "listener.name.l.{}.sasl.jaas.config"
HANDLER = "listener.name.l.oauthbearer.sasl.server.callback.handler.class"
MODULES = "org.apache.kafka.common.security"
GIVEN = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    HANDLER: UNSECURED_HANDLER,
    JAAS.format("oauthbearer"): f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    "sasl.server.max.receive.size": "1000",
    JAAS.format("plain"): f'{MODULES}.plain.PlainLoginModule required user_alice="secret" user_bob="hush";',
    JAAS.format("scram-sha-256"): f"{MODULES}.scram.ScramLoginModule required;",
}
ALICE, BOB = b"\0alice\0secret", b"\0bob\0hush"
PASSED, CLOSED = "passed on", "closed"
ILLEGAL = "34; closed"
FAILED = "58 Authentication failed"
WRONG = f"{FAILED}: Invalid username or password; closed"
REFUSED_SCRAM = (
    f"{FAILED} during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256; closed"
)
API_VERSIONS, METADATA_KEY, AUTHENTICATE = 18, 3, 36
PASS = b"\0\0\0\x04pass"
"""What the dispatcher answers here to any request but ApiVersions: a frame with four bytes."""


class Requests:
    """Answers what is passed on, and remembers who sent it."""

    def __init__(self) -> None:
        self.principals: list[Principal] = []

    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None) -> Answer:
        self.principals.append(connection.principal)
        if frame[1] != API_VERSIONS:
            return [PASS], 0
        known = frame[3] <= 4
        return response_parts(ApiVersionsResponse(error_code=0 if known else 35), frame[3] if known else 0, 0), 0

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        return self.answer_now(frame, connection, None)


class NoReceiver:
    def deliver(self, parts: list[Any] | None) -> None:
        raise AssertionError


def an_image() -> Image:
    image = Image()
    keys = derive_keys(ScramMechanism.SHA_256, "secret", b"salt", 4096)
    image.scram["alice", 1] = ScramRecord("alice", 1, b"salt", keys.stored_key, keys.server_key, 4096)
    return image


def a_validator(settings: TokenSettings) -> Callable[[str], Token]:
    reading = KeyReading(MemoryDisk(), lambda url: b"", trio.current_time)
    return token_validator(settings, reading, lambda: round(trio.current_time() * 1000))


class Client:
    """A connection to a SASL listener, whose answers are told in words."""

    def __init__(self, session_ms: int = 0, given: dict[str, str] = GIVEN) -> None:
        self.requests = Requests()
        settings = sasl_settings(given | {"connections.max.reauth.ms": str(session_ms)}, "L")
        self.image = an_image()
        token_keys = TokenKeys(self.image, b"the key", Random(1), MemoryDisk())
        credentials = Credentials(self.image, Random(1), a_validator, token_keys)
        self.listener = ListenerAuthentication(
            self.requests,
            1 << 20,
            {
                name: Mechanism(one.session_ms_max, mechanism_of(one, credentials))
                for name, one in settings.mechanisms.items()
            },
            routes_of(HANDLERS),
            settings.message_bytes_max,
            settings.failure_delay_ms,
            trio.current_time,
            lambda: round(trio.current_time() * 1000),
            AuthenticationRecord(LineRate(lambda: trio.current_time() * 1000)),
        )
        self.info = ConnectionInfo("L", "10.0.0.1")
        size_bytes = self.listener.message_bytes_max
        self.exchange = Exchange(self.listener.handler(), self.info, size_bytes, trio.current_time)
        self._bare = False
        self.ended: LastAnswer | None = None

    async def send(self, frame: bytes) -> str:
        """Send a frame without its size, and return the answer in words."""
        data = len(frame).to_bytes(4, "big") + frame
        self.exchange.receive(memoryview(data), trio.current_time(), NoReceiver())
        if self.exchange.state is State.ANSWERING:
            try:
                self.exchange.answered(await self.exchange.take_rest())
            except LastAnswer as last:
                self.exchange.answered((last.parts, 0), last)
                self.ended = last
            except (Disconnect, MalformedMessage):
                self.exchange.close()
        if self.exchange.state is not State.SENDING:
            return CLOSED
        answer = b"".join(map(bytes, self.exchange.take()))
        self.exchange.sent()
        return said(answer, frame) + ("; closed" if self.exchange.state is State.FAILED else "")


def said(answer: bytes, frame: bytes) -> str:
    if answer == PASS:
        return PASSED
    if frame in (ALICE, BOB):
        return f"bare {answer[4:].decode()}"
    key, version, body = frame[1], frame[3], answer[8:]
    if key == METADATA_KEY:
        return "34"  # It has no error code of its own where it names no topics.
    error = int.from_bytes(body[:2], "big")
    if key != AUTHENTICATE:
        return str(error)
    length = int.from_bytes(body[2:4], "big", signed=True)
    position = 4 + max(0, length)
    size = int.from_bytes(body[position : position + 4], "big")
    message = body[position + 4 : position + 4 + size].decode()
    lifetime_ms = int.from_bytes(body[position + 4 + size :], "big") if version else 0
    return " ".join(
        filter(None, (str(error), body[4:position].decode(), message, f"for {lifetime_ms}" if lifetime_ms else ""))
    )


def versions(version: int = 4) -> bytes:
    frame = bytearray(encode_request(ApiVersionsRequest(), min(version, 4), 0, "c")[4:])
    frame[3] = version
    return bytes(frame)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return encode_request(SaslHandshakeRequest(mechanism=mechanism), version, 0, "c")[4:]


def token(message: bytes = ALICE, version: int = 1) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=message), version, 0, "c")[4:]


METADATA = encode_request(MetadataRequest(topics=[]), 4, 0, "c")[4:]
NO_ACKS = encode_request(ProduceRequest(acks=0, timeout_ms=1), 7, 0, "c")[4:]
Steps = list[tuple[bytes | float, str]]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    trio.run(test, clock=MockClock(autojump_threshold=0))


async def conversation(client: Client, steps: Steps) -> None:
    for number, (sent, expected) in enumerate(steps):
        if isinstance(sent, float):
            await trio.sleep(sent)
        else:
            assert await client.send(sent) == expected, f"step {number}"


def scram_final(challenge: bytes, password: str, bare: bytes = b"n=alice,r=abc") -> bytes:
    """A client's final message, computed as RFC 5802 says, without `protocol/sasl/scram.py`."""
    parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c=biws,r={parts['r']}".encode()
    signed = b",".join((bare, challenge, without_proof))
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(left ^ right for left, right in zip(key, signature, strict=True)))
    return without_proof + b",p=" + proof
