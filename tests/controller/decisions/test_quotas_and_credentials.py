"""Client quotas and SCRAM credentials: accepted and rejected changes, filters."""

import hashlib
import hmac
import math
from typing import Any

import pytest
from support.images import cluster, decided, name_of

from minikafka.controller.decisions import client_quotas, scram_credentials
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ScramRecord
from minikafka.protocol.messages import alter_client_quotas as quotas
from minikafka.protocol.messages import describe_client_quotas as described
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

Name = tuple[str, str | None]
Quota = tuple[str, float | None]


def entry(entity: list[Name], *changes: Quota) -> quotas.RequestEntryData:
    """The quotas of an entity; None removes one."""
    return quotas.RequestEntryData(
        entity=[quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[quotas.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes],
    )


def alter(image: Image, *entries: quotas.RequestEntryData, validate_only: bool = False) -> list[str]:
    request: Any = quotas.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return [name_of(one.error_code) for one in decided(client_quotas.decide, image, request).entries]


def test_users_client_ids_and_pairs_have_separate_quotas() -> None:
    image = cluster()
    pair: list[Name] = [("user", "u"), ("client-id", None)]
    told = alter(
        image,
        entry([("user", "u")], ("producer_byte_rate", 1000.0), ("consumer_byte_rate", 5.0)),
        entry(pair, ("request_percentage", 12.5)),
    )
    assert told == ["NONE", "NONE"]
    assert image.quotas == {
        (("user", "u"),): {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0},
        (("client-id", None), ("user", "u")): {"request_percentage": 12.5},
    }
    alter(image, entry(pair, ("request_percentage", None), ("producer_byte_rate", None)))
    assert list(image.quotas) == [(("user", "u"),)]


NO_ADDRESSES = (
    *("not a host", "999.1.1.1", "1.2.3.256", "4294967296", "0000000010.0.0.1"),
    *("fe80::1%lo", "0x7f.1", "a-b.example.com"),
)
REFUSED: dict[str, quotas.RequestEntryData] = {
    "nobody": entry([], ("producer_byte_rate", 1.0)),
    "an unknown type": entry([("group", "g")], ("producer_byte_rate", 1.0)),
    "an empty name": entry([("user", "")], ("producer_byte_rate", 1.0)),
    "an unknown key": entry([("user", "u")], ("no_such_rate", 1.0)),
    "zero": entry([("user", "u")], ("producer_byte_rate", 0.0)),
    "a part of a byte": entry([("user", "u")], ("producer_byte_rate", 1.5)),
    "more than 64 bits": entry([("user", "u")], ("producer_byte_rate", 1e19)),
    "a key twice": entry([("user", "u")], ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)),
    "an address with bytes": entry([("ip", "1.2.3.4")], ("producer_byte_rate", 1.0)),
    "an address with a user": entry([("ip", "1.2.3.4"), ("user", "u")], ("connection_creation_rate", 1.0)),
    **{
        f"no address: {text}": entry([("ip", text)], ("connection_creation_rate", 1.0))
        for text in NO_ADDRESSES
    },
}


@pytest.mark.parametrize("asked", REFUSED.values(), ids=REFUSED)
def test_invalid_quotas_are_rejected(asked: quotas.RequestEntryData) -> None:
    image = cluster()
    assert alter(image, asked) == ["INVALID_REQUEST"]
    assert image.quotas == {}


@pytest.mark.parametrize(
    "address",
    ["1.2.3.4", "010.0.0.1", "000000010.0.0.1", "127.1", "::1", "[::1]", "localhost", "LOCALHOST", None],
)
def test_connection_rates_of_ip_addresses_can_be_limited(address: str | None) -> None:
    assert alter(cluster(), entry([("ip", address)], ("connection_creation_rate", 5.0))) == ["NONE"]


@pytest.mark.parametrize("value", [math.nan, 2.0**63])
def test_what_is_not_a_number_and_the_largest_number_are_quotas(value: float) -> None:
    """As recorded in `quotas-of-large-numbers`."""
    assert alter(cluster(), entry([("user", "u")], ("producer_byte_rate", value))) == ["NONE"]


def test_a_duplicate_entity_gets_one_error_and_its_first_entry_is_in_force() -> None:
    """As recorded in `the-same-entity-twice-in-an-alteration-of-quotas`."""
    image, first = cluster(), entry([("user", "u")], ("producer_byte_rate", 1.0))
    assert alter(image, first, entry([("user", "u")], ("producer_byte_rate", 2.0))) == ["INVALID_REQUEST"]
    assert image.quotas == {(("user", "u"),): {"producer_byte_rate": 1.0}}


def test_validate_only_writes_nothing() -> None:
    image, once = cluster(), entry([("user", "u")], ("producer_byte_rate", 1.0))
    assert alter(image, once, validate_only=True) == ["NONE"]
    assert alter(image, once, once, validate_only=True) == ["INVALID_REQUEST"]
    assert image.quotas == {}


EXACT, DEFAULT, ANY = range(3)


