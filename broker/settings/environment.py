"""Reads a node's settings from environment variables, named as in Apache Kafka's image (`KafkaDockerWrapper`). Pure.

`KAFKA_LOG_DIRS` and `MINIKAFKA_LOG_DIRS` set log.dirs: `_` stands for a dot, `__` for an underscore, `___` for a dash.
The prefix `MINIKAFKA_` overrides `KAFKA_`, which overrides `KAFKA_CFG_`, the prefix of Bitnami's image.
"""

import re
from collections.abc import Mapping

__all__ = ["from_environment", "variables"]

PREFIXES = ("KAFKA_CFG_", "KAFKA_", "MINIKAFKA_")
"""The prefixes of variables, in ascending order of precedence."""

_NO_SETTINGS = re.compile(
    r"KAFKA_(VERSION|OPTS|[A-Z_]*_OPTS?|LOG4J_.*|TOOLS_LOG4J_.*|JMX_HOSTNAME)"
    r"|MINIKAFKA_(BOOTSTRAP_SERVER|CONTEXT|COMMAND_CONFIG)"
    r"|KAFKA_(CLUSTER_ID|KRAFT_CLUSTER_ID|ENABLE_KRAFT|HOME|BASE_DIR|VOLUME_DIR|CONF_DIR|CONF_FILE)"
)
"""Variables of Kafka's image, of Bitnami's image and of minikafka's clients that are not settings of a node."""


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the settings in an environment, by Kafka's names of the settings."""
    return {name: environment[variable] for name, variable in variables(environment).items()}


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in an environment: by Kafka's name of each, the variable that takes precedence."""
    found: dict[str, str] = {}
    for prefix in PREFIXES:
        for variable in sorted(environment):
            if _prefix_of(variable) == prefix and not _NO_SETTINGS.fullmatch(variable):
                found[_setting_name(variable.removeprefix(prefix))] = variable
    return found


def _prefix_of(variable: str) -> str:
    return max((prefix for prefix in PREFIXES if variable.startswith(prefix)), key=len, default="")


def _setting_name(variable: str) -> str:
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")
