"""What settings a topic may have, and which it has in the end.

Source: `LogConfig.validate`, `KafkaConfigSchema`.
"""

from collections.abc import Iterator, Mapping

from minikafka.controller.settings.effective_settings import ConfigSource, InForce
from minikafka.protocol.errors import InvalidConfigError
from minikafka.protocol.settings.registry import TOPIC_SETTINGS, InvalidSetting, SettingValue

__all__ = ["check_topic_settings", "effective_settings", "parse_all"]


def check_topic_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that a topic cannot have, one by one and together.

    Raises:
        InvalidConfigError: an unknown name, a wrong value, or values that contradict each other.
    """
    for name in settings:
        if name not in TOPIC_SETTINGS:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
    values = parse_all(settings)
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


def parse_all(settings: Mapping[str, str]) -> dict[str, SettingValue]:
    """The values of known topic settings.

    Raises:
        InvalidConfigError: with the first that is wrong, in the order of the settings' names.
    """
    try:
        return {name: TOPIC_SETTINGS[name].parse(settings[name]) for name in sorted(settings)}
    except InvalidSetting as error:
        raise InvalidConfigError(str(error)) from None


def _number(values: Mapping[str, SettingValue], name: str) -> int:
    value = values.get(name, TOPIC_SETTINGS[name].default)
    assert isinstance(value, int), f"{name} is a number"
    return value


def effective_settings(
    settings: Mapping[str, str], in_force: InForce
) -> Iterator[tuple[str, str | None, ConfigSource]]:
    """All settings of a topic with these of its own: name, value and source, in order of their names."""
    sources = in_force.topic_sources()
    defaults = in_force.topic_defaults()
    for name, setting in TOPIC_SETTINGS.items():
        if name in settings:
            yield name, settings[name], ConfigSource.TOPIC
        else:
            yield name, setting.render(defaults[name]), sources[name]
