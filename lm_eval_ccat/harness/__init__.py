"""The interface to lm-eval: its tasks, models and results, and the hook into its runs."""

from __future__ import annotations

from .opening import open_session, open_sessions
from .session import Administered, TaskSession

__all__ = ["Administered", "TaskSession", "open_session", "open_sessions"]
