"""The report: what it computes from a history and a journal, and the page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from chaos.checker import check
from chaos.history import Outcome, Produce, Read, ReadAll, Recorder
from chaos.journal import Deed, Entry, Fault, State
from chaos.report.figures import Band, Stretch, bands_of, effects_of, stretches_of, writes_of
from chaos.report.page import report_page
from chaos.report.run_facts import RunFacts
from minikafka.protocol.names import TopicPartition

S = 1_000_000_000
TP = TopicPartition("steady", 0)
VOID = {"meta", "br", "rect", "line", "path", "circle", "th", "td", "tr", "i"}


def facts(*, lost: bool = False, **more: object) -> RunFacts:
    """A write each second for a minute; node 1 is dead from 20 s to 30 s, and no write succeeds until 26 s."""
    now = [0]
    recorder = Recorder(lambda: now[0])
    for second in range(60):
        now[0] = second * S
        sent = recorder.invoke("producer/1", Produce(TP, "<key>", f"value {second}"))
        now[0] += S // 10 if not 20 <= second < 25 else 6 * S
        recorder.complete(sent, Outcome.OK, Produce(TP, "<key>", f"value {second}", second))
    now[0] = 66 * S
    reading = recorder.invoke("final/1", ReadAll(TP))
    kept = [second for second in range(60) if not (lost and second == 7)]
    reads = tuple(Read(TP, second, "<key>", f"value {second}") for second in kept)
    recorder.complete(reading, Outcome.OK, ReadAll(TP, 0, 60, 60, reads))
    entries: list[Entry] = [
        State(0, TP, 1, (1, 2, 3)),
        Deed(20 * S, "kill", (1,)),
        State(21 * S, TP, 2, (2, 3)),
        Deed(30 * S, "start", (1,)),
        Fault(20 * S, 31 * S, "one_dies"),
        State(32 * S, TP, 2, (1, 2, 3)),
    ]
    anomalies = check(recorder.events)
    return RunFacts("a <run>", "7", [1, 2, 3], recorder.events, entries, anomalies, **more)  # type: ignore[arg-type]


class Page(HTMLParser):
    """Checks that elements are closed, and that nothing outside the page is referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.tips: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert tag not in {"script", "link", "img", "iframe", "object"}
        assert not names & {"src", "href", "xlink:href", "onclick"}, attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "title":
            self.tips.append(data)


def test_bands_last_from_the_deed_that_begins_them_to_the_one_that_ends_them() -> None:
    deeds: list[Entry] = [
        Deed(1, "pause", (1, 2)),
        Deed(2, "cut_link", (3, 1)),
        Deed(3, "kill", (2,)),
        Deed(4, "resume", (1,)),
        Deed(5, "mend_link", (1, 3)),
        Deed(6, "start", (2,)),
        Deed(7, "fill_disk", (3,)),
    ]
    assert bands_of(deeds, 9) == [
        Band((1,), "paused", 1, 4),
        Band((2,), "paused", 1, 3),
        Band((1, 3), "link cut", 2, 5),
        Band((2,), "dead", 3, 6),
        Band((3,), "disk full", 7, 9),
    ]


def test_each_state_of_a_partition_lasts_until_the_next_one() -> None:
    run = facts()
    assert stretches_of(run.entries, run.ended_ns) == {
        TP: [
            Stretch(1, (1, 2, 3), 0, 21 * S),
            Stretch(2, (2, 3), 21 * S, 32 * S),
            Stretch(2, (1, 2, 3), 32 * S, 66 * S),
        ]
    }


def test_latencies_before_during_and_after_a_fault() -> None:
    run = facts()
    (effect,) = effects_of(run.entries, writes_of(run.events), run.began_ns, run.ended_ns)
    assert effect.nodes == (1,)
    assert (effect.before.count, effect.before.median_s, effect.before.worst_s) == (5, 0.1, 0.1)
    assert effect.during.count == 11
    assert effect.during.worst_s == pytest.approx(6.0)
    assert effect.after.median_s == pytest.approx(0.1)
    assert effect.gap_s == pytest.approx(5.1)


def test_the_page_of_a_clean_run() -> None:
    page = Page(report_page(facts(cannot={"full disks": "no <root>"}, done={"records": 60})))
    assert "a <run>" in page.text
    assert "No anomaly: every guarantee held." in page.text
    assert "Not injected: full disks (no <root>)." in page.text
    assert "one dies" in page.text
    assert "node 1: dead at 20.0 s for 10.0 s" in page.tips
    assert "steady-0 from 21.0 s: leader 2, in sync 2, 3" in page.tips


def test_the_page_of_a_run_with_an_anomaly_shows_its_evidence() -> None:
    run = facts(lost=True)
    page = Page(report_page(run))
    assert "1 anomaly." in page.text
    assert "lost acknowledged write" in page.text
    assert "'value 7'" in page.text
    assert "7.000 s  producer/1  ok" in page.text
    assert "No anomaly" not in page.text


def test_the_page_of_a_run_that_ended_early_does_not_say_that_it_was_clean() -> None:
    page = Page(report_page(facts(ended_early="NoProgress: <steady-0> has no leader")))
    assert "The run ended early." in page.text
    assert "NoProgress: <steady-0> has no leader" in page.text
    assert "No anomaly" not in page.text


def test_the_page_of_a_run_without_anything() -> None:
    page = Page(report_page(RunFacts("empty", "1", [1], [], [])))
    assert "No anomaly" in page.text


def test_the_page_has_dark_colours_for_each_light_one() -> None:
    text = report_page(facts())
    light, _, dark = text.partition("prefers-color-scheme: dark")
    names = {part.partition(":")[0].strip() for part in light.split(";") if part.strip().startswith("--")}
    assert len(names) > 15
    assert all(f"{name}:" in dark for name in names)
