"""TOUR."""
