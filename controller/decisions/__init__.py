"""Decisions: image and request in, records and reply out. Nothing here changes anything or waits for anything.

Each module is named after its request and has a `decide(image, request, context) -> Decision`; requests that only
ask have a `describe`. Checks stand in Apache Kafka's order, since that order decides which error is told, and error
messages are Kafka's own words. `routing.py` says which module decides what.

Caveats: the checks of a node's own settings (`broker_settings.py`, `log_levels.py`) belong to the node that was
asked; while one node is the cluster they run with the decision.
"""
