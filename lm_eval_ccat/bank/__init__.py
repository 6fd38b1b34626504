"""Item banks: calibrated items and the provenance to trust them."""

from .bank import ItemBank
from .calibration import calibrate

__all__ = ["ItemBank", "calibrate"]
