"""`Setting`: the declaration of one setting: name, type, default, bounds, update mode; as in Kafka's `ConfigDef`."""

from dataclasses import dataclass
from typing import Any, Final

from minikafka.protocol.settings.bounds import Valid
from minikafka.protocol.settings.value_types import (
    TYPE_NAMES,
    NotOfType,
    SettingType,
    SettingValue,
    parse_text,
    render,
)


class InvalidSetting(ValueError):
    """A value is not valid for its setting.

    Attributes:
        name: the name of the setting.
        value: the given text, None for null; hidden if the setting is a password.
        reason: Kafka's error message.
        allowed: the type and the bound, for the user.
    """

    def __init__(self, name: str, value: str | None, reason: str, allowed: str) -> None:
        shown = "null" if value is None else value
        super().__init__(f"Invalid value {shown} for configuration {name}: {reason} (allowed: {allowed})")
        self.name, self.value, self.reason, self.allowed = name, value, reason, allowed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.value, self.reason, self.allowed)


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default that stands for no default: the setting must be configured."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: the name in Kafka.
        type: the type of its values.
        default: Kafka's default, parsed; None is null.
        valid: the bound on values, or None.
        importance: "high", "medium" or "low", as in Kafka.
        update_mode: "read-only", "per-broker" or "cluster-wide" for node settings, "" for others.
        doc: the description, one sentence.
        supported: whether minikafka supports it.
        synonym: for topic and group settings, the node setting that supplies the default.
    """

    name: str
    type: SettingType
    default: "SettingValue | _Required"
    valid: Valid | None
    importance: str
    update_mode: str
    doc: str
    supported: bool = False
    synonym: str | None = None

    def parse(self, text: str | None) -> SettingValue:
        """Parse a text into a value as Kafka's ConfigDef does: trim, parse by type, check the bound.

        Raises:
            InvalidSetting: the text is not of the type, or the value is out of bounds.
        """
        try:
            value = None if text is None else parse_text(self.type, text)
        except NotOfType as fault:
            raise self.invalid(text, str(fault)) from None
        if isinstance(value, tuple):
            value = self._checked_list(text, value)
        problem = self.valid.problem(value) if self.valid else None
        if problem:
            raise self.invalid(self.render(value) if self.type is SettingType.STRING else text, problem)
        return value

    def invalid(self, text: str | None, reason: str) -> InvalidSetting:
        """The error for a value of this setting; a password is not shown."""
        return InvalidSetting(self.name, "[hidden]" if self.sensitive else text, reason, self.allowed)

    def _checked_list(self, text: str | None, items: tuple[str, ...]) -> tuple[str, ...]:
        if not (self.valid and self.valid.distinct):
            return items
        if any(not item for item in items):
            raise self.invalid(text, f"Configuration '{self.name}' values must not be empty.")
        return tuple(dict.fromkeys(items))

    def render(self, value: SettingValue) -> str | None:
        """The text of a parsed value; see `value_types.render`."""
        return render(value)

    @property
    def kafkas_default(self) -> SettingValue:
        """Kafka's default, parsed; null if the setting is required."""
        return None if isinstance(self.default, _Required) else self.default

    @property
    def default_number(self) -> int:
        """The default of a setting of whole numbers that is not null."""
        assert isinstance(self.default, int), f"{self.name} has the default {self.default!r}"
        return self.default

    @property
    def default_text(self) -> str | None:
        """Kafka's default as text; None if it is null or the setting is required."""
        return None if isinstance(self.default, _Required) else self.render(self.default)

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret that must not be shown or logged."""
        return self.type is SettingType.PASSWORD

    @property
    def read_only(self) -> bool:
        """Whether the setting cannot be changed on a running node."""
        return self.update_mode == "read-only"

    @property
    def allowed(self) -> str:
        """The type and the bound in words."""
        kind = TYPE_NAMES[self.type]
        return f"{kind}, {self.valid.text}" if self.valid and self.valid.text else kind


HIGH, MEDIUM, LOW = "high", "medium", "low"
READ_ONLY, PER_BROKER, CLUSTER_WIDE = "read-only", "per-broker", "cluster-wide"
