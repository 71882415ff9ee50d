"""Prints `docs/settings.md`: the declared settings, with the defaults of a minikafka node."""

from minikafka.broker.settings.node_config import OWN_DEFAULTS
from minikafka.broker.settings.own_settings import OWN_SETTINGS
from minikafka.protocol.settings.reference_page import settings_page

if __name__ == "__main__":
    print(settings_page(OWN_DEFAULTS, OWN_SETTINGS), end="")
