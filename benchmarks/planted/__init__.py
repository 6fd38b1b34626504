"""Bugs to be planted, and whether the tests notice."""
