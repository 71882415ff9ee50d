"""Validates the dynamic configs of a topic. Source: `LogConfig.validate`."""

from collections.abc import Mapping

from minikafka.protocol.errors import InvalidConfigError
from minikafka.protocol.settings.registry import ANY_TOPIC_SETTINGS, TOPIC_SETTINGS, InvalidSetting, SettingValue

__all__ = ["check_topic_settings"]


def check_topic_settings(settings: Mapping[str, str]) -> None:
    """Validates all configs that a topic would have.

    Raises:
        InvalidConfigError: a name is unknown, a value is invalid, or two values conflict.
    """
    for name in settings:
        if name not in ANY_TOPIC_SETTINGS:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
    values = _parse_all(settings)
    if values.get("remote.storage.enable"):
        raise InvalidConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    low, high = _number(values, "min.compaction.lag.ms"), _number(values, "max.compaction.lag.ms")
    if low > high:
        raise InvalidConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _parse_all(settings: Mapping[str, str]) -> dict[str, SettingValue]:
    """The values of known topic configs.

    Raises:
        InvalidConfigError: the first invalid value, in order of the names.
    """
    try:
        return {name: ANY_TOPIC_SETTINGS[name].parse(settings[name]) for name in sorted(settings)}
    except InvalidSetting as error:
        raise InvalidConfigError(str(error)) from None


def _number(values: Mapping[str, SettingValue], name: str) -> int:
    value = values.get(name, TOPIC_SETTINGS[name].default)
    assert isinstance(value, int), f"{name} is a number"
    return value
