"""SASL: the messages and computations of Kafka's mechanisms, for both sides of a connection; no sockets, no clocks.

An authentication is a short exchange of bytes, which SaslHandshake and SaslAuthenticate carry (KIP-43, KIP-152). The
node's side is `broker/security/`, the client's `client/security/`; both read and write the bytes here::

    PLAIN          client ── user and password ──►  server: compares
    SCRAM          client ── user, nonce ──►        server: looks up the user's keys
                          ◄── nonce, salt, iterations
                   derives the keys (slow)
                          ── proof ──►              verifies that the client knows the password
                   verifies the server  ◄── signature
    OAUTHBEARER    client ── token, extensions ──►  server: validates the token

    jaas.py            the text of `sasl.jaas.config`: a login module and its options
    file_urls.py       the path in a URL of a file, which has keys or a token
    message_sizes.py   how large the messages may be, which is checked before they are read
    sasl_errors.py     `SaslError`, for a message that breaks the rules of its mechanism
    plain.py           PLAIN (RFC 4616)
    scram.py           SCRAM (RFC 5802): messages, keys, both sides
    oauthbearer.py     OAUTHBEARER (RFC 7628): messages and extensions
    unsecured_token.py unsigned tokens (RFC 7515, appendix A.5), as Kafka's clients make them for tests

Caveats:
    * No GSSAPI.
    * No SASLprep of names and passwords, as in Kafka: they are compared as UTF-8.
    * No channel binding.
"""
