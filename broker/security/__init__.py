"""Authentication of the clients of a listener: who is at the other end of a connection.

A listener of protocol SSL or SASL_SSL has TLS (`NodeTls`): its connections shake hands in their own tasks
(`broker/connections/tls_transport.py`). On SSL listeners the certificate of a client names its principal, mapped by
`ssl.principal.mapping.rules`; without a certificate the client is `User:ANONYMOUS`.

A connection of a SASL listener has an `Authentication` as its frame handler, which stands before the `Dispatcher`:

    bytes ──► Exchange ──► Authentication ──────────────────────────────► Dispatcher
                               │  until the client is known: ApiVersions,     ▲  requests, with
                               ▼  SaslHandshake, SaslAuthenticate             │  `ConnectionInfo.principal`
                           SaslSession ──► Dialogue (PLAIN, SCRAM, …) ────────┘

A connection of a PLAINTEXT or SSL listener has the dispatcher itself as its handler, so it costs nothing there.

    node_tls.py               the TLS of a node, and new certificates while it runs
    tls_listener.py           the TLS of one listener
    certificate_principals.py the principal of a certificate: its name in RFC 2253 order, and the rules for it
    guards.py                 which listeners need a login by SASL, and what theirs is
    authentication.py         the frame handler: delays failures, sets the principal
    authentication_record.py  counts and logs what becomes of authentications
    sasl_session.py           the order of requests, with its table of states; no socket, no clock
    mechanisms.py             the server's side of each mechanism
    keys_missing.py           what a mechanism raises while keys are derived or read
    token_keys.py             the SCRAM keys of delegation tokens
    signed_tokens.py          validates signed tokens of OAUTHBEARER
    signing_keys.py           their keys, of a file or a provider, read again in time
    key_sets.py               reads the keys of a JSON Web Key Set
    between_nodes.py          TLS between nodes, and how a node logs in at brokers and controllers
    node_guests.py            the login of another node at the controller listener
    (`broker/settings/sasl_settings.py` reads the settings, `protocol/sasl/` has the messages and keys)

*Caveats*: no `principal.builder.class` of users; no GSSAPI (Kerberos).
"""
