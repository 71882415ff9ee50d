"""`StandardAuthorizer` decides as Kafka's class: each decision is compared with a plain reading of all ACLs."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.controller.line_rate import LINES_MAX
from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.records import AclRecord, RemoveAcl
from minikafka.controller.security import standard_authorizer
from minikafka.controller.security.access import Access, Principal
from minikafka.controller.security.decision_log import DecisionLog
from minikafka.controller.security.standard_authorizer import StandardAuthorizer, super_users
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(
    operation: AclOperation = READ,
    name: str = "t",
    *,
    kind: AclResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    permission: AclPermission = ALLOW,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def an_authorizer(*acls: Acl, is_open: bool = False, level: str = "INFO", **more: Any) -> StandardAuthorizer:
    more.setdefault("log", DecisionLog(lambda: 0))
    authorizer = StandardAuthorizer(
        frozenset({"User:admin"}), open_without_acls=is_open, levels={"root": level}, **more
    )
    for one in acls:
        authorizer.add(one)
    return authorizer


def allows(authorizer: StandardAuthorizer, operation: AclOperation = READ, name: str = "t", **who: Any) -> bool:
    access = Access(authorizer, who.get("principal", ALICE), who.get("host", HOST))
    return access.allows(operation, who.get("kind", TOPIC), name)


def test_without_acls_only_super_users_may_do_anything() -> None:
    authorizer = an_authorizer()
    assert not allows(authorizer)
    assert allows(authorizer, principal=Principal("User", "admin"))
    assert not allows(authorizer, principal=Principal("user", "admin"))


def test_a_denial_does_not_hold_for_super_users() -> None:
    authorizer = an_authorizer(acl(AclOperation.ALL, "*", principal="User:*", permission=DENY))
    assert allows(authorizer, principal=Principal("User", "admin"))
    assert not allows(authorizer)


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, DESCRIBE])
def test_these_operations_imply_describe(operation: AclOperation) -> None:
    authorizer = an_authorizer(acl(operation))
    assert allows(authorizer, DESCRIBE)
    assert allows(authorizer, operation)


@pytest.mark.parametrize(
    "operation", [AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS]
)
def test_these_operations_do_not_imply_describe(operation: AclOperation) -> None:
    assert not allows(an_authorizer(acl(operation)), DESCRIBE)


def test_a_denial_of_the_implied_operation_leaves_the_other_and_the_reverse() -> None:
    denied = an_authorizer(acl(READ), acl(DESCRIBE, permission=DENY))
    assert (allows(denied, READ), allows(denied, DESCRIBE)) == (True, False)
    implied = an_authorizer(acl(WRITE), acl(WRITE, permission=DENY))
    assert (allows(implied, WRITE), allows(implied, DESCRIBE)) == (False, True)


def test_alter_configs_implies_describe_configs_only() -> None:
    authorizer = an_authorizer(acl(AclOperation.ALTER_CONFIGS))
    assert allows(authorizer, AclOperation.DESCRIBE_CONFIGS)
    assert not allows(an_authorizer(acl(AclOperation.DESCRIBE_CONFIGS)), AclOperation.ALTER_CONFIGS)


IMPLIED = {
    DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
"""By operation, those whose ALLOW allows it as well. Source: `StandardAuthorizerData`."""
EVERY_OPERATION = [one for one in AclOperation if one > AclOperation.ALL]


@pytest.mark.parametrize("granted", [AclOperation.ALL, *EVERY_OPERATION])
def test_an_operation_allows_itself_and_what_it_implies_and_denies_itself_only(granted: AclOperation) -> None:
    allowed = {one for one in EVERY_OPERATION if allows(an_authorizer(acl(granted)), one)}
    denied = {
        one
        for one in EVERY_OPERATION
        if not allows(an_authorizer(acl(AclOperation.ALL), acl(granted, permission=DENY)), one)
    }
    itself = set(EVERY_OPERATION) if granted is AclOperation.ALL else {granted}
    assert denied == itself
    assert allowed == itself | {one for one, by in IMPLIED.items() if granted in by}


def test_a_prefix_named_with_a_star_is_no_wildcard() -> None:
    authorizer = an_authorizer(acl(name="*", pattern=PREFIXED))
    assert (allows(authorizer, name="t"), allows(authorizer, name="*t")) == (False, True)
    assert allows(an_authorizer(acl(name="*")), name="t")


def test_hosts_are_compared_as_texts() -> None:
    assert not allows(an_authorizer(acl(host="localhost")), host="127.0.0.1")
    assert allows(an_authorizer(acl(host="127.0.0.1")), host="127.0.0.1")


def test_any_acl_about_a_resource_ends_that_everybody_may_use_it() -> None:
    authorizer = an_authorizer(acl(WRITE, "t", principal="User:bob", permission=DENY), is_open=True)
    assert (allows(authorizer, name="t"), allows(authorizer, name="u")) == (False, True)
    authorizer.add(acl(name="*", principal="User:bob"))
    assert (allows(authorizer, name="u"), allows(authorizer, name="u", kind=GROUP)) == (False, True)


def test_a_change_of_acls_counts_at_once() -> None:
    authorizer = an_authorizer()
    assert not allows(authorizer)
    trio.run(authorizer.apply, [AclRecord(acl())])
    assert allows(authorizer)
    trio.run(authorizer.apply, [AclRecord(acl(permission=DENY)), AclRecord(acl())])
    assert not allows(authorizer)
    trio.run(authorizer.apply, [RemoveAcl(acl(permission=DENY))])
    assert allows(authorizer)
    trio.run(authorizer.apply, [RemoveAcl(acl())])
    assert not allows(authorizer)


@pytest.mark.parametrize("is_open", [False, True])
def test_before_the_acls_are_loaded_only_super_users_may_do_anything(is_open: bool) -> None:
    loaded = [False]
    authorizer = an_authorizer(acl(), acl(name="x-", pattern=PREFIXED), is_open=is_open, is_loaded=lambda: loaded[0])
    assert not allows(authorizer)
    assert not authorizer.allows_any(ALICE, HOST, READ, TOPIC)
    assert allows(authorizer, principal=Principal("User", "admin"))
    loaded[0] = True
    assert allows(authorizer)
    assert authorizer.allows_any(ALICE, HOST, READ, TOPIC)
    loaded[0] = False
    assert allows(authorizer, name="x-1")


def test_a_busy_cluster_has_loaded_its_acls_although_a_record_is_always_on_its_way() -> None:
    """A broker that was ready refused everything for as long as records were committed before it had applied them."""
    static: Any = {"authorizer.class.name": standard_authorizer.CLASS_NAME, "super.users": "User:admin"}
    applied: Any = SimpleNamespace(
        image=SimpleNamespace(acls=[acl()]), progress=SimpleNamespace(offset=0), subscribe=lambda subscriber: None
    )
    committed = [0]
    authorizer = standard_authorizer.authorizer_of(
        SimpleNamespace(value=static.get), applied, {"root": "INFO"}, lambda: committed[0], lambda: 0
    )
    assert authorizer is not None
    assert not allows(authorizer), "it is not known what is committed"
    committed[0], applied.progress.offset = 10, 8
    trio.run(authorizer.apply, [])
    committed[0], applied.progress.offset = 11, 9
    assert not allows(authorizer), "what was committed at first is not applied"
    committed[0], applied.progress.offset = 12, 10
    assert allows(authorizer)


OPERATIONS = [READ, WRITE, DESCRIBE, AclOperation.ALL]
NAMES = ["*", "a", "ab", "abc", "b", "hard", "hardcode"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice"]
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(["*", HOST, "10.0.0.2"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from([ALLOW, DENY]),
)
CHANGES = st.lists(st.tuples(st.booleans(), ACLS), max_size=12)


def plainly_allowed(acls: Collection[Acl], operation: AclOperation, name: str, *, is_open: bool) -> bool:
    """Read all ACLs one by one, as the documentation says."""
    implied = {DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER}}.get(operation, set())
    about = [
        one
        for one in acls
        if one.resource_type == TOPIC
        and (
            (one.pattern_type == LITERAL and one.resource_name in (name, "*"))
            or (one.pattern_type == PREFIXED and name.startswith(one.resource_name))
        )
    ]
    fitting = [one for one in about if one.principal in ("User:alice", "User:*") and one.host in ("*", HOST)]
    if any(one.permission == DENY and one.operation in (operation, AclOperation.ALL) for one in fitting):
        return False
    if any(one.permission == ALLOW and one.operation in {operation, AclOperation.ALL, *implied} for one in fitting):
        return True
    return is_open and not about


def plainly_allowed_any(acls: Collection[Acl], operation: AclOperation) -> bool:
    fitting = [
        one
        for one in acls
        if one.resource_type == TOPIC
        and one.principal in ("User:alice", "User:*")
        and one.host in ("*", HOST)
        and one.operation in (operation, AclOperation.ALL)
    ]
    denied = {(one.pattern_type, one.resource_name) for one in fitting if one.permission == DENY}
    if (LITERAL, "*") in denied:
        return False
    for one in fitting:
        name = one.resource_name
        if one.permission == DENY:
            continue
        if (one.pattern_type, name) == (LITERAL, "*"):
            return True
        is_covered = any(kind == PREFIXED and name.startswith(prefix) for kind, prefix in denied)
        if not is_covered and not (one.pattern_type == LITERAL and (LITERAL, name) in denied):
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(CHANGES, st.booleans(), st.sampled_from([READ, WRITE, DESCRIBE]))
def test_each_decision_is_that_of_reading_all_acls(
    changes: list[tuple[bool, Acl]], is_open: bool, operation: AclOperation
) -> None:
    authorizer, present = an_authorizer(is_open=is_open), dict[Acl, None]()
    for adds, one in changes:
        if adds:
            present[one] = None
            trio.run(authorizer.apply, [AclRecord(one)])
        elif one in present:
            del present[one]
            trio.run(authorizer.apply, [RemoveAcl(one)])
        for name in NAMES:
            expected = plainly_allowed(present, operation, name, is_open=is_open)
            assert allows(authorizer, operation, name) is expected, (name, present)
        hard = plainly_allowed(present, operation, "hardcode", is_open=is_open)
        expected = hard or plainly_allowed_any(present, operation)
        assert authorizer.allows_any(ALICE, HOST, operation, TOPIC) is expected, present
    for one in list(present):
        trio.run(authorizer.apply, [RemoveAcl(one)])
    assert allows(authorizer, operation, "a") is is_open


ABOUT_ABC = [(LITERAL, "abc"), (LITERAL, "*"), (PREFIXED, "a"), (PREFIXED, "abc"), (PREFIXED, "abcd"), (LITERAL, "ab")]
OF_CLIENTS = [("User:alice", "*"), ("User:*", HOST), ("User:*", "*"), ("User:alice", "10.0.0.2"), ("User:bob", "*")]


def test_of_each_two_acls_a_denial_holds_whatever_their_patterns_clients_and_order() -> None:
    """The pairs that a search by resource and by client could overlook, which examples at random seldom have."""
    single = [
        acl(operation, name, pattern=pattern, principal=principal, host=host, permission=permission)
        for pattern, name in ABOUT_ABC
        for principal, host in OF_CLIENTS
        for operation, permission in ((READ, ALLOW), (READ, DENY), (AclOperation.ALL, DENY))
    ]
    for first in single:
        for second in single:
            authorizer = an_authorizer(first, second)
            expected = plainly_allowed((first, second), READ, "abc", is_open=False)
            assert allows(authorizer, READ, "abc") is expected, (first, second)
            any_expected = expected_any((first, second))
            assert authorizer.allows_any(ALICE, HOST, READ, TOPIC) is any_expected, (first, second)


def expected_any(acls: Collection[Acl]) -> bool:
    return plainly_allowed(acls, READ, "hardcode", is_open=False) or plainly_allowed_any(acls, READ)


def test_what_is_remembered_holds_for_the_same_client_host_operation_and_resource_only() -> None:
    authorizer = an_authorizer(acl(host=HOST), acl(WRITE, "u", kind=GROUP))
    asked = [
        (principal, host, operation, kind, name)
        for principal in (ALICE, BOB, Principal("Group", "alice"))
        for host in (HOST, "10.0.0.2")
        for operation in (READ, WRITE)
        for kind in (TOPIC, GROUP)
        for name in ("t", "u")
    ]
    for order in (asked, asked[::-1]):
        authorizer.add(acl(name="another", principal="User:nobody"))  # Everything is forgotten.
        for principal, host, operation, kind, name in order:
            reads, writes = (host, operation, kind, name) == (HOST, READ, TOPIC, "t"), (WRITE, GROUP, "u")
            expected = principal == ALICE and (reads or (operation, kind, name) == writes)
            question = (principal, host, operation, kind)
            assert authorizer.allows(*question, name, log_denied=False) is expected, (question, name)


def test_whether_some_resource_is_allowed_is_remembered_for_the_same_client_host_and_operation_only() -> None:
    authorizer = an_authorizer(acl(host=HOST), acl(WRITE, kind=GROUP))
    asked = [
        (principal, host, operation, kind)
        for principal in (ALICE, BOB)
        for host in (HOST, "10.0.0.2")
        for operation in (READ, WRITE)
        for kind in (TOPIC, GROUP)
    ]
    allowed = {(ALICE, HOST, READ, TOPIC), (ALICE, HOST, WRITE, GROUP), (ALICE, "10.0.0.2", WRITE, GROUP)}
    for order in (asked, asked[::-1]):
        authorizer.add(acl(name="another", principal="User:nobody"))  # Everything is forgotten.
        assert {one for one in order if authorizer.allows_any(*one)} == allowed


def test_among_ten_thousand_acls_a_decision_reads_few() -> None:
    counted = Counted(READ)
    many = [acl(name=f"topic-{n}", principal=f"User:u{n % 100}") for n in range(5000)]
    many += [acl(name=f"team-{n}-", principal=f"User:u{n % 100}", pattern=PREFIXED) for n in range(4000)]
    many += [acl(counted, "*", principal=f"User:v{n}") for n in range(1000)]
    authorizer = an_authorizer(*many)
    counted.read = 0
    for _ in range(3):
        assert allows(authorizer, name="team-77-x", principal=Principal("User", "u77"))
        assert allows(authorizer, name="topic-123", principal=Principal("User", "u23"))
        assert not allows(authorizer, name="topic-123", principal=Principal("User", "u24"))
        assert allows(authorizer, name="any", principal=Principal("User", "v5"))
    assert 0 < counted.read <= 10


class Counted(int):
    """The code of an operation that counts how often it is compared."""

    read = 0

    def __hash__(self) -> int:
        self.read += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self.read += 1
        return super().__eq__(other)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_authorizer, "KNOWN_MAX", 10)
    authorizer = an_authorizer(acl())
    for n in range(100):
        allows(authorizer, name=f"t{n}")
        allows(authorizer, name="t" * 300 + str(n))
        assert len(authorizer._known) <= 10
    assert not any(len(key[4] or "") > 255 for key in authorizer._known)


def test_refusals_are_logged_and_what_is_allowed_at_debug_only() -> None:
    authorizer = an_authorizer(acl(DESCRIBE), acl(permission=DENY))
    with structlog.testing.capture_logs() as logs:
        allows(authorizer, READ)
        allows(authorizer, DESCRIBE)
        Access(authorizer, ALICE, HOST).allows(WRITE, TOPIC, "t", log_denied=False)
    assert logs == [
        {
            "event": "operation denied",
            "log_level": "info",
            "principal": "User:alice",
            "host": HOST,
            "operation": "READ",
            "kind": "TOPIC",
            "resource": "t",
            "rule": "DENY READ on LITERAL TOPIC t to User:alice from *",
        }
    ]
    authorizer._levels = {"root": "DEBUG"}
    with structlog.testing.capture_logs() as logs:
        allows(authorizer, READ)
        allows(authorizer, DESCRIBE)
        Access(authorizer, ALICE, HOST).allows(WRITE, TOPIC, "t", log_denied=False)
        allows(authorizer, WRITE, "else")
    assert [(one["event"], one["rule"]) for one in logs] == [
        ("operation denied", "DENY READ on LITERAL TOPIC t to User:alice from *"),
        ("operation allowed", "ALLOW DESCRIBE on LITERAL TOPIC t to User:alice from *"),
        ("operation denied", "no ACL is about the resource"),
    ]


def test_of_many_denials_in_a_second_some_are_logged_and_the_others_counted() -> None:
    """One request of 100 KB names 9,000 resources, and a line costs ten times as much as a decision."""
    times = [0]
    authorizer = an_authorizer(log=DecisionLog(lambda: times[0]))
    with structlog.testing.capture_logs() as logs:
        assert not any(allows(authorizer, name=f"t{number}") for number in range(9000))
        times[0] = 999
        assert not allows(authorizer)
        assert len(logs) == LINES_MAX
        times[0] = 1000
        assert not allows(authorizer)
        times[0] = 2000
        assert not allows(authorizer)
    events = [(one["event"], one.get("count")) for one in logs[LINES_MAX:]]
    assert events == [("more operations denied", 8901), ("operation denied", None), ("operation denied", None)]


def test_above_level_info_nothing_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = an_authorizer(level="WARN")
    monkeypatch.setattr(authorizer, "_log", None)
    assert not allows(authorizer)


def test_super_users_are_separated_by_semicolons() -> None:
    assert super_users(" User:admin; User:CN=a,O=b ;;") == {"User:admin", "User:CN=a,O=b"}
    assert super_users("") == frozenset()
    with pytest.raises(ValueError, match="'bob' is no principal: write User:bob"):
        super_users("User:admin;bob")
