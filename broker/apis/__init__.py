"""The APIs of a node: one module each, of the same name as the message's and the test's.

A module says which request it takes (`REQUEST`), which versions of it are honoured (`VERSIONS`, which is what
ApiVersions advertises), and how: `async def handle(request, context) -> response`. A handler that raises a `KafkaError`
has refused the whole request; what concerns one topic or partition is a value in the answer. APIs without logic of
their own here stand in two tables: `forwarded` (the controller decides) and `without_security` (refusals).

Caveats: no transactions, no consumer groups of KIP-848, no share groups, no telemetry; they are not advertised.
"""
