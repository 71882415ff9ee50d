"""`docs/log-events.md` lists every log event in the sources, with a meaning for each."""

from pathlib import Path

import pytest
from support.log_events import PAGE, NotConstant, events_in_file, events_in_sources, meanings_in_page, render

AGAIN = "run `make pages`"


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert page == render(events_in_sources(), meanings_in_page(page)), AGAIN


@pytest.mark.slow
def test_every_event_has_a_meaning() -> None:
    meanings = meanings_in_page(PAGE.read_text())
    missing = [event for event in events_in_sources() if not meanings.get((event.logger, event.event))]
    assert missing == []


@pytest.mark.slow
def test_events_of_nodes_are_lower_case() -> None:
    events = [event.event for event in events_in_sources() if "%" not in event.event]
    shouted = [event for event in events if event != event.lower() or event.endswith(".")]
    assert shouted == []


@pytest.mark.slow
def test_loggers_are_named_after_their_area() -> None:
    assert {event.logger for event in events_in_sources() if not event.logger.startswith("minikafka")} == set()


@pytest.mark.parametrize(
    "call", ['log.info(f"broker {x}")', "log.info(x)", 'log.info("broker fenced", **x)', "say = log.info"]
)
def test_an_event_that_is_not_constant_is_refused(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.log_events.ROOT", tmp_path)
    module = tmp_path / "module.py"
    module.write_text(f'log = structlog.get_logger("minikafka.area")\n{call}\n')
    with pytest.raises(NotConstant, match=r"module.py:2"):
        list(events_in_file(module))
