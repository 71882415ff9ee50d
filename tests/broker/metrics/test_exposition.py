"""The text that a scrape gets: as Prometheus's own parser reads it, and in short steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from minikafka.broker.metrics.exposition import SAMPLES_AT_ONCE, text_in_steps
from minikafka.broker.metrics.family import Family, gauge, total
from minikafka.storage.steps import at_once

MANY = 2 * SAMPLES_AT_ONCE + 1


def read(*families: Family | None) -> dict[str, list[tuple[str, dict[str, str], float]]]:
    """The samples of each family: (name, labels, value)."""
    text = b"".join(at_once(text_in_steps([lambda: iter(families)]))).decode()
    return {
        family.name: [(one.name, one.labels, one.value) for one in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_a_gauge_and_a_counter() -> None:
    found = read(gauge("connections", "Open connections.", 3), None, total("requests", "Requests.", 2**53))
    assert found == {
        "connections": [("connections", {}, 3)],
        "requests": [("requests_total", {}, 2**53)],
    }


def test_labels_are_escaped() -> None:
    odd = 'a"b\\c\nd é'
    found = read(Family("size", "gauge", "A size \\ of\nthings.", [((odd, "0"), 1)], ("topic", "partition")))
    assert found == {"size": [("size", {"topic": odd, "partition": "0"}, 1)]}


def test_a_family_of_many_samples_is_one_family() -> None:
    samples = [((str(number),), float(number)) for number in range(MANY)]
    found = read(Family("size", "gauge", "Sizes.", samples, ("partition",)))
    assert [value for _, _, value in found["size"]] == list(range(MANY))


def test_other_tasks_run_after_every_few_samples() -> None:
    taken: list[int] = []

    def samples() -> Iterator[tuple[tuple[str, ...], float]]:
        for number in range(MANY):
            taken.append(number)
            yield (str(number),), 0

    at_pauses = []
    steps = text_in_steps([lambda: iter([Family("size", "gauge", "Sizes.", samples(), ("partition",))])])
    for _ in steps:
        at_pauses.append(len(taken))
    read_in_a_step = [after - before for before, after in pairwise(at_pauses)]
    assert (at_pauses[-1], max(read_in_a_step)) == (MANY, SAMPLES_AT_ONCE)
