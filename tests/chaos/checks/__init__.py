"""The checks of a history, by subject; `facts.py` is the index that all of them read."""
