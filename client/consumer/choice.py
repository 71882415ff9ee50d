"""`Choice`: the topics that a consumer is subscribed to, by name or by a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from minikafka.client.argument_kinds import shown
from minikafka.client.consumer.listener import Listener, check_listener
from minikafka.client.options import ConsumerOptions


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The arguments of one `subscribe`; by default there is no subscription.

    Attributes:
        topics: the names of topics.
        pattern: the expression that this client matches with the names of all topics.
        group_pattern: the expression that the group's coordinator matches.
        listener: is told of assigned and revoked partitions.
    """

    topics: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None
    group_pattern: str | None = None
    listener: Listener | None = None

    @property
    def is_made_here(self) -> bool:
        """Whether this client itself determines the topics."""
        return bool(self.topics) or self.pattern is not None


def checked_choice(
    topics: Sequence[str], pattern: str | None, listener: Listener | None, options: ConsumerOptions
) -> Choice:
    """Make the choice. Raises ValueError without topics and pattern, with both, and for an invalid pattern."""
    if topics and pattern:
        raise ValueError("subscribe() takes topics or a pattern, not both: write the topics into the pattern")
    if not topics and not pattern:
        raise ValueError("subscribe() requires topics or a pattern; to stop consuming call unsubscribe()")
    if listener is not None:
        check_listener(listener, is_async=True)
    if options.group_id is not None and options.group_protocol == "consumer":
        return Choice(topics, None, pattern, listener)
    return Choice(topics, _compiled(pattern) if pattern else None, None, listener)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"subscribe(pattern={shown(pattern)}): must be a regular expression: {error}") from None
