"""Item banks: calibrated items and the provenance to trust them."""

from .bank import ItemBank
from .suite import SuiteBank, is_suite

__all__ = ["ItemBank", "SuiteBank", "is_suite"]
