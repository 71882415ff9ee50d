"""`Pattern`: regular expressions whose matching takes time in proportion to the text, as RE2's; for ListTransactions.

Python's `re` backtracks: a pattern of ten characters can keep the node busy for years. Here a pattern becomes a program
of at most `PROGRAM_SIZE_MAX` instructions, and all its alternatives advance together, character by character (Thompson,
CACM 1968; Pike's virtual machine). The syntax is that of RE2 without look-around and back-references, which RE2 does
not have either, and without `\\b`, classes by name such as `[[:alpha:]]` or `\\pL`, and flags other than `(?i)` and
`(?s)` at the start. Pure.
"""

import re
from collections.abc import Callable, Generator

PROGRAM_SIZE_MAX = 1000
REPEAT_MAX = 1000
DEPTH_MAX = 100
WORK_AT_ONCE = 20_000
"""Instructions between two pauses; about 5 ms."""

_CHARACTER, _SPLIT, _JUMP, _BEGIN, _END = range(5)
_CLASS_ESCAPES, _CONTROLS = "dDwWsS", {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_COUNTS = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")
_GROUP = re.compile(r"\((\?:|\?P?<\w+>)?(?!\?)")
_CLASS = re.compile(r"\[\^?(\]|\\.|[^\]\\])(\\.|[^\]\\])*\]", re.DOTALL)

Test = Callable[[str], object]
Instruction = tuple[int, Test | None, int]
"""Its kind; the test of a character; where a jump or a split leads besides the next instruction, from here."""
Program = list[Instruction]


class InvalidPattern(ValueError):
    """The text is no regular expression, or one that is not supported, or too large."""


class Pattern:
    """A regular expression.

    Raises:
        InvalidPattern: The text is none.
    """

    def __init__(self, text: str) -> None:
        self._program = _Parser(text).program()

    def matches(self, text: str) -> Generator[None, None, bool]:
        """Whether all of the text matches; other tasks may run at each `yield`."""
        work = 0
        states = self._reached({0}, at_begin=True, at_end=not text)
        for index, character in enumerate(text):
            advanced: set[int] = set()
            work += len(states) + 1
            for state in states:
                test = self._program[state][1] if state < len(self._program) else None
                if test is not None and test(character):
                    advanced.add(state + 1)
            states = self._reached(advanced, at_begin=False, at_end=index + 1 == len(text))
            if work >= WORK_AT_ONCE:
                work = 0
                yield
            if not states:
                break
        return len(self._program) in states

    def _reached(self, states: set[int], *, at_begin: bool, at_end: bool) -> set[int]:
        """The states that are reached without a character, with the given ones."""
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            if state == len(self._program):
                continue
            kind, _, other = self._program[state]
            if kind in (_JUMP, _SPLIT):
                waiting.append(state + other)
            if kind == _SPLIT or (kind == _BEGIN and at_begin) or (kind == _END and at_end):
                waiting.append(state + 1)
        return reached


class _Parser:
    """Turns a pattern into a program, by recursive descent. Jumps are relative."""

    def __init__(self, text: str) -> None:
        flags = re.match(r"\(\?([is]+)\)", text)
        letters = flags[1] if flags else ""
        self._flags = (re.IGNORECASE if "i" in letters else 0) | (re.DOTALL if "s" in letters else 0)
        self._text = text
        self._at = flags.end() if flags else 0

    def program(self) -> Program:
        found = self._alternatives(0)
        if self._at < len(self._text):
            raise InvalidPattern("unmatched parenthesis")
        return found

    def _alternatives(self, depth: int) -> Program:
        if depth > DEPTH_MAX:
            raise InvalidPattern("too many parentheses")
        found = self._sequence(depth)
        while self._takes("|"):
            other = self._sequence(depth)
            found = _bounded([(_SPLIT, None, len(found) + 2), *found, (_JUMP, None, len(other) + 1), *other])
        return found

    def _sequence(self, depth: int) -> Program:
        found: Program = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            found = _bounded([*found, *self._repeated(self._atom(depth))])
        return found

    def _repeated(self, one: Program) -> Program:
        if self._takes("*"):
            one = _star(one)
        elif self._takes("+"):
            one = _bounded([*one, *_star(one)])
        elif self._takes("?"):
            one = _optional(one)
        elif counts := _COUNTS.match(self._text, self._at):
            self._at = counts.end()
            one = _counted(one, int(counts[1]), None if counts[2] == "," else int(counts[3] or counts[1]))
        else:
            return one
        self._takes("?")  # Greedy or not is the same here.
        if self._text[self._at : self._at + 1] in tuple("*+?") or _COUNTS.match(self._text, self._at):
            raise InvalidPattern("a repetition of a repetition")
        return one

    def _atom(self, depth: int) -> Program:
        character = self._text[self._at]
        if character == "(":
            return self._group(depth)
        if character == "[":
            found = _CLASS.match(self._text, self._at)
            if found is None:
                raise InvalidPattern("a class has no end")
            self._at = found.end()
            return self._one_of(found[0][0] + re.sub(r"([\[&~|])", r"\\\1", found[0][1:]))
        if character in "*+?":
            raise InvalidPattern(f"nothing to repeat before {character}")
        self._at += 1
        if character == "\\":
            return self._escape()
        if character in "^$":
            return [(_BEGIN if character == "^" else _END, None, 0)]
        return self._one_of("." if character == "." else re.escape(character))

    def _group(self, depth: int) -> Program:
        opening = _GROUP.match(self._text, self._at)
        if opening is None:
            raise InvalidPattern("a kind of group that is not supported")
        self._at = opening.end()
        found = self._alternatives(depth + 1)
        if not self._takes(")"):
            raise InvalidPattern("missing parenthesis")
        return found

    def _escape(self) -> Program:
        character = self._text[self._at : self._at + 1]
        self._at += 1
        if character and character in _CLASS_ESCAPES:
            return self._one_of("\\" + character)
        if character and character in "Az":
            return [(_BEGIN if character == "A" else _END, None, 0)]
        if character in _CONTROLS:
            return self._one_of(re.escape(_CONTROLS[character]))
        if not character or (character.isalnum() and character.isascii()):
            raise InvalidPattern(f"an escape that is not supported: \\{character}")
        return self._one_of(re.escape(character))

    def _one_of(self, source: str) -> Program:
        """The instruction for one character, for which `re` cannot backtrack."""
        try:
            return [(_CHARACTER, re.compile(source, self._flags | re.ASCII).fullmatch, 0)]
        except (re.error, OverflowError) as error:
            raise InvalidPattern(str(error)) from error

    def _takes(self, character: str) -> bool:
        taken = self._text.startswith(character, self._at)
        self._at += taken
        return taken


def _bounded(program: Program) -> Program:
    if len(program) > PROGRAM_SIZE_MAX:
        raise InvalidPattern("too large")
    return program


def _star(one: Program) -> Program:
    return _bounded([(_SPLIT, None, len(one) + 2), *one, (_JUMP, None, -len(one) - 1)])


def _optional(one: Program) -> Program:
    return _bounded([(_SPLIT, None, len(one) + 1), *one])


def _counted(one: Program, least: int, most: int | None) -> Program:
    if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
        raise InvalidPattern("a count that is too large or negative")
    if max(least, most or 0) * len(one) > PROGRAM_SIZE_MAX:
        raise InvalidPattern("too large")
    found = one * least
    if most is None:
        return _bounded(found + _star(one))
    return _bounded(found + _optional(one) * (most - least))
