"""Readers of logs and score tables: one per kind, each of which says whether it can read a path."""
