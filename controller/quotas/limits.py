"""`ClientLimits`: which of the quotas of one key, such as `producer_byte_rate`, holds for a user and a client id.

A quota belongs to a user, to a client id, or to a pair of both; instead of a name each may be the default. The first of
these that exists holds, and says for whom usage is measured together:

    1. user, client id    2. user, default client id           each client id of the user
    3. user                                                    the user
    4. default user, client id    5. both defaults             each client id of each user
    6. default user                                            each user
    7. client id    8. default client id                       each client id, whoever uses it

No quota for client ids holds for an empty client id. Source: `ClientQuotaManager.DefaultQuotaCallback`.
"""

from collections import Counter
from typing import TypeAlias

__all__ = ["ClientLimits", "Sharers"]

Sharers: TypeAlias = tuple[str, str]
"""Whose usage is measured together: a user and a client id. "" stands for all of them."""
_Name: TypeAlias = str | None
"""A user or client id in an entity; None: the default; "": the entity has no such part."""
_Level: TypeAlias = tuple[bool, bool]
"""Whether an entity has a user, and whether it has a client id."""
USER, CLIENT_ID = "user", "client-id"
NO_SHARERS: Sharers = "", ""


class ClientLimits:
    """The quotas of one key.

    Attributes:
        key: The key of the quotas.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._limits: dict[tuple[_Name, _Name], float] = {}
        self._counts: Counter[_Level] = Counter()

    @property
    def exist(self) -> bool:
        """Whether there is any such quota; if not, nothing is measured."""
        return bool(self._limits)

    def set(self, entity: tuple[tuple[str, str | None], ...], key: str, value: float | None) -> None:
        """Take a quota of the metadata; None removes it. Quotas of other keys, and of addresses, are not taken."""
        kinds = dict(entity)
        if key != self.key or kinds.keys() - {USER, CLIENT_ID}:
            return
        names = kinds.get(USER, ""), kinds.get(CLIENT_ID, "")
        level = names[0] != "", names[1] != ""
        if self._limits.pop(names, None) is not None:
            self._counts[level] -= 1
        if value is not None:
            self._limits[names] = value
            self._counts[level] += 1

    def sharers(self, user: str, client_id: str) -> Sharers:
        """Return with whom a client is measured together.

        Without a quota for the client that still matters: what it uses now counts against a quota that is set soon.
        """
        levels = [level for level, count in self._counts.items() if count]
        if len(levels) < 2:
            of_users, of_clients = levels[0] if levels else (False, True)
            return (user if of_users else ""), (client_id if of_clients else "")
        limits = self._limits
        if (user, client_id) in limits or (user, None) in limits:
            return user, client_id
        if (user, "") in limits:
            return user, ""
        if (None, client_id) in limits or (None, None) in limits:
            return user, client_id
        return (user, "") if (None, "") in limits else ("", client_id)

    def limit(self, sharers: Sharers) -> float | None:
        """Return what sharers may use; None if there is no quota for them."""
        user, client_id = sharers
        users: tuple[_Name, ...] = (user, None) if user else ("",)
        clients: tuple[_Name, ...] = (client_id, None) if client_id else ("",)
        if sharers == NO_SHARERS:
            return None
        for names in ((one, other) for one in users for other in clients):
            if names in self._limits:
                return self._limits[names]
        return None
