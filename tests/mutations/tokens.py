"""Planted bugs in delegation tokens: who may have one, how long it lasts, and who logs in by it."""

from mutations import TEST_ONLY, Mutation

_DECISIONS = "controller/decisions/delegation_tokens.py"
_DECIDED = ("tests/controller/decisions/test_delegation_tokens.py",)
_HANDLED = ("tests/broker/apis/test_delegation_tokens.py",)
_LOGINS = ("tests/broker/security/test_token_logins.py",)

MUTATIONS = (
    Mutation(
        "each renewal computes the HMACs of all tokens",
        "controller/security/token_secrets.py",
        "@lru_cache(maxsize=HMACS_MAX)\n",
        "",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a token may have any number of long names",
        _DECISIONS,
        "    return sum(16 + len(name) for name in names) > LETTERS_MAX\n",
        "    return False\n",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "keys of tokens are read again and again without a pause",
        "broker/security/signing_keys.py",
        "            return max(PAUSE_S_MIN, settings.refresh_ms / 1000)\n",
        "            return settings.refresh_ms / 1000\n",
        ("tests/broker/security/test_signing_keys.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a token names a client by half of a character",
        "protocol/sasl/unsecured_token.py",
        "    if any(\"\\ud800\" <= letter <= \"\\udfff\" for letter in text):\n",
        "    if False:\n",
        ("tests/protocol/sasl/test_oauthbearer.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a client gets a token by a token",
        "broker/apis/delegation_tokens.py",
        "context.principal != ANONYMOUS and not context.principal.by_token",
        "context.principal != ANONYMOUS",
        _HANDLED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an anonymous client gets a token",
        "broker/apis/delegation_tokens.py",
        "context.principal != ANONYMOUS and not context.principal.by_token",
        "not context.principal.by_token",
        _HANDLED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a token of anybody is for everybody",
        _DECISIONS,
        "    if owner != context.access.principal and not context.access.allows(\n",
        "    if owner == context.access.principal and not context.access.allows(\n",
        _HANDLED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a stranger renews a token",
        _DECISIONS,
        "in (token.owner, *token.renewers)",
        'in (token.owner, *token.renewers, (principal.kind, "carol"))',
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the beginning of an HMAC finds its token",
        _DECISIONS,
        "        if hmac.compare_digest(token_hmac(secret, token.token_id), given):\n",
        "        if given and token_hmac(secret, token.token_id).startswith(given):\n",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a renewal goes beyond the end",
        _DECISIONS,
        "    expires_ms = min(context.wall_ms + _renewal_ms(context, request.renew_period_ms), token.max_ms)\n",
        "    expires_ms = context.wall_ms + _renewal_ms(context, request.renew_period_ms)\n",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "tokens that have ended stay",
        "controller/active/active_controller.py",
        "            if secret_of(static) is not None:\n",
        "            if False:\n",
        ("tests/controller/active/test_active_controller.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a session goes on when its token has ended",
        "broker/security/mechanisms.py",
        "Authenticated(Principal(*login.token.owner, by_token=True), login.token.expires_ms)",
        "Authenticated(Principal(*login.token.owner, by_token=True))",
        _LOGINS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a client by token may get further tokens",
        "broker/security/mechanisms.py",
        "Principal(*login.token.owner, by_token=True)",
        "Principal(*login.token.owner)",
        _LOGINS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "who has derived the keys of a token logs in by it after its end",
        "broker/security/token_keys.py",
        "        token = self._image.tokens.get(token_id)\n        if token is None or self._secret is None:\n"
        "            return None\n        keys = self._keys.get((token_id, mechanism))\n",
        "        keys = self._keys.get((token_id, mechanism))\n"
        "        nobody, ever = (\"User\", \"alice\"), 1 << 62\n"
        "        token = self._image.tokens.get(token_id)\n"
        "        if token is None and keys is not None:\n"
        "            return TokenLogin(keys, DelegationTokenRecord(token_id, nobody, nobody, (), 0, ever, ever))\n"
        "        if token is None or self._secret is None:\n"
        "            return None\n",
        _LOGINS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a new active controller has no tokens",
        "controller/metadata/image.py",
        "        tokens=dict(image.tokens),\n",
        "        tokens={},\n",
        ("tests/controller/active/test_active_controller.py", *_DECIDED),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the time of a renewal tells how much of an HMAC is right",
        _DECISIONS,
        "        if hmac.compare_digest(token_hmac(secret, token.token_id), given):\n",
        "        if token_hmac(secret, token.token_id) == given:\n",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a stranger who knows the HMAC of a token removes the token",
        _DECISIONS,
        "    if not _may_change(context.access.principal, token):\n"
        "        return Decision([], ExpireDelegationTokenResponse(",
        "    if request.expiry_time_period_ms >= 0 and not _may_change(context.access.principal, token):\n"
        "        return Decision([], ExpireDelegationTokenResponse(",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "who requested a token for somebody else renews the token",
        _DECISIONS,
        "in (token.owner, *token.renewers)",
        "in (token.owner, token.requester, *token.renewers)",
        _DECIDED,
        seeds=TEST_ONLY,
    ),
)
