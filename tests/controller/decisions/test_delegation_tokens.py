"""Delegation tokens: how long they last, who may renew and end them, and who sees them.

The times are those of Apache Kafka 4.3.1 for the same requests; its answers in full are conversations
(`tests/conversations/own/delegation_tokens/`).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
from support.images import applied, context, name_of, static

from minikafka.controller.active.forwarded_requests import is_idempotent
from minikafka.controller.decisions import delegation_tokens
from minikafka.controller.decisions.decision import RECORDS_MAX, Context
from minikafka.controller.decisions.delegation_tokens import describing, ending, expiring, renewing
from minikafka.controller.metadata.image import Image, copy_image
from minikafka.controller.metadata.records import DelegationTokenRecord, encode_record
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot, encode_snapshot, records_of
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.controller.security.access import Access, Principal
from minikafka.controller.security.decision_log import DecisionLog
from minikafka.controller.security.standard_authorizer import StandardAuthorizer
from minikafka.controller.security.token_secrets import password_of, secret_of, token_hmac
from minikafka.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from minikafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from minikafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from minikafka.storage.steps import at_once

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
KEY = {"delegation_token_secret_key": "secret"}
NOBODY_MAY = StandardAuthorizer(
    frozenset(), open_without_acls=False, levels={"root": "WARN"}, log=DecisionLog(lambda: 0)
)
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))


def at(principal: Principal, now_ms: int = NOW_MS, **settings: str) -> Context:
    """The context of a request of a client at a time."""
    return replace(context(node=static(**(KEY | settings))), wall_ms=now_ms, access=Access(None, principal))


def create(image: Image, known: Context, max_lifetime_ms: int = -1, *renewers: Principal, **fields: Any) -> Any:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=one.kind, principal_name=one.name) for one in renewers],
        max_lifetime_ms=max_lifetime_ms,
        **fields,
    )
    decision = delegation_tokens.create(image, request, known)
    applied(decision.records, image)
    return decision.reply


def renew(image: Image, known: Context, secret: bytes, period_ms: int = -1) -> Any:
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
    decision = delegation_tokens.renew(image, request, known)
    applied(decision.records, image)
    return decision.reply


def expire(image: Image, known: Context, secret: bytes, period_ms: int = -1) -> Any:
    request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
    decision = delegation_tokens.expire(image, request, known)
    applied(decision.records, image)
    return decision.reply


@pytest.mark.parametrize(
    ("renewers", "length", "error"), [(600, 9, 0), (700, 9, 42), (1, 16_000, 0), (1, 16_400, 42), (3, 6_000, 42)]
)
def test_the_names_of_a_token_are_bounded(renewers: int, length: int, error: int) -> None:
    image = Image()
    names = [Principal("User", "r" * length)] * renewers
    assert create(image, at(ALICE), -1, *names).error_code == error
    assert len(image.tokens) == (0 if error else 1)
    owner = {"owner_principal_type": "User", "owner_principal_name": "o" * 20_000}
    assert create(image, at(ALICE), **owner).error_code == 42


def test_a_client_and_all_together_create_a_bounded_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "TOKENS_OF_REQUESTER_MAX", 3)
    monkeypatch.setattr(delegation_tokens, "TOKENS_MAX", 5)
    image, random = Image(), at(ALICE).random
    clients = (ALICE, ALICE, ALICE, ALICE, BOB, BOB, BOB)
    errors = [create(image, replace(at(client), random=random)).error_code for client in clients]
    assert errors == [0, 0, 0, 44, 0, 0, 44]


def test_the_hmac_of_a_token_is_kafkas() -> None:
    kafkas = (
        "j/JTidSvDl1i1+RkHmoMcvb+zjbAt0S/PKVl+lq/Exfu567"
        "5DcLX70QnVA9Qxbt1H3LDmNV5PuK4d13JcxHw9A=="
    )
    assert base64.b64encode(token_hmac(b"secret", "ZpFeXMifR_C41jZplmd_BA")).decode() == kafkas
    assert password_of(b"secret", "ZpFeXMifR_C41jZplmd_BA") == kafkas


def test_an_empty_key_is_none() -> None:
    assert secret_of(static(delegation_token_secret_key="")) is None
    assert secret_of(static()) is None


LIFETIMES = [
    (-1, DAY_MS, WEEK_MS),
    (0, DAY_MS, WEEK_MS),
    (-5, DAY_MS, WEEK_MS),
    (1, 1, 1),
    (1000, 1000, 1000),
    (100_000_000, DAY_MS, 100_000_000),
    (10**9, DAY_MS, WEEK_MS),
    (2**63 - 1, DAY_MS, WEEK_MS),
]


@pytest.mark.parametrize(("asked_ms", "expiry_ms", "max_ms"), LIFETIMES)
def test_a_token_ends_after_the_shorter_of_what_is_asked_for_and_the_settings(
    asked_ms: int, expiry_ms: int, max_ms: int
) -> None:
    image = Image()
    answer = create(image, at(ALICE), asked_ms, BOB)
    assert answer.issue_timestamp_ms == NOW_MS
    assert answer.expiry_timestamp_ms - NOW_MS == expiry_ms
    assert answer.max_timestamp_ms - NOW_MS == max_ms
    parts = ("User", "alice")
    record = DelegationTokenRecord(
        answer.token_id, parts, parts, (("User", "bob"),), NOW_MS, NOW_MS + max_ms, NOW_MS + expiry_ms
    )
    assert image.tokens == {answer.token_id: record}
    assert answer.hmac == token_hmac(b"secret", answer.token_id)


def test_settings_limit_lifetime_and_renewal_even_if_they_are_huge() -> None:
    settings = {"delegation_token_max_lifetime_ms": str(2**63 - 1), "delegation_token_expiry_time_ms": "5000"}
    image = Image()
    answer = create(image, at(ALICE, **settings))
    assert answer.expiry_timestamp_ms == NOW_MS + 5000
    assert answer.max_timestamp_ms == 2**63 - 1
    assert renew(image, at(ALICE, **settings), answer.hmac, 9000).expiry_timestamp_ms == NOW_MS + 5000
    assert renew(image, at(ALICE, **settings), answer.hmac, 3000).expiry_timestamp_ms == NOW_MS + 3000


def test_no_token_id_begins_with_a_dash_and_no_two_are_the_same() -> None:
    image, known = Image(), at(ALICE)
    ids = {create(image, known).token_id for _ in range(500)}
    assert len(ids) == 500
    assert not any(token_id.startswith("-") for token_id in ids)


@pytest.mark.parametrize(
    ("asked_ms", "left_ms"), [(-1, DAY_MS), (0, DAY_MS), (1_000_000, 1_000_000), (10**12, DAY_MS), (2**63 - 1, DAY_MS)]
)
def test_a_renewal_counts_from_now(asked_ms: int, left_ms: int) -> None:
    image = Image()
    made = create(image, at(ALICE), 10 * DAY_MS, BOB)
    for principal in (ALICE, BOB):
        answer = renew(image, at(principal, NOW_MS + 5000), made.hmac, asked_ms)
        assert answer.expiry_timestamp_ms == NOW_MS + 5000 + left_ms == image.tokens[made.token_id].expires_ms


def test_no_renewal_goes_beyond_the_maximum() -> None:
    image = Image()
    made = create(image, at(ALICE), DAY_MS + 1000)
    assert renew(image, at(ALICE, NOW_MS + 9000), made.hmac).expiry_timestamp_ms == made.max_timestamp_ms
    assert expire(image, at(ALICE, NOW_MS + 9000), made.hmac, 2**63 - 1).expiry_timestamp_ms == made.max_timestamp_ms


def test_the_end_may_be_put_off_or_set_or_be_now() -> None:
    image = Image()
    made = create(image, at(ALICE))
    assert expire(image, at(ALICE), made.hmac, 2 * DAY_MS).expiry_timestamp_ms == NOW_MS + 2 * DAY_MS
    assert expire(image, at(ALICE), made.hmac, 0).expiry_timestamp_ms == NOW_MS
    assert name_of(renew(image, at(ALICE), made.hmac).error_code) == "NONE", "it ends after this millisecond"
    assert expire(image, at(ALICE), made.hmac, -7).expiry_timestamp_ms == NOW_MS
    assert image.tokens == {}


def test_who_asks_about_an_ended_token_is_told_so_before_or_after_the_mismatch() -> None:
    image = Image()
    made = create(image, at(ALICE), 1000)
    later_ms = NOW_MS + 1001
    for principal, after in ((ALICE, "DELEGATION_TOKEN_EXPIRED"), (CAROL, "DELEGATION_TOKEN_OWNER_MISMATCH")):
        known = at(principal, later_ms)
        assert name_of(renew(image, known, made.hmac).error_code) == "DELEGATION_TOKEN_EXPIRED"
        assert name_of(expire(image, known, made.hmac, 100).error_code) == after
    assert name_of(expire(image, at(ALICE, later_ms), made.hmac).error_code) == "NONE"


def test_a_token_is_found_by_its_whole_hmac_only() -> None:
    image = Image()
    made = create(image, at(ALICE))
    for wrong in (b"", made.hmac[:-1], made.hmac + b"x", token_hmac(b"another key", made.token_id)):
        assert name_of(renew(image, at(ALICE), wrong).error_code) == "DELEGATION_TOKEN_NOT_FOUND"
    assert name_of(renew(image, at(ALICE), memoryview(made.hmac)).error_code) == "NONE"  # type: ignore[arg-type]


def test_who_knows_the_hmac_of_a_token_of_others_neither_renews_nor_ends_it() -> None:
    image = Image()
    made = create(image, at(ALICE), -1, BOB)
    token = image.tokens[made.token_id]
    for period_ms in (-1, 0, 1000):
        for answer in (expire(image, at(CAROL), made.hmac, period_ms), renew(image, at(CAROL), made.hmac, period_ms)):
            assert name_of(answer.error_code) == "DELEGATION_TOKEN_OWNER_MISMATCH"
    assert image.tokens == {made.token_id: token}
    assert name_of(expire(image, at(BOB), made.hmac).error_code) == "NONE"


def test_who_requested_a_token_for_somebody_else_sees_it_but_neither_renews_nor_ends_it() -> None:
    image = Image()
    made = create(image, at(ALICE), owner_principal_type="User", owner_principal_name="carol")
    for answer in (renew(image, at(ALICE), made.hmac), expire(image, at(ALICE), made.hmac)):
        assert name_of(answer.error_code) == "DELEGATION_TOKEN_OWNER_MISMATCH"
    assert name_of(renew(image, at(CAROL), made.hmac).error_code) == "NONE"
    seen = at_once(describing(image, EVERYTHING, Access(NOBODY_MAY, ALICE), b"secret"))
    assert [one.token_id for one in seen.tokens] == [made.token_id]


def test_the_hmac_of_a_token_is_compared_in_a_time_that_does_not_tell_how_much_of_it_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[Any, Any]] = []

    def compare(mine: Any, given: Any) -> bool:
        compared.append((mine, given))
        return bool(mine == given)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    image = Image()
    made = create(image, at(ALICE))
    assert name_of(renew(image, at(ALICE), made.hmac[:-1] + b"x").error_code) == "DELEGATION_TOKEN_NOT_FOUND"
    assert name_of(expire(image, at(ALICE), made.hmac).error_code) == "NONE"
    assert compared == [(made.hmac, made.hmac[:-1] + b"x"), (made.hmac, made.hmac)]


def test_a_renewal_that_finds_nothing_computes_no_hmac_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a small request costs the active controller milliseconds, which no quota of its client counts."""
    image, known = Image(), at(ALICE, delegation_token_secret_key="of this test")
    for _ in range(50):
        create(image, known)
    computed: list[bytes] = []
    digest = hmac.digest

    def counted(key: bytes, message: bytes, name: str) -> bytes:
        computed.append(message)
        return digest(key, message, name)

    monkeypatch.setattr(hmac, "digest", counted)
    for _ in range(3):
        assert name_of(renew(image, known, b"none").error_code) == "DELEGATION_TOKEN_NOT_FOUND"
    assert len(computed) <= len(image.tokens)


