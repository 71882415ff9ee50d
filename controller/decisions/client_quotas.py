"""AlterClientQuotas and DescribeClientQuotas: quotas of users, client ids, pairs of both, and IP addresses (KIP-546).

Source: `ClientQuotaControlManager`, `ClientQuotasImage`.
"""

import ipaddress
import re
from collections.abc import Generator, Mapping

from minikafka.controller.decisions.decision import Context, Decision, check_size
from minikafka.controller.metadata.image import Entity, Image
from minikafka.controller.metadata.records import ClientQuotaRecord
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, mapping
from minikafka.protocol.errors import InvalidRequestError, KafkaError, UnsupportedVersionError, without_frames
from minikafka.protocol.messages import describe_client_quotas as described
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)
from minikafka.protocol.settings.registry import QUOTA_SETTINGS, SettingType
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding", "describe", "describing"]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
KEYS_OF_IPS = {"connection_creation_rate": SettingType.INT}
KEYS = {name: setting.type for name, setting in QUOTA_SETTINGS.items()}


def deciding(
    image: Image, request: AlterClientQuotasRequest, context: Context
) -> Generator[None, None, Decision[AlterClientQuotasResponse]]:
    """Decide in steps, with a result for each entity. For an entity that is listed twice, the first entry takes effect
    and the result is an error, as in Kafka."""
    records: list[ClientQuotaRecord] = []
    answers: dict[Entity, KafkaError | None] = {}
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for entry in request.entries:
        if pauses.is_due():
            yield
        entity = _entity(entry.entity)
        repeated = entity in answers
        answers.setdefault(entity, None)
        try:
            if repeated:
                raise InvalidRequestError(f"Ignoring duplicate entity {_shown(entity)}")
            changes = _changes(entry, entity, image)
            check_size(records, changes)
            records += changes
        except KafkaError as error:
            answers[entity] = without_frames(error)
    entries = yield from mapping(_answer, answers.items())
    return Decision([] if request.validate_only else [*records], AlterClientQuotasResponse(entries=entries))


decide = without_pauses(deciding)


def _entity(parts: list[EntityData]) -> Entity:
    """The entity of a request; the last part of each type wins."""
    return tuple(sorted({part.entity_type: part.entity_name for part in parts}.items(), key=lambda pair: pair[0]))


def _shown(entity: Entity) -> str:
    return "ClientQuotaEntity(entries={" + ", ".join(f"{kind}={name}" for kind, name in entity) + "})"


