"""The page of a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from html import escape

from chaos.checks.anomaly import Anomaly
from chaos.history import INVOKE, Operation, Poll, ReadAll, ReplicaLog
from chaos.journal import Fault
from chaos.report.figures import Effect, Phase, effects_of, gap_s, phase, writes_of
from chaos.report.run_facts import RunFacts
from chaos.report.style import STYLE
from chaos.report.timeline import timeline

ANOMALIES_MAX = 100
EVIDENCE_MAX = 1_000
BANDS = {
    "dead": "killed or stopped",
    "paused": "paused",
    "network": "cut off from nodes or clients",
    "disk": "disk full",
    "clock": "wrong clock",
}
HEAD = (
    "<th>#<th class=left>fault<th>at<th>lasted<th>nodes"
    "<th>writes/s before<th>during<th>after<th>median before<th>during<th>after"
    "<th>longest before<th>during<th>after<th>longest pause"
)


def report_page(facts: RunFacts) -> str:
    """The whole page."""
    parts = [*_summary(facts), "<h2>Timeline</h2>", _legend(), timeline(facts), *_anomalies(facts), *_effects(facts)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(facts.title)}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _summary(facts: RunFacts) -> Iterable[str]:
    writes = writes_of(facts.events)
    acknowledged = [one for one in writes if one.acknowledged]
    faults = [one for one in facts.entries if isinstance(one, Fault)]
    all_of_it = phase(acknowledged, facts.began_ns, facts.ended_ns + 1)
    minutes, seconds = divmod(round(facts.seconds(facts.ended_ns)), 60)
    yield f"<h1>{escape(facts.title)}</h1>{_verdict(facts)}"
    tiles = {
        "seed": escape(facts.seed),
        "duration": f"{minutes}:{seconds:02d}",
        "faults": f"{len(faults):,}",
        "operations": f"{sum(one.type == INVOKE for one in facts.events):,}",
        "writes acknowledged": f"{len(acknowledged):,}",
        "median latency of a write": _time(all_of_it.median_s),
        "longest pause of all writes": _time(_longest_pause(faults, facts)),
        "anomalies": f"{len(facts.anomalies):,}" if not facts.ended_early else "not judged",
    }
    shown = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles.items())
    yield f'<div class="tiles">{shown}</div>'
    if facts.done:
        done = ", ".join(f"{escape(what)} {count:,}" for what, count in facts.done.items())
        yield f'<p class="quiet">Done: {done}.</p>'
    for kind, reason in facts.cannot.items():
        yield f'<p class="quiet">Not injected: {escape(kind)} ({escape(reason)}).</p>'


def _verdict(facts: RunFacts) -> str:
    if facts.ended_early:
        return f'<p class="verdict bad">The run ended early.</p><pre>{escape(facts.ended_early)}</pre>'
    if facts.anomalies:
        return f'<p class="verdict bad">{_count(len(facts.anomalies), "anomaly", "anomalies")}.</p>'
    return '<p class="verdict good">No anomaly: every guarantee held.</p>'


def _longest_pause(faults: list[Fault], facts: RunFacts) -> float:
    """Between the beginning of the first fault and the end of the last one; programs start and end outside of it."""
    acknowledged = [one for one in writes_of(facts.events) if one.acknowledged]
    if not faults or not acknowledged:
        return 0.0
    return gap_s(acknowledged, faults[0].began_ns, max(one.ended_ns for one in faults))


def _anomalies(facts: RunFacts) -> Iterable[str]:
    if not facts.anomalies:
        return
    yield "<h2>Anomalies, with the operations that prove them</h2>"
    for one in facts.anomalies[:ANOMALIES_MAX]:
        yield _anomaly(one, facts)
    if len(facts.anomalies) > ANOMALIES_MAX:
        yield f"<p>{len(facts.anomalies) - ANOMALIES_MAX:,} more.</p>"


def _anomaly(anomaly: Anomaly, facts: RunFacts) -> str:
    evidence = "".join(f"<pre>{escape(_operation(one, anomaly, facts))}</pre>" for one in anomaly.evidence)
    return f"<details open><summary><b>{anomaly.kind}</b>: {escape(anomaly.sentence)}</summary>{evidence}</details>"


def _operation(one: Operation, anomaly: Anomaly, facts: RunFacts) -> str:
    """An operation; of many records only those that the anomaly is about."""
    info = f" ({one.info})" if one.info else ""
    action, left_out = one.action, ""
    if isinstance(action, Poll | ReadAll | ReplicaLog):
        about = tuple(record for record in action.records if repr(record.value) in anomaly.sentence)
        if about:
            left_out = f" and {len(action.records) - len(about):,} records more"
            action = replace(action, records=about)
    text = f"{action}{left_out}"
    cut = f"{text[:EVIDENCE_MAX]}…" if len(text) > EVIDENCE_MAX else text
    return f"{facts.seconds(one.at_ns):.3f} s  {one.process}  {one.outcome}{info}\n{cut}"


def _legend() -> str:
    kinds = "".join(f'<span class="kind"><i class="{name}"></i>{text}</span>' for name, text in BANDS.items())
    return (
        '<p class="quiet">Shaded: from the beginning of a fault to its end. A colour is a node: as leader in the thick '
        "bar of a partition, and in sync in a thin one below it; red is a partition without a leader. Point at "
        f"anything for its values.</p><p class=quiet>{kinds}</p>"
    )


def _effects(facts: RunFacts) -> Iterable[str]:
    effects = effects_of(facts.entries, writes_of(facts.events), facts.began_ns, facts.ended_ns)
    if not effects:
        return
    yield (
        "<h2>Acknowledged writes before, during and after each fault</h2>"
        '<p class="quiet">Before and after are five seconds, or less where another fault is near. '
        "The longest pause is the longest time without any acknowledgement.</p>"
    )
    rows = "".join(_effect(number, one, facts) for number, one in enumerate(effects, 1))
    yield f'<div class="wide"><table><thead><tr>{HEAD}</thead><tbody>{rows}</tbody></table></div>'


def _effect(number: int, one: Effect, facts: RunFacts) -> str:
    phases: tuple[Phase, ...] = (one.before, one.during, one.after)
    cells = [
        str(number),
        one.fault.name.replace("_", " "),
        f"{facts.seconds(one.fault.began_ns):.1f} s",
        f"{(one.fault.ended_ns - one.fault.began_ns) / 1e9:.1f} s",
        ", ".join(map(str, one.nodes)),
        *(f"{each.rate:.0f}" for each in phases),
        *(_time(each.median_s) if each.count else "–" for each in phases),
        *(_time(each.worst_s) if each.count else "–" for each in phases),
        _time(one.gap_s),
    ]
    shown = "".join(f"<td{' class=left' if index == 1 else ''}>{escape(text)}" for index, text in enumerate(cells))
    return f"<tr>{shown}</tr>"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
