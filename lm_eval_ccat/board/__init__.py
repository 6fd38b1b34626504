"""A public leaderboard: a folder in git that anybody can check, and the site made of it."""

from __future__ import annotations

from .adding import add
from .cheats import suspicions
from .checking import Checked, check
from .creating import init
from .folder import Board, BoardStanding, standing
from .ledger import BoardRow, TaskScore
from .placing import place
from .publish import publish

__all__ = [
    "Board",
    "BoardRow",
    "BoardStanding",
    "Checked",
    "TaskScore",
    "add",
    "check",
    "init",
    "place",
    "publish",
    "standing",
    "suspicions",
]
