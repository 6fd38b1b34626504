"""Reports for people: the HTML page of a run, and charts."""

from __future__ import annotations

from .page import LivePage, write_report
from .stored_run import StoredRun, read_run

__all__ = ["LivePage", "StoredRun", "read_run", "write_report"]
