"""Worlds in which time, disks and networks are made up, so that any failure is a number: its seed."""
