"""Tables of the commands of Kafka's tools with their outcomes: what is in such a file, and what of an outcome counts.

    # A comment.
    $ topics --bootstrap-server {broker-1} --create --topic seen    the command; `{…}` stands for a place
      masked: Epoch: \\d+                                            what these find is `…` in the outcome
      only: ^Topic                                                  the lines of the outcome that count
      sorted                                                        their order does not count
      eventually                                                    asked again until the outcome is this one
      stdin: a:1                                                    a line of the tool's standard input
      file plan.json: {"version": 1}                                a file, `{folder}/plan.json` to the command
      beside: classic member of readers on seen                     a client meanwhile (`tool_companions`)
      differs: other words                                          minikafka does otherwise, on purpose
    | Created topic seen.                                           a line of its output
    ! WARNING: …                                                    a line of its errors
    = 0                                                             its exit code
    ~= 1                                                            what minikafka does then; lines as above

Ids, times, ports, folders and the amount of white space differ from run to run; they are replaced in every outcome.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

OUTCOME = ("|", "!", "=")
USUAL_MASKS = (
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?!([A-Z][a-z]+)+(?![\w-]))[\w-]{22}(?![\w-])"), "{uuid}"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "{ms}"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,:]\d+)?(Z|[+-]\d\d:?\d\d)?"), "{time}"),
)
STACK_TRACE = re.compile(r"\s+(at \S+\(|\.\.\. \d+ (more|common frames))")
OPTIONS = re.compile(r"^Option +Description +$", re.MULTILINE)
"""Begins the description of all options, which is not recorded."""


@dataclass(frozen=True)
class Step:
    """A command with its outcome.

    Attributes:
        before: comments and empty lines.
        options: the lines after the command, each without its indentation.
        outcome: lines of Kafka that begin with a character of `OUTCOME`.
        ours: those of minikafka where it differs on purpose, without the `~`.
    """

    command: str
    before: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()

    def words(self, places: Places) -> list[str]:
        return [places.filled(word) for word in shlex.split(self.command)]

    def values(self, name: str) -> list[str]:
        """The values of an option that can be repeated, such as `masked`."""
        return [line.partition(": ")[2] for line in self.options if line.startswith(f"{name}: ")]

    @property
    def eventually(self) -> bool:
        return "eventually" in self.options

    def files(self) -> dict[str, str]:
        """The text of each file; an option for each of its lines."""
        found: dict[str, str] = {}
        for line in self.options:
            if line.startswith("file "):
                name, _, text = line.removeprefix("file ").partition(": ")
                found[name] = f"{found.get(name, '')}{text}\n"
        return found

    def counted(self, code: int, out: str, err: str, places: Places) -> tuple[str, ...]:
        """What counts of an outcome."""
        return (*self._counted("|", out, places), *self._counted("!", err, places), f"= {code}")

    def expected(self, *, of_kafka: bool) -> tuple[str, ...]:
        return self.outcome if of_kafka or not self.values("differs") else self.ours

    def after(self, outcome: tuple[str, ...], *, of_kafka: bool) -> Step:
        """This command with an outcome in the place where that of Kafka or minikafka is expected."""
        if of_kafka or not self.values("differs"):
            return replace(self, outcome=outcome)
        return replace(self, ours=outcome)

    def _counted(self, mark: str, text: str, places: Places) -> list[str]:
        told = OPTIONS.split(text)[0].splitlines()
        lines = [line for line in told if line.strip() and not STACK_TRACE.match(line)]
        lines = [" ".join(places.hidden(line).split()) for line in lines]
        for only in self.values("only"):
            lines = [line for line in lines if re.search(only, line)]
        for masked in self.values("masked"):
            lines = [re.sub(masked, "…", line) for line in lines]
        return [f"{mark} {line}" for line in (sorted(lines) if "sorted" in self.options else lines)]

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines())

    def lines(self) -> list[str]:
        told = [*self.outcome, *(f"~{line}" for line in self.ours)]
        return [*self.before, f"$ {self.command}", *(f"  {line}" for line in self.options), *told]


@dataclass(frozen=True)
class Places:
    """The names that stand in a table for what each run has anew, with their values in this run."""

    named: Mapping[str, str]
    ports: Mapping[str, str] = field(default_factory=dict[str, str])

    def filled(self, text: str) -> str:
        for name, value in self.named.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def hidden(self, text: str) -> str:
        for name, value in sorted(self.named.items(), key=lambda one: -len(one[1])):
            text = text.replace(value, f"{{{name}}}")
        for name, value in self.ports.items():
            text = re.sub(rf"\b{value}\b", f"{{{name}}}", text)
        for mask, name in USUAL_MASKS:
            text = mask.sub(name, text)
        return text


def read_table(path: Path) -> list[Step]:
    """The steps of a file. Raises ValueError for a line that is none of a table."""
    steps: list[Step] = []
    before: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            before.append(line)
        elif line.startswith("$ "):
            steps.append(Step(line[2:], tuple(before)))
            before = []
        elif steps and not before and line.startswith("  ") and not steps[-1].outcome:
            steps[-1] = replace(steps[-1], options=(*steps[-1].options, line[2:]))
        elif steps and not before and line[:1] in OUTCOME:
            steps[-1] = replace(steps[-1], outcome=(*steps[-1].outcome, line))
        elif steps and not before and line[:1] == "~" and line[1:2] in OUTCOME and steps[-1].values("differs"):
            steps[-1] = replace(steps[-1], ours=(*steps[-1].ours, line[1:]))
        else:
            raise ValueError(f"{path.name}:{number}: not a line of a table: {line}")
    return steps


def text_of(steps: Iterable[Step]) -> str:
    return "".join(step.text() for step in steps)