def test_only_users_are_the_same_principal() -> None:
    image = Image()
    made = create(image, at(ALICE))
    assert name_of(renew(image, at(Principal("Group", "alice")), made.hmac).error_code) == (
        "DELEGATION_TOKEN_OWNER_MISMATCH"
    )


def test_an_owner_whose_type_is_null_is_refused() -> None:
    image = Image()
    answer = create(image, at(ALICE), owner_principal_type=None, owner_principal_name="bob")
    assert name_of(answer.error_code) == "INVALID_PRINCIPAL_TYPE"
    assert (answer.issue_timestamp_ms, answer.token_id, answer.hmac, image.tokens) == (-1, "", b"", {})


def test_the_controller_removes_what_has_ended_in_decisions_of_a_limited_size() -> None:
    owner = ("User", "alice")
    ended = [DelegationTokenRecord(f"t{n}", owner, owner, (), 0, 100, 50) for n in range(RECORDS_MAX + 1)]
    lasting = DelegationTokenRecord("lasting", owner, owner, (), 0, 200, 51)
    image = applied([*ended, lasting])
    known = at(ALICE, 51)
    first = at_once(ending(image, known))
    assert (len(first.records), first.reply) == (RECORDS_MAX, True)
    applied(first.records, image)
    second = at_once(ending(image, known))
    assert (len(second.records), second.reply) == (1, False)
    applied(second.records, image)
    assert list(image.tokens) == ["lasting"]


