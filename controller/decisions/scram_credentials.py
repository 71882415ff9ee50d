"""AlterUserScramCredentials and DescribeUserScramCredentials: the SCRAM credentials of users (KIP-554).

Clients send the salted password, never the password; the controller stores the two keys of RFC 5802 derived from it.
Source: `ScramControlManager`, `ScramImage`.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Generator

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record, RemoveScram, ScramRecord
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, mapping
from minikafka.protocol.errors import (
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
    without_frames,
)
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding", "describe", "describing"]

HASHES = {1: hashlib.sha256, 2: hashlib.sha512}
"""The hash function of each mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def deciding(
    image: Image, request: AlterUserScramCredentialsRequest, context: Context
) -> Generator[None, None, Decision[AlterUserScramCredentialsResponse]]:
    """Decide in steps, with a result for each user. A user that is listed twice is not changed and gets the first
    error."""
    changes: list[Change] = [*request.deletions, *request.upsertions]
    outcomes: dict[str, Record | KafkaError] = {}
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for change in changes:
        if pauses.is_due():
            yield
        known = outcomes.get(change.name)
        if isinstance(known, KafkaError):
            continue
        if known is not None:
            problem = "A user credential cannot be altered twice in the same request"
            outcomes[change.name] = DuplicateResourceError(problem)
            continue
        try:
            outcomes[change.name] = _changed(change, image)
        except KafkaError as error:
            outcomes[change.name] = without_frames(error)
    records = [outcome for outcome in outcomes.values() if not isinstance(outcome, KafkaError)]
    results = [_result(user, outcome) for user, outcome in outcomes.items()]
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


decide = without_pauses(deciding)


def _result(user: str, outcome: Record | KafkaError) -> AlterUserScramCredentialsResult:
    if isinstance(outcome, KafkaError):
        return AlterUserScramCredentialsResult(user=user, error_code=outcome.code, error_message=outcome.detail)
    return AlterUserScramCredentialsResult(user=user, error_message=None)


def _changed(change: Change, image: Image) -> Record:
    if not change.name:
        raise UnacceptableCredentialError("Username must not be empty")
    if change.mechanism not in HASHES:
        raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, change.mechanism) not in image.scram:
            raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
        return RemoveScram(change.name, change.mechanism)
    return _credential(change)


def _credential(change: ScramCredentialUpsertion) -> ScramRecord:
    if change.iterations < ITERATIONS_MIN:
        raise UnacceptableCredentialError("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise UnacceptableCredentialError("Too many iterations")
    if not change.salted_password:
        raise UnacceptableCredentialError("Empty password")
    hashed, salted = HASHES[change.mechanism], bytes(change.salted_password)
    client_key = hmac.digest(salted, b"Client Key", hashed)
    return ScramRecord(
        user=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=hashed(client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", hashed),
        iterations=change.iterations,
    )


def describing(
    image: Image, request: DescribeUserScramCredentialsRequest, version: int
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    """Describe in steps the mechanisms and iterations of the requested users, or of all users. The credentials may
    change between the steps; a user that is removed meanwhile is left out unless it was requested."""
    counts = Counter(user.name for user in request.users or ())
    names = list(counts) or sorted(set((yield from mapping(lambda key: key[0], list(image.scram)))))
    results = yield from mapping(lambda name: _described(name, image, twice=counts[name] > 1), names)
    if not counts:
        results = [one for one in results if not one.error_code]
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


describe = without_pauses(describing)


def _described(name: str, image: Image, *, twice: bool) -> DescribeUserScramCredentialsResult:
    found = [image.scram[name, mechanism] for mechanism in HASHES if (name, mechanism) in image.scram]
    error: KafkaError | None = None
    if twice:
        error = DuplicateResourceError(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif not found:
        error = ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {name}")
    if error is not None:
        return DescribeUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.detail)
    infos = [CredentialInfo(mechanism=one.mechanism, iterations=one.iterations) for one in found]
    return DescribeUserScramCredentialsResult(user=name, error_message="", credential_infos=infos)
