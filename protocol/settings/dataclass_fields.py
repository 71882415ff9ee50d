"""Makes dataclass fields that take their default and their value from a declared setting.

    @dataclass(frozen=True, slots=True)
    class Limits:
        size_max: int = setting_field(NODE_SETTINGS["group.max.size"])

    Limits()                                      # Kafka's default
    from_values(Limits, {"group.max.size": 5})    # a node's value
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from minikafka.protocol.settings.declaration import Setting

T = TypeVar("T")


def setting_field(setting: Setting, convert: Callable[[Any], Any] | None = None) -> Any:
    """A dataclass field with the default of `setting`; `convert` is applied to the default and to values."""
    default = setting.kafkas_default
    metadata = {"setting": setting.name, "convert": convert}
    return field(default=convert(default) if convert else default, metadata=metadata)


def from_values(cls: type[T], values: Mapping[str, Any], **others: Any) -> T:
    """Make an instance of a dataclass from parsed values by setting name.

    Absent and null settings keep the default; `others` are fields that no setting supplies.
    """
    for item in fields(cls):  # type: ignore[arg-type]
        value = values.get(item.metadata.get("setting", ""))
        if value is not None:
            convert = item.metadata["convert"]
            others[item.name] = convert(value) if convert else value
    return cls(**others)
