"""Item banks: calibrated items and the provenance to trust them."""

from .bank import ItemBank

__all__ = ["ItemBank"]
