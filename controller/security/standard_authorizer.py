"""`StandardAuthorizer` decides by the ACLs of the metadata log, as Kafka's class of that name.

A super user may do everything. Otherwise a DENY that fits refuses, then an ALLOW that fits allows; without either, the
operation is refused, unless no ACL at all is about the resource and `allow.everyone.if.no.acl.found` is true. An ALLOW
of READ, WRITE, DELETE or ALTER also allows DESCRIBE, and one of ALTER_CONFIGS also DESCRIBE_CONFIGS.

Source: `StandardAuthorizerData`, `Authorizer.authorizeByResourceType` (KIP-679).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import AclRecord, Record, RemoveAcl
from minikafka.controller.metadata.subscribers import Subscriber
from minikafka.controller.security.access import Principal
from minikafka.controller.security.acl_index import ANY_HOST, EVERYBODY, WILDCARD, AclIndex
from minikafka.controller.security.decision_log import DecisionLog
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType

__all__ = ["CLASS_NAME", "StandardAuthorizer", "authorizer_of", "super_users"]

CLASS_NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

LOGS_DENIED = frozenset({"INFO", "DEBUG", "TRACE"})
"""The levels of the log at which a denial is logged."""
LOGS_ALLOWED = frozenset({"DEBUG", "TRACE"})
"""The levels of the log at which what is allowed is logged."""
KNOWN_MAX = 10_000
"""The most decisions that are remembered; then all are forgotten, and made again."""
NAME_LENGTH_MAX = 255
"""Decisions about longer names are not remembered: no topic or group of a client that means well has one."""

_IMPLIED = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
GRANTING = {
    int(operation): frozenset(map(int, (operation, AclOperation.ALL, *_IMPLIED.get(operation, ()))))
    for operation in AclOperation
}
"""The operations of an ALLOW that allow an operation."""
PROBE = "hardcode"
"""The name for which Kafka asks whether an operation is allowed on some resource: it finds super users."""


Question = tuple[str, str, int, int, str | None]
"""The text of a principal, its host, an operation, and type and name of a resource; None for any name."""


class Verdict(NamedTuple):
    """Whether an operation is allowed, and the rule that says so."""

    is_allowed: bool
    rule: Acl | str


SUPER_USER = Verdict(is_allowed=True, rule="super user")
NOT_LOADED = Verdict(is_allowed=False, rule="ACLs not loaded")
NO_RULE_FITS = Verdict(is_allowed=False, rule="no ACL fits")


class StandardAuthorizer:
    """Decides what principals may do, by the ACLs of a cluster.

    Args:
        super_users: the principals that may do everything, as `User:admin`.
        open_without_acls: `allow.everyone.if.no.acl.found`.
        levels: the level by logger of the node, read at each decision.
        log: takes the decisions.
        is_loaded: whether the ACLs have been read; until then, only super users may do anything.
    """

    def __init__(
        self,
        super_users: frozenset[str],
        *,
        open_without_acls: bool,
        levels: Mapping[str, str],
        log: DecisionLog,
        is_loaded: Callable[[], bool] = lambda: True,
    ) -> None:
        self._super_users = super_users
        self._without_acls = Verdict(is_allowed=open_without_acls, rule="no ACL is about the resource")
        self._levels = levels
        self._log = log
        self._is_loaded = is_loaded
        self._was_loaded = False
        self._index = AclIndex()
        self._known: dict[Question, Verdict] = {}

    async def apply(self, records: Sequence[Record]) -> None:
        """Take over the changes of ACLs among committed records; see `Subscriber`."""
        self.has_loaded()
        for record in records:
            match record:
                case AclRecord():
                    self.add(Acl(*record.acl))
                case RemoveAcl():
                    self._index.remove(Acl(*record.acl))
                    self._known.clear()

    def add(self, acl: Acl) -> None:
        """Decide by this ACL, too."""
        self._index.add(acl)
        self._known.clear()

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_denied: bool,
    ) -> bool:
        """See `Authorizer.allows`."""
        question = principal.text, host, operation, resource_type, name
        is_allowed, rule = self._known.get(question) or self._decide(*question)
        if is_allowed:
            if self._levels["root"] in LOGS_ALLOWED:
                self._log.allowed(*question, str(rule))
        elif log_denied and self._levels["root"] in LOGS_DENIED:
            self._log.denied(*question, str(rule))
        return is_allowed

    def allows_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """See `Authorizer.allows_any`. Implied operations do not count."""
        probe = principal.text, host, operation, resource_type, PROBE
        if (self._known.get(probe) or self._decide(*probe)).is_allowed:
            return True
        if not self.has_loaded():
            return False
        key = principal.text, host, operation, resource_type, None
        verdict = self._known.get(key)
        if verdict is None:
            fitting = [
                acl
                for acl in self._naming(resource_type, principal.text)
                if acl.host in (ANY_HOST, host) and acl.operation in (AclOperation.ALL, operation)
            ]
            verdict = self._remember(key, Verdict(_leaves_some(fitting), "some resource"))
        return verdict.is_allowed

    def _naming(self, resource_type: int, principal: str) -> Iterator[Acl]:
        yield from self._index.naming(resource_type, principal)
        if principal != EVERYBODY:
            yield from self._index.naming(resource_type, EVERYBODY)

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        verdict = self._decided(principal, host, operation, resource_type, name)
        if len(name) <= NAME_LENGTH_MAX:
            self._remember((principal, host, operation, resource_type, name), verdict)
        return verdict

    def has_loaded(self) -> bool:
        """Whether the ACLs have been read."""
        self._was_loaded = self._was_loaded or self._is_loaded()
        return self._was_loaded

    def _remember(self, key: Question, verdict: Verdict) -> Verdict:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        if verdict is not NOT_LOADED:
            self._known[key] = verdict
        return verdict

    def _decided(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        if principal in self._super_users:
            return SUPER_USER
        if not self.has_loaded():
            return NOT_LOADED
        allowing, without = None, self._without_acls
        clients = (principal, host), (principal, ANY_HOST), (EVERYBODY, host), (EVERYBODY, ANY_HOST)
        for rules in self._index.rules_of(resource_type, name):
            without = NO_RULE_FITS
            for acl in (acl for client in clients for acl in rules.get(client, ())):
                if acl.permission == AclPermission.DENY:
                    if acl.operation in (operation, AclOperation.ALL):
                        return Verdict(is_allowed=False, rule=acl)
                elif acl.operation in GRANTING[operation]:
                    allowing = acl
        return without if allowing is None else Verdict(is_allowed=True, rule=allowing)


class Offset(Protocol):
    """An offset that grows."""

    offset: int


class Applied(Protocol):
    """The metadata that is applied on a node."""

    @property
    def progress(self) -> Offset: ...

    @property
    def image(self) -> Image: ...

    def subscribe(self, subscriber: Subscriber) -> None: ...


def authorizer_of(
    static: StaticSettings,
    applied: Applied,
    levels: Mapping[str, str],
    confirmed_offset: Callable[[], int],
    now_ms: Callable[[], int],
) -> StandardAuthorizer | None:
    """The authorizer that a node's settings name; None without `authorizer.class.name`.

    Args:
        static: the settings of the node.
        applied: has the ACLs, and tells of changes.
        levels: the level by logger of the node.
        confirmed_offset: returns the offset before which everything is committed, by the leader; 0 until it has told.
        now_ms: returns the time in milliseconds.
    """
    if not static.value("authorizer.class.name"):
        return None
    authorizer = StandardAuthorizer(
        super_users(str(static.value("super.users") or "")),
        open_without_acls=bool(static.value("allow.everyone.if.no.acl.found")),
        levels=levels,
        log=DecisionLog(now_ms),
        is_loaded=_initial_load(confirmed_offset, lambda: applied.progress.offset),
    )
    for acl in applied.image.acls:
        authorizer.add(acl)
    applied.subscribe(authorizer.apply)
    return authorizer


def _initial_load(confirmed_offset: Callable[[], int], applied_offset: Callable[[], int]) -> Callable[[], bool]:
    """Whether everything is applied that was committed when a leader first told how much is.

    A snapshot alone does not count: its ACLs may have been removed while the node was down. What is committed later is
    not waited for: on a busy cluster a node is always a record behind.
    """
    target = 0

    def is_loaded() -> bool:
        nonlocal target
        target = target or confirmed_offset()
        return 0 < target <= applied_offset()

    return is_loaded


def super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, which are separated by semicolons.

    Raises:
        ValueError: one of them has no type, as `User:`.
    """
    users = frozenset(one.strip() for one in text.split(";") if one.strip())
    for user in sorted(users):
        if ":" not in user:
            raise ValueError(f"{user!r} is no principal: write User:{user}")
    return users


def _leaves_some(fitting: Sequence[Acl]) -> bool:
    """Whether the ALLOWs among ACLs for one client and operation allow a resource that no DENY covers."""
    denied = {(acl.pattern_type, acl.resource_name) for acl in fitting if acl.permission == AclPermission.DENY}
    allowed = {(acl.pattern_type, acl.resource_name) for acl in fitting if acl.permission == AclPermission.ALLOW}
    everything = (PatternType.LITERAL, WILDCARD)
    if everything in denied or everything in allowed:
        return everything not in denied
    return any(
        (pattern != PatternType.LITERAL or (pattern, name) not in denied)
        and not any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
        for pattern, name in allowed
    )
