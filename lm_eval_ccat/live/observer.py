"""Whom a run tells what happens: nobody, a progress bar, or what the command line shows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..metrics.scale import Scale
    from ..runs.book import Book
    from .results import Result


@dataclass(frozen=True)
class Progress:
    """A run as an observer sees it.

    Attributes
    ----------
    book : Book
        To look at from the thread that calls the observer.
    title : str
    scale : Scale
        The metric's own, for the figures shown.
    metric : str
    currency : {"items", "usd"}
    budget, seconds : float or None
    documents : int
        Of the benchmark.
    """

    book: Book
    title: str
    scale: Scale
    metric: str
    currency: str
    budget: float | None
    seconds: float | None
    documents: int


class Observer:
    """Is told of a run, from the thread that waits for it; by default only warnings are printed."""

    def warn(self, message: str) -> None:
        """Something the person should know; may come from any thread."""
        print(f"warning: {message}", file=sys.stderr)

    def note(self, message: str) -> None:
        """Something that is as it should be and good to know."""

    def confirm(self, question: str) -> bool:
        """Whether to go on; by default whoever called has made up their mind."""
        return True

    def begin(self, progress: Progress) -> None:
        """A ranking starts."""

    def tick(self) -> None:
        """A moment has passed, or something was answered."""

    def end(self) -> None:
        """Nothing more is asked."""

    def finished(self, result: Result) -> None:
        """The result is there; files are written after this, lest a full disk hide it."""
        for warning in result.content["warnings"]:
            self.warn(warning)


class ProgressBar(Observer):
    """One bar that counts documents, as the harness shows its own progress."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._progress: Progress | None = None

    def begin(self, progress: Progress) -> None:
        """Draw the bar."""
        from tqdm import tqdm  # comes with the harness

        self._progress = progress
        self._bar = tqdm(
            total=progress.documents, desc=f"{progress.title} (adaptive)", unit="doc", leave=True
        )

    def tick(self) -> None:
        """Move the bar to the documents answered."""
        progress = self._progress
        if self._bar is None or progress is None:
            return
        answered = progress.book.tally.answered
        n = sum(answered.values())
        if n == self._bar.n:
            return
        estimate, se = progress.book.ranker.estimate(next(iter(answered)))
        scale = progress.scale
        self._bar.set_postfix_str(
            f"{progress.metric} {float(scale.restore(estimate)):.4g} "
            f"± {float(scale.restore_error(se)):.2g}",
            refresh=False,
        )
        self._bar.update(n - self._bar.n)

    def end(self) -> None:
        """Leave the bar as it stands."""
        self.tick()
        if self._bar is not None:
            self._bar.close()
        self._bar = None
