"""Validates the dynamic configs of a group against the bounds in the broker configs. Source: `GroupConfig.validate`."""

from collections.abc import Mapping

from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError
from minikafka.protocol.settings.registry import GROUP_SETTINGS, InvalidSetting, SettingValue

__all__ = ["check"]

_BOUNDED_BELOW_AND_ABOVE = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
)
_UPPER = {"streams.num.standby.replicas": "group.streams.max.standby.replicas"}
_KINDS = ("consumer", "share", "streams")


def check(name: str, wanted: Mapping[str, str], node: Mapping[str, SettingValue]) -> None:
    """Validates all configs that a group would have.

    Args:
        name: the name of the group, which need not exist.
        wanted: all configs that the group would have.
        node: the effective broker configs, for bounds and defaults.

    Raises:
        InvalidRequestError: the name is empty.
        InvalidConfigError: a config is unknown, or its value is invalid or out of bounds.
    """
    if not name:
        raise InvalidRequestError("Default group resources are not allowed.")
    for key in wanted:
        if key not in GROUP_SETTINGS:
            raise InvalidConfigError(f"Unknown group config name: {key}")
    try:
        values = {key: GROUP_SETTINGS[key].parse(text) for key, text in wanted.items()}
    except InvalidSetting as error:
        raise InvalidConfigError(str(error)) from None
    for key, value in values.items():
        _check_bounds(key, value, node)
    for kind in _KINDS:
        _check_heartbeat(kind, values, node)


def _check_bounds(key: str, value: SettingValue, node: Mapping[str, SettingValue]) -> None:
    low = high = _UPPER.get(key)
    if key in _BOUNDED_BELOW_AND_ABOVE:
        kind, rest = key.split(".", 1)
        low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if _number(value) < _number(node[low]):
            raise InvalidConfigError(f"{key} must be greater than or equal to {low}")
    if high and _number(value) > _number(node[high]):
        raise InvalidConfigError(f"{key} must be less than or equal to {high}")


def _check_heartbeat(kind: str, values: Mapping[str, SettingValue], node: Mapping[str, SettingValue]) -> None:
    heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
    interval = values.get(heartbeat, node[f"group.{heartbeat}"])
    if _number(interval) >= _number(values.get(session, node[f"group.{session}"])):
        raise InvalidConfigError(f"{session} must be greater than {heartbeat}")


def _number(value: SettingValue) -> int:
    assert isinstance(value, int), "a whole number"
    return value
