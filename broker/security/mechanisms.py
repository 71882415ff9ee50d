"""The server's side of each SASL mechanism: PLAIN, SCRAM and OAUTHBEARER.

A `Dialogue` is one authentication: it gets the client's messages and returns the answers. The last one sets who the
client is. No dialogue derives keys from passwords or waits: SCRAM's keys are in the metadata, or raise KeysMissing.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

from minikafka.broker.security.token_keys import TokenKeys
from minikafka.broker.settings.sasl_settings import MechanismSettings
from minikafka.broker.settings.token_settings import TokenSettings
from minikafka.controller.metadata.image import Image
from minikafka.controller.security.access import NAME_BYTES_MAX, Principal, name_is_too_long
from minikafka.protocol.errors import SaslAuthenticationFailedError, without_frames
from minikafka.protocol.sasl.oauthbearer import FAILED, parse_oauthbearer, refusal_text
from minikafka.protocol.sasl.plain import parse_plain
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.scram import ClientFirst, ScramKeys, ScramMechanism, ScramServer, parse_client_first
from minikafka.protocol.sasl.unsecured_token import Token, TokenError

__all__ = ["Authenticated", "Credentials", "Dialogue", "mechanism_of"]

USER = "User"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who a client is.

    Attributes:
        expires_ms: When its credential ends, in milliseconds since 1970; None if it does not.
    """

    principal: Principal
    expires_ms: int | None = None


class Dialogue(Protocol):
    """One authentication by a mechanism.

    Attributes:
        authenticated: Who the client is, once that is proved; None before.
        refusal: Why the last message was refused, if the client was told so and may send another one; "" otherwise.
    """

    authenticated: Authenticated | None
    refusal: str

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message of the client.

        Raises:
            SaslAuthenticationFailedError: The authentication has failed; the client is told the message.
            SaslError: It has failed; the client is not told why.
            KeysMissing: The message can be answered after the derivation of keys.
        """
        ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """What dialogues look up.

    Attributes:
        image: The metadata, with the SCRAM keys of the users.
        random: For nonces.
        validator: Makes what returns who a token is of, or raises TokenError.
        token_keys: The SCRAM keys of the delegation tokens.
    """

    image: Image
    random: Random
    validator: Callable[[TokenSettings], Callable[[str], Token]]
    token_keys: TokenKeys


def mechanism_of(settings: MechanismSettings, credentials: Credentials) -> Callable[[], Dialogue]:
    """A function that begins a dialogue of the mechanism."""
    scram = ScramMechanism.of_mechanism(settings.name)
    if scram is not None:
        return lambda: ScramDialogue(scram, credentials)
    if settings.tokens is not None:
        validate = credentials.validator(settings.tokens)
        return lambda: OAuthBearerDialogue(validate)
    if settings.name != "PLAIN":
        raise ValueError(f"no dialogue for {settings.name}")
    digests = {user: _digest(password) for user, password in settings.login.passwords.items()}
    return lambda: PlainDialogue(digests)


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


class PlainDialogue:
    """PLAIN: the client sends its password.

    Args:
        digests: The SHA-256 of each user's password: digests have one length, so a compare does not tell that of the
            password.
    """

    refusal = ""

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self._digests = digests
        self.authenticated: Authenticated | None = None

    def answer(self, message: bytes) -> bytes:
        parsed = parse_plain(message)
        expected = self._digests.get(parsed.username)
        # An unknown user takes as long as a wrong password.
        matches = hmac.compare_digest(_digest(parsed.password), expected or bytes(32))
        if not matches or expected is None:
            raise SaslAuthenticationFailedError("Authentication failed: Invalid username or password")
        if parsed.authorization_id not in ("", parsed.username):
            raise SaslAuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authenticated = Authenticated(Principal(USER, parsed.username))
        return b""


class OAuthBearerDialogue:
    """OAUTHBEARER: the client sends a token. A refusal is told first, and fails with the client's next message."""

    def __init__(self, validate: Callable[[str], Token]) -> None:
        self._validate = validate
        self._refused: TokenError | None = None
        self.refusal = ""
        self.authenticated: Authenticated | None = None

    def answer(self, message: bytes) -> bytes:
        refused, self._refused, self.refusal = self._refused, None, ""
        if refused is not None and message == FAILED:
            raise SaslAuthenticationFailedError(refusal_text(refused.status, refused.scope)) from refused
        parsed = parse_oauthbearer(message)
        try:
            token = self._validate(parsed.token)
            if name_is_too_long(token.principal):
                raise TokenError(f"the name in the token has more than {NAME_BYTES_MAX} bytes")
        except TokenError as error:
            self._refused, self.refusal = without_frames(error), str(error)
            return refusal_text(error.status, error.scope).encode()
        if parsed.authorization_id not in ("", token.principal):
            raise SaslAuthenticationFailedError(
                f"Authentication failed: Client requested an authorization id ({parsed.authorization_id}) that is "
                f"different from the token's principal name ({token.principal})"
            )
        self.authenticated = Authenticated(Principal(USER, token.principal), token.expires_ms)
        return b""


class ScramDialogue:
    """SCRAM: the client proves that it knows its password, or the HMAC of a delegation token."""

    refusal = ""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server: ScramServer | None = None
        self._claimed: Authenticated | None = None
        self.authenticated: Authenticated | None = None

    def answer(self, message: bytes) -> bytes:
        if self._server is not None:
            final = self._server.verify(message)
            self.authenticated = self._claimed
            return final
        first = parse_client_first(message)
        keys, self._claimed = self._look_up(first)
        first.check_authorization()
        self._server = ScramServer(self._mechanism, first, keys, self._nonce())
        return self._server.challenge

    def _look_up(self, first: ClientFirst) -> tuple[ScramKeys, Authenticated]:
        if first.by_token:
            return self._look_up_token(first.username)
        record = self._credentials.image.scram.get((first.username, self._mechanism.value))
        if record is None:
            raise SaslError("unknown user")
        keys = ScramKeys(record.salt, record.stored_key, record.server_key, record.iterations)
        return keys, Authenticated(Principal(USER, first.username))

    def _look_up_token(self, token_id: str) -> tuple[ScramKeys, Authenticated]:
        login = self._credentials.token_keys.find(token_id, self._mechanism)
        if login is None:
            raise SaslError("unknown delegation token")
        return login.keys, Authenticated(Principal(*login.token.owner, by_token=True), login.token.expires_ms)

    def _nonce(self) -> str:
        # A digest, so that nonces do not tell the state of the generator, from which ids are made as well.
        digest = hashlib.sha256(self._credentials.random.randbytes(32)).digest()
        return base64.urlsafe_b64encode(digest[:18]).decode()
