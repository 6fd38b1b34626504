"""Measurements: each script prints the figures that it makes."""