OWNER = ("User", "alice")
MANY = [DelegationTokenRecord(f"t{number}", OWNER, OWNER, (), 0, 100, 50) for number in range(10 * ELEMENTS_IN_A_STEP)]
EVERYTHING = DescribeDelegationTokenRequest(owners=None)
STEPPED: dict[str, Callable[[Image], Generator[None, None, Any]]] = {
    "renewing": lambda image: renewing(image, RenewDelegationTokenRequest(hmac=b"none"), at(ALICE)),
    "expiring": lambda image: expiring(image, ExpireDelegationTokenRequest(hmac=b"none"), at(ALICE)),
    "ending": lambda image: ending(image, at(ALICE, 0)),
    "describing": lambda image: describing(image, EVERYTHING, Access(None, BOB), b"secret"),
}


@pytest.mark.parametrize("name", STEPPED)
def test_many_tokens_are_looked_at_in_steps(name: str) -> None:
    assert sum(1 for _ in STEPPED[name](applied(MANY))) == len(MANY) // ELEMENTS_IN_A_STEP


def test_a_snapshot_has_the_tokens_in_their_order_and_a_copy_is_independent() -> None:
    image = Image()
    known = at(BOB)
    create(image, known, 1000, BOB, CAROL)
    made = create(image, known)
    renew(image, at(BOB, NOW_MS + 5), made.hmac)
    assert list(applied(decode_snapshot(encode_snapshot(records_of(image)))).tokens.values()) == list(
        image.tokens.values()
    )
    copy = copy_image(image)
    expire(image, at(BOB), made.hmac)
    assert (len(image.tokens), len(copy.tokens)) == (1, 2)


def test_no_record_has_the_hmac_or_the_key() -> None:
    image = Image()
    made = create(image, at(ALICE))
    (record,) = image.tokens.values()
    encoded = encode_record(record)
    assert b"secret" not in encoded
    assert made.hmac not in encoded
    assert made.token_id.encode() in encoded


def test_a_creation_is_not_sent_twice() -> None:
    assert not is_idempotent(CreateDelegationTokenRequest(renewers=[]))
    assert not is_idempotent(ExpireDelegationTokenRequest())
    assert is_idempotent(RenewDelegationTokenRequest())


def test_a_described_token_has_the_times_of_its_record() -> None:
    image = Image()
    made = create(image, at(ALICE), 1000, BOB, owner_principal_type="User", owner_principal_name="carol")
    for asked in (ALICE, BOB, CAROL):
        owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=asked.name)]
        request = DescribeDelegationTokenRequest(owners=owners)
        (token,) = at_once(describing(image, request, Access(None, Principal("User", "dora")), b"secret")).tokens
        assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (
            NOW_MS,
            NOW_MS + 1000,
            NOW_MS + 1000,
        )
        assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
        assert [one.principal_name for one in token.renewers] == ["bob"]
