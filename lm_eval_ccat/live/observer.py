"""Observers of a run: none, a progress bar, or the command line's display."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..runs.book import Book
    from .plan import Plan
    from .result import Result


class Observer:
    """Is told of a run, from the thread that waits for it; by default only warnings are printed."""

    def warn(self, message: str) -> None:
        """Warn the person; may be called from any thread."""
        print(f"warning: {message}", file=sys.stderr)

    def note(self, message: str) -> None:
        """Report something normal that is good to know."""

    def confirm(self, question: str) -> bool:
        """Whether to go on; by default whoever called has made up their mind."""
        return True

    def begin(self, plan: Plan, book: Book) -> None:
        """A ranking starts; `book` is to be looked at from this thread alone."""

    def tick(self) -> None:
        """Take note that time has passed or an answer has come."""

    def end(self) -> None:
        """Take note that nothing more is asked."""

    def finished(self, result: Result) -> None:
        """The result is there; files are written after this, lest a full disk hide it."""
        for warning in result.warnings:
            self.warn(warning)


class ProgressBar(Observer):
    """One bar that counts documents, as the harness shows its own progress."""

    def begin(self, plan: Plan, book: Book) -> None:
        """Draw the bar."""
        from tqdm import tqdm  # comes with the harness

        self.plan, self.book = plan, book
        self._bar: Any = tqdm(
            total=sum(len(session.doc_ids) for session in plan.sessions.values()),
            desc=f"{plan.title} (adaptive)",
            unit="doc",
            leave=True,
        )

    def tick(self) -> None:
        """Move the bar to the documents answered."""
        answered = self.book.tally.answered
        n = sum(answered.values())
        if n == self._bar.n:
            return
        estimate, se = self.book.ranker.estimate(next(iter(answered)))
        scale = self.plan.scale
        self._bar.set_postfix_str(
            f"{self.plan.label} {float(scale.restore(estimate)):.4g} "
            f"± {float(scale.restore_error(se)):.2g}",
            refresh=False,
        )
        self._bar.update(n - self._bar.n)

    def end(self) -> None:
        """Leave the bar unchanged."""
        self.tick()
        self._bar.close()
