"""`NODE_SETTINGS`: all settings of a node, from the tables beside this file; `INTERNAL_SETTINGS`: undocumented ones."""

from collections.abc import Iterable

from minikafka.protocol.settings import (
    broker,
    controller,
    coordinators,
    logs,
    replication,
    security,
    tiered_storage,
)
from minikafka.protocol.settings.bounds import Valid
from minikafka.protocol.settings.declaration import LOW, MEDIUM, READ_ONLY, Setting
from minikafka.protocol.settings.synonyms import value_with_synonyms
from minikafka.protocol.settings.value_types import SettingType


def by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Settings by name, sorted by name."""
    return {setting.name: setting for setting in sorted(settings, key=lambda setting: setting.name)}


NODE_SETTINGS = by_name(
    broker.SETTINGS
    + controller.SETTINGS
    + replication.SETTINGS
    + logs.SETTINGS
    + tiered_storage.SETTINGS
    + coordinators.SETTINGS
    + security.SETTINGS
)

UNSTABLE_VERSIONS = "unstable.api.versions.enable"
INTERNAL_SETTINGS = by_name([
    Setting("allow.everyone.if.no.acl.found", SettingType.BOOLEAN, False, None, LOW, READ_ONLY,
            "Whether everybody may do everything with a resource that no ACL matches; a setting of the authorizer.",
            supported=True),
    Setting("super.users", SettingType.STRING, "", None, LOW, READ_ONLY,
            "Principals that may do everything, separated by semicolons: `User:admin;User:bob`; a setting of the "
            "authorizer.", supported=True),
    Setting(UNSTABLE_VERSIONS, SettingType.BOOLEAN, False, None, LOW, READ_ONLY,
            "Whether versions of APIs are offered that are not stable in Kafka 4.3: version 6 of InitProducerId.",
            supported=True),
])  # fmt: skip
"""Settings of a node that Kafka's documentation leaves out. DescribeConfigs returns them only if they are set."""


def inherited(name: str, node_name: str, *, valid: Valid | None = None, doc: str = "") -> Setting:
    """Declare the setting of a topic or group that overrides a node setting.

    Type, default, description and `supported` are those of the node setting `node_name`, and so is the bound unless
    `valid` is given. If the node setting is null by default, its first synonym that is not null supplies the default.
    """
    node = NODE_SETTINGS[node_name]
    return Setting(
        name,
        node.type,
        value_with_synonyms(node_name, lambda synonym: NODE_SETTINGS[synonym].kafkas_default),
        valid or node.valid,
        MEDIUM,
        "",
        doc or node.doc,
        node.supported,
        node_name,
    )
