"""A language model as judge: ratings from 1 to 10, cached, their cost counted."""

from .active import active_judge, announce, watch_judged_models
from .judge import Judge, Rating, Usage, take_cost
from .rating import parse_rating
from .settings import JudgeSettings

__all__ = [
    "Judge",
    "JudgeSettings",
    "Rating",
    "Usage",
    "active_judge",
    "announce",
    "parse_rating",
    "take_cost",
    "watch_judged_models",
]
