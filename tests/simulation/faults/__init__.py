"""Faults: each is a function of the `Chaos` and of a source of randomness, and ends by itself or with `Chaos.heal`.

A fault stays within what a correct cluster must survive: `chaos.py` knows what may be lost. `table.py` has all of
them, with their weights. To add one, write the function and add a line to the table; it calls `Chaos.count` when it has
an effect, so that a fault which never happens is noticed.
"""
