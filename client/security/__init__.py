"""TLS and SASL of clients: their options, key stores, the contexts of Python's `ssl`, and logins. Brokers use it too.

`TlsSettings` has the values of Kafka's `ssl.*` settings. `server_context` and `client_context` read the stores that it
names and return an `ssl.SSLContext`. A setting that does not work raises `InvalidTlsSetting`, which names it and says
what is wrong: no such file, a wrong password, no private key, a type that is not known.

`SecurityOptions` are the options of every client; `connection_security()` makes of them what each new connection needs:
a context of TLS, a login by SASL, both or nothing.

    security_options.py     the options, and whether they belong together
    connection_security.py  what each new connection needs
    sasl_login.py           how a client logs in: mechanism, user and password, or a token
    token_files.py          a file with a token
    named_files.py          reads the files that settings name
    token_source.py         calls the application's function that returns tokens
    daemon_calls.py         calls a function that may never return, in a thread
    sasl_exchange.py        the client's side of each SASL mechanism; no I/O
    tls_settings.py         the values of `ssl.*` under Kafka's names, and the error for those that do not work
    key_stores.py           the private key and certificates of PEM, PKCS12 and JKS stores
    pem.py                  splits PEM texts as Kafka does
    jks.py                  reads Java's key stores (JKS)
    cipher_suites.py        the names of cipher suites: Java's and OpenSSL's
    tls_contexts.py         the contexts
    tls_errors.py           the errors of handshakes, with what to do

The broker uses this package for its listeners and for connections to other nodes.

Caveats:
    * A PKCS12 store has one key here; of several keys in a JKS store, the first is used.
    * No revocation lists, and no Java classes (`ssl.engine.factory.class`, `ssl.provider`).
    * Python's `ssl` cannot choose among the cipher suites of TLS 1.3: all or none of them are enabled.
"""
