"""Settings in environment variables, spelled as in Apache Kafka's own image (`KafkaDockerWrapper`). Pure.

`KAFKA_LOG_DIRS` or `MINIKAFKA_LOG_DIRS` is log.dirs: `_` stands for a dot, `__` for an underscore, `___` for a dash.
MINIKAFKA_ overrides KAFKA_.
"""

import re
from collections.abc import Mapping

__all__ = ["from_environment", "variables"]

PREFIXES = ("KAFKA_", "MINIKAFKA_")
"""The later one takes precedence."""

_NO_SETTINGS = re.compile(
    r"KAFKA_(VERSION|OPTS|[A-Z_]*_OPTS?|LOG4J_.*|TOOLS_LOG4J_.*|JMX_HOSTNAME)|MINIKAFKA_(BOOTSTRAP_SERVER|CONTEXT)"
)
"""Variables of Kafka's image and of our clients that are no settings of a node."""


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in an environment, by Kafka's names."""
    return {name: environment[variable] for name, variable in variables(environment).items()}


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in an environment, each with the variable that counts."""
    found: dict[str, str] = {}
    for prefix in PREFIXES:
        for variable in sorted(environment):
            if variable.startswith(prefix) and not _NO_SETTINGS.fullmatch(variable):
                found[_setting_name(variable.removeprefix(prefix))] = variable
    return found


def _setting_name(variable: str) -> str:
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")
