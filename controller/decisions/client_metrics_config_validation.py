"""Validates the configs of a client metrics subscription (KIP-714). Source: `ClientMetricsConfigs.validate`."""

import re
from collections.abc import Mapping

from minikafka.controller.patterns import InvalidPattern, Pattern
from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError
from minikafka.protocol.settings.registry import CLIENT_METRICS_SETTINGS, InvalidSetting, Setting

__all__ = ["check"]

_SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

_HUGE_COUNT = re.compile(r"\{[0-9]{9}")
"""A repetition count of nine or more digits. RE2 takes it for letters, and rejects shorter counts above 1,000."""


def check(name: str, wanted: Mapping[str, str]) -> None:
    """Validates all configs that a subscription would have.

    Raises:
        InvalidRequestError: the name is empty, a config is unknown, or the interval is out of bounds.
        InvalidConfigError: the interval is not a number, or a pattern is invalid.
    """
    if not name:
        raise InvalidRequestError("Subscription name can't be empty")
    for key in wanted:
        if key not in CLIENT_METRICS_SETTINGS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {key}")
    out_of_bounds = [key for key, text in wanted.items() if _is_out_of_bounds(CLIENT_METRICS_SETTINGS[key], text)]
    for key in out_of_bounds:
        raise InvalidRequestError(
            f"Invalid value {wanted[key]} for {key}, interval must be between 100 and 3600000 (1 hour)"
        )
    if "match" in wanted:
        patterns = CLIENT_METRICS_SETTINGS["match"].parse(wanted["match"])
        assert isinstance(patterns, tuple), "match is a list"
        for pattern in patterns:
            _check_pattern(pattern)


def _is_out_of_bounds(setting: Setting, text: str) -> bool:
    """Whether a value is out of its bounds. Raises InvalidConfigError if the value is not of the setting's type."""
    try:
        setting.parse(text)
    except InvalidSetting as error:
        if error.reason.startswith("Value must be"):
            return True
        raise InvalidConfigError(str(error)) from None
    return False


def _check_pattern(pattern: str) -> None:
    selector, equals, expression = pattern.partition("=")
    try:
        Pattern(expression.strip())
    except InvalidPattern:
        equals = ""
    if _HUGE_COUNT.search(expression) or not equals or selector.strip() not in _SELECTORS or "=" in expression:
        raise InvalidConfigError(f"Illegal client matching pattern: {pattern}")
