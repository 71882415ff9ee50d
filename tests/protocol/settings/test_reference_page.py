"""The reference page of settings is the one that the declarations make.

After a change: `python -c "from minikafka.broker.settings.node_config import OWN_DEFAULTS as d; from
minikafka.protocol.settings.reference_page import settings_page as p; print(p(d), end='')" > docs/settings.md`
"""

from pathlib import Path

from minikafka.broker.settings.node_config import OWN_DEFAULTS
from minikafka.protocol.settings.reference_page import settings_page
from minikafka.protocol.settings.registry import NODE_SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == settings_page(OWN_DEFAULTS), "see the head of this file for how to make it anew"


def test_what_is_not_acted_on_is_marked() -> None:
    lines = settings_page({}).splitlines()
    for name, setting in NODE_SETTINGS.items():
        (line,) = [line for line in lines if line.startswith(f"- **`{name}`** (") and "node setting" not in line][:1]
        assert line.endswith("*Not acted on.*") != setting.acted_on