def find(image: Image, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    asked = [
        described.ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components
    ]
    response = client_quotas.describe(image, described.DescribeClientQuotasRequest(components=asked, strict=strict), 0)
    if response.error_code:
        assert response.entries is None
        return name_of(response.error_code)
    return [{one.entity_type: one.entity_name for one in found.entity} for found in response.entries or []]


def test_a_filter_matches_names_defaults_and_any_name() -> None:
    image = cluster()
    users: list[list[Name]] = [[("user", "u")], [("user", "u"), ("client-id", "c")], [("user", None)]]
    alter(image, *(entry(user, ("request_percentage", 1.0)) for user in users))
    everyone = [{"user": "u"}, {"client-id": "c", "user": "u"}, {"user": None}]
    assert find(image) == everyone
    assert find(image, ("user", EXACT, "u")) == everyone[:2]
    assert find(image, ("user", EXACT, "u"), strict=True) == everyone[:1]
    assert find(image, ("user", DEFAULT, None)) == everyone[2:]
    assert find(image, ("user", ANY, None), ("client-id", ANY, None)) == everyone[1:2]
    assert find(image, ("client-id", EXACT, "other")) == []


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("user", EXACT, None)], "INVALID_REQUEST"),
        ([("user", DEFAULT, "u")], "INVALID_REQUEST"),
        ([("user", ANY, "u")], "INVALID_REQUEST"),
        ([("user", 3, None)], "INVALID_REQUEST"),
        ([("", EXACT, "u")], "INVALID_REQUEST"),
        ([("user", EXACT, "a"), ("user", ANY, None)], "INVALID_REQUEST"),
        ([("ip", EXACT, "1.1.1.1"), ("user", EXACT, "a")], "INVALID_REQUEST"),
        ([("group", EXACT, "g")], "UNSUPPORTED_VERSION"),
    ],
)
def test_an_invalid_filter_is_rejected(components: list[tuple[str, int, str | None]], error: str) -> None:
    assert find(cluster(), *components) == error


SALTED = b"0123456789abcdef0123456789abcdef"


def setting(user: str, mechanism: int = 1, iterations: int = 4096, salted: bytes = SALTED) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def removing(user: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def change(image: Image, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, str]:
    request: Any = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    results = decided(scram_credentials.decide, image, request).results
    return {result.user: name_of(result.error_code) for result in results}


def test_the_two_keys_of_rfc_5802_are_stored_and_not_the_password() -> None:
    image = cluster()
    assert change(image, setting("u")) == {"u": "NONE"}
    client_key = hmac.new(SALTED, b"Client Key", hashlib.sha256).digest()
    assert image.scram["u", 1] == ScramRecord(
        user="u",
        mechanism=1,
        salt=b"salt",
        stored_key=hashlib.sha256(client_key).digest(),
        server_key=hmac.new(SALTED, b"Server Key", hashlib.sha256).digest(),
        iterations=4096,
    )
    change(image, setting("u", 2))
    assert len(image.scram["u", 2].stored_key) == 64


CHANGES: dict[str, tuple[list[Any], dict[str, str]]] = {
    "no name": ([setting("")], {"": "UNACCEPTABLE_CREDENTIAL"}),
    "an unknown mechanism": ([setting("a", 3)], {"a": "UNSUPPORTED_SASL_MECHANISM"}),
    "too few iterations": ([setting("a", iterations=4095)], {"a": "UNACCEPTABLE_CREDENTIAL"}),
    "too many iterations": ([setting("a", iterations=16385)], {"a": "UNACCEPTABLE_CREDENTIAL"}),
    "no password": ([setting("a", salted=b"")], {"a": "UNACCEPTABLE_CREDENTIAL"}),
    "a user twice": ([setting("a"), setting("a", 2)], {"a": "DUPLICATE_RESOURCE"}),
    "a user three times": ([setting("a")] * 3, {"a": "DUPLICATE_RESOURCE"}),
    "removed and set": ([removing("known"), setting("known")], {"known": "DUPLICATE_RESOURCE"}),
    "removed but not there, and set": ([removing("a"), setting("a")], {"a": "RESOURCE_NOT_FOUND"}),
    "removed but of another mechanism": ([removing("known", 2)], {"known": "RESOURCE_NOT_FOUND"}),
    "removed by an unknown mechanism": ([removing("known", 9)], {"known": "UNSUPPORTED_SASL_MECHANISM"}),
    "nothing": ([], {}),
}


@pytest.mark.parametrize(("changes", "told"), CHANGES.values(), ids=CHANGES)
def test_invalid_credential_changes_are_rejected(changes: list[Any], told: dict[str, str]) -> None:
    image = cluster()
    change(image, setting("known"))
    assert change(image, *changes) == told
    assert list(image.scram) == [("known", 1)]


def describe(image: Image, *users: str) -> list[tuple[str, str, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None)
    return [
        (one.user, name_of(one.error_code), [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in scram_credentials.describe(image, request, 0).results
    ]


def test_credentials_are_described_by_mechanism_and_iterations() -> None:
    image = cluster()
    change(image, setting("v"), setting("u", 2, 5000))
    change(image, setting("u"))
    assert describe(image) == [("u", "NONE", [(1, 4096), (2, 5000)]), ("v", "NONE", [(1, 4096)])]
    assert describe(image, "v", "x") == [("v", "NONE", [(1, 4096)]), ("x", "RESOURCE_NOT_FOUND", [])]
    assert describe(image, "v", "v") == [("v", "DUPLICATE_RESOURCE", [])]
    assert change(image, removing("u")) == {"u": "NONE"}
    assert describe(image, "u") == [("u", "NONE", [(2, 5000)])]
