"""Language models as judges: ratings from 1 to 10, cached, their cost counted."""

from ..served import unscored
from .judge import (
    Agreement,
    Judge,
    Rating,
    Usage,
    active_judge,
    agreement,
    announce,
    watch_judged_models,
)
from .settings import JudgeSettings, parse_rating

__all__ = [
    "Agreement",
    "Judge",
    "JudgeSettings",
    "Rating",
    "Usage",
    "active_judge",
    "agreement",
    "announce",
    "parse_rating",
    "unscored",
    "watch_judged_models",
]