def _answer(answer: tuple[Entity, KafkaError | None]) -> ResponseEntryData:
    entity, error = answer
    return ResponseEntryData(
        error_code=error.code if error else 0,
        error_message=error.detail if error else None,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _changes(entry: RequestEntryData, entity: Entity, image: Image) -> list[ClientQuotaRecord]:
    keys = _keys_of(entity)
    if len({operation.key for operation in entry.ops}) < len(entry.ops):
        raise InvalidRequestError(f"Ignoring duplicate entity {_shown(entity)}")
    current = image.quotas.get(entity, {})
    changes: list[ClientQuotaRecord] = []
    for operation in entry.ops:
        if not operation.remove:
            _check_value(operation.key, operation.value, keys)
        value = None if operation.remove else operation.value
        if value != current.get(operation.key):
            changes.append(ClientQuotaRecord(entity, operation.key, value))
    return changes


def _keys_of(entity: Entity) -> Mapping[str, SettingType]:
    """The quotas that an entity can have, with their types.

    Raises:
        InvalidRequestError: the entity is invalid.
    """
    kinds = dict(entity)
    if not kinds:
        raise InvalidRequestError("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
    if IP not in kinds:
        return KEYS
    if len(kinds) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    if kinds[IP] is not None and not _is_address(kinds[IP] or ""):
        raise InvalidRequestError(f"{kinds[IP]} is not a valid IP or resolvable host.")
    return KEYS_OF_IPS


_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+){0,3}")
_NUMBERS_LENGTH_MAX = 15
LOCALHOST = "localhost"


def _is_address(text: str) -> bool:
    """Whether the text is an IP address as Java reads it, or `localhost`. Other host names are not resolved here, and
    count as unknown."""
    if text.lower() == LOCALHOST:
        return True
    if _NUMBERS.fullmatch(text):
        if len(text) > _NUMBERS_LENGTH_MAX:
            return False
        *parts, last = map(int, text.split("."))
        return all(part <= 0xFF for part in parts) and last < 1 << 8 * (4 - len(parts))
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") and ":" in text else text
    try:
        return "%" not in str(ipaddress.ip_address(bare))
    except ValueError:
        return False


_LARGEST: dict[SettingType, float] = {SettingType.INT: 2.0**31 - 1, SettingType.LONG: 2.0**63}


def _check_value(key: str, value: float, keys: Mapping[str, SettingType]) -> None:
    kind = keys.get(key)
    if kind is None:
        raise InvalidRequestError(f"Invalid configuration key {key}")
    if value <= 0:  # Not a number is accepted, as by Kafka.
        raise InvalidRequestError(f"Quota {key} must be greater than 0")
    if kind not in _LARGEST:
        return
    if value > _LARGEST[kind]:
        article = "an" if kind is SettingType.INT else "a"
        raise InvalidRequestError(f"Proposed value for {key} is too large for {article} {kind.name}.")
    if value % 1.0 > 1e-6:
        raise InvalidRequestError(f"{key} cannot be a fractional value.")


EXACT, DEFAULT, ANY = 0, 1, 2


def describing(
    image: Image, request: described.DescribeClientQuotasRequest, version: int
) -> Generator[None, None, described.DescribeClientQuotasResponse]:
    """The quotas of the entities that match a filter. In steps, between which the quotas may change."""
    try:
        exact, present = _filter(request.components)
    except KafkaError as error:
        return described.DescribeClientQuotasResponse(error_code=error.code, error_message=error.detail, entries=None)
    entries: list[described.EntryData] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for entity, quotas in list(image.quotas.items()):
        if pauses.is_due():
            yield
        if _matches(dict(entity), exact, present, strict=request.strict):
            entries.append(_entry(entity, quotas))
    return described.DescribeClientQuotasResponse(error_message="", entries=entries)


describe = without_pauses(describing)


def _filter(components: list[described.ComponentData]) -> tuple[dict[str, str | None], list[str]]:
    """Parse a filter: the name that each type must have (None: the default entity), and the types with any name."""
    exact: dict[str, str | None] = {}
    present: list[str] = []
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequestError("Invalid empty entity type.")
        if kind in exact or kind in present:
            raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersionError(f"Unsupported entity type {kind}")
        _check_match(component)
        if component.match_type == ANY:
            present.append(kind)
        else:
            exact[kind] = component.match
    if IP in (*exact, *present) and len(exact) + len(present) > 1:
        raise InvalidRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return exact, present


_MATCHES = {EXACT: "MATCH_TYPE_EXACT", DEFAULT: "MATCH_TYPE_DEFAULT", ANY: "MATCH_TYPE_SPECIFIED"}


def _check_match(component: described.ComponentData) -> None:
    name = _MATCHES.get(component.match_type)
    if name is None:
        raise InvalidRequestError(f"Unknown match type {component.match_type}")
    if component.match_type == EXACT and component.match is None:
        raise InvalidRequestError(f"Request specified {name}, but set match string to null.")
    if component.match_type != EXACT and component.match is not None:
        raise InvalidRequestError(f"Request specified {name}, but also specified a match string.")


def _matches(
    kinds: Mapping[str, str | None], exact: Mapping[str, str | None], present: list[str], *, strict: bool
) -> bool:
    if strict and len(kinds) != len(exact) + len(present):
        return False
    return all(kind in kinds and kinds[kind] == name for kind, name in exact.items()) and all(
        kind in kinds for kind in present
    )


def _entry(entity: Entity, quotas: Mapping[str, float]) -> described.EntryData:
    return described.EntryData(
        entity=[described.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[described.ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
    )
