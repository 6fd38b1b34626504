"""The demonstration: real documents and real systems that need no network and no weights."""

from ..harness.internals.lms import DEMO_TYPE, register_models

#: Documents of the demo. Below the least its calibration has too few to tell its systems apart; the
#: most are all that the package holds.
DOCUMENTS, LEAST, MOST = 800, 100, 1792

__all__ = ["DEMO_TYPE", "register_models"]
