"""The demonstration: real documents and real systems that need no network and no weights."""

from ..harness.internals.lms import DEMO_TYPE, register_models

#: Number of documents of the demo. Fewer than the minimum do not tell its systems apart, and the
#: package holds no more than the maximum.
N_DOCUMENTS, MIN_DOCUMENTS, MAX_DOCUMENTS = 800, 100, 1792

__all__ = ["DEMO_TYPE", "register_models"]
