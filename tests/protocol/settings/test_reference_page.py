"""`docs/settings.md` is up to date."""

from pathlib import Path

from minikafka.broker.settings.node_config import OWN_DEFAULTS
from minikafka.broker.settings.own_settings import OWN_SETTINGS
from minikafka.protocol.settings.reference_page import settings_page
from minikafka.protocol.settings.registry import CLIENT_METRICS_SETTINGS, NODE_SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == settings_page(OWN_DEFAULTS, OWN_SETTINGS), "run `make pages`"


def test_settings_without_effect_are_marked() -> None:
    lines = settings_page({}, {}).splitlines()
    for name, setting in NODE_SETTINGS.items():
        (line,) = [line for line in lines if line.startswith(f"- **`{name}`** (") and "node setting" not in line][:1]
        assert line.endswith("*Not supported.*") != setting.supported


def test_the_settings_of_client_metrics_have_their_effect() -> None:
    """Which `subscriptions.py` reads, all of them."""
    assert [one.name for one in CLIENT_METRICS_SETTINGS.values() if not one.supported] == []
    assert "3 settings of a client metrics subscription; 3 supported." in settings_page({}, {})
