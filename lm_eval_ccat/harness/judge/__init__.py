"""Language models as judges: ratings from 1 to 10, cached, their cost counted."""

from ..served import unscored
from .judge import Judge, Rating, Usage, active_judge, announce, watch_judged_models
from .rating import Agreement, agreement, parse_rating
from .settings import JudgeSettings

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
