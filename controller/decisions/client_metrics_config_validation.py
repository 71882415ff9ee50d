"""Validates the configs of a client metrics subscription (KIP-714). Source: `ClientMetricsConfigs.validate`."""

import re
from collections.abc import Mapping

from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError
from minikafka.protocol.settings.registry import CLIENT_METRICS_SETTINGS, InvalidSetting

__all__ = ["check"]

_SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check(name: str, wanted: Mapping[str, str]) -> None:
    """Validates all configs that a subscription would have.

    Raises:
        InvalidRequestError: the name is empty, a config is unknown, or the interval is out of bounds.
        InvalidConfigError: the interval is not a number, or a pattern is invalid.
    """
    if not name:
        raise InvalidRequestError("Subscription name can't be empty")
    for key, text in wanted.items():
        setting = CLIENT_METRICS_SETTINGS.get(key)
        if setting is None:
            raise InvalidRequestError(f"Unknown client metrics configuration: {key}")
        try:
            value = setting.parse(text)
        except InvalidSetting as error:
            if error.reason.startswith("Not a number"):
                raise InvalidConfigError(str(error)) from None
            raise InvalidRequestError(
                f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            ) from None
        if key == "match":
            assert isinstance(value, tuple), "match is a list"
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    selector, equals, expression = pattern.partition("=")
    try:
        re.compile(expression)
    except re.error:
        equals = ""
    if not equals or selector.strip() not in _SELECTORS or "=" in expression:
        raise InvalidConfigError(f"Illegal client matching pattern: {pattern}")
