"""Methods: everything that one way of calibrating, testing and deciding owns, a folder each."""

from .calibration import calibrate

__all__ = ["calibrate"]
