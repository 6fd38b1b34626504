"""Progress of a ranking on the screen: a small table in place, or plain lines.

It goes to standard error; warnings are shown above the table.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from ..live.observer import Observer
from ..streams import to_draw
from ..visible import visible, visible_name

if TYPE_CHECKING:
    from ..live.plan import Plan
    from ..ranker import Ranking
    from ..runs.book import Book

BAR_WIDTH = 24
PLAIN_SECONDS = 10.0


class Progress(Observer):
    """The progress of a run, refreshed from the thread that waits for it.

    Parameters
    ----------
    quiet : bool
        Plain log lines instead of the table, which is drawn only on a terminal anyway.
    """

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console

        self.console = Console(file=to_draw(sys.stderr), no_color=quiet or None)
        self.plain = quiet or not self.console.is_terminal
        self._live: Any = None
        self._told: set[str] = set()
        self._last = 0.0
        self._next = 0.0

    def warn(self, message: str) -> None:
        """Print a warning above the table; the same one is said once, whoever has it."""
        if message in self._told:
            return
        self._told.add(message)
        self.note(f"warning: {message}")

    def note(self, message: str) -> None:
        """Print a line above the table."""
        text = visible(message)
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def begin(self, plan: Plan, book: Book) -> None:
        """Start drawing."""
        self.plan, self.book = plan, book
        self._last = time.monotonic()
        if not self.plain:
            from rich.live import Live

            self._live = Live(
                self.table(), console=self.console, auto_refresh=False, transient=True
            )
            self._live.__enter__()

    def end(self) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def tick(self) -> None:
        """Draw the present state; at most four times a second, and for a tenth of the time."""
        now = time.monotonic()
        if self._live is not None:
            if now < self._next:
                return
            self._live.update(self.table(), refresh=True)
            # Many models take longer to compare; looking on must not slow the run down.
            self._next = now + max(0.25, 10 * (time.monotonic() - now))
        elif now - self._last >= PLAIN_SECONDS:
            self._last = now
            self.console.print(self.line(), highlight=False, markup=False, soft_wrap=True)

    def _snapshot(self) -> tuple[Ranking, dict[str, int]]:
        waiting: dict[str, int] = {}
        for ask in self.book.pending:
            waiting[ask.model] = waiting.get(ask.model, 0) + 1
        return self.book.ranker.result(), waiting

    def line(self) -> str:
        """One log line about the state."""
        ranking, waiting = self._snapshot()
        items = sum(len(v) for v in ranking.items.values())
        parts = [ranking.in_words(), f"{items} items", *self._spending(ranking)]
        if waiting:
            parts.append(f"{sum(waiting.values())} unanswered")
        return "; ".join(parts)

    def _spending(self, ranking: Ranking) -> list[str]:
        parts = []
        spent = sum(ranking.cost.values())
        if self.plan.currency == "usd":
            limit = f" of ${self.plan.budget:.4g}" if self.plan.budget else ""
            parts.append(f"${spent:.4g}{limit}")
        elif self.plan.budget:
            parts.append(f"budget {spent:g} of {self.plan.budget:g} items")
        elapsed = self.book.elapsed()
        if self.plan.seconds is not None:
            parts.append(f"{max(0.0, self.plan.seconds - elapsed):.0f} s left")
        else:
            parts.append(f"{elapsed:.0f} s{self._time_left(spent, elapsed)}")
        return parts

    def _time_left(self, spent: float, elapsed: float) -> str:
        if not self.plan.budget or spent <= 0 or elapsed < 2:
            return ""
        return f", at most {elapsed * max(0.0, self.plan.budget - spent) / spent:.0f} s left"

    def table(self) -> Any:
        """The state as a rich table, no taller than the terminal."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        ranking, waiting = self._snapshot()
        table = Table(
            title=Text(ranking.in_words()),
            title_justify="left",
            caption="; ".join(self._spending(ranking)),
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("", justify="right")
        table.add_column("model", max_width=24, no_wrap=True)
        table.add_column(self.plan.label, justify="right")
        table.add_column("interval", no_wrap=True)
        table.add_column("items", justify="right")
        table.add_column("asked", justify="right")
        names = list(ranking.order) + [n for n in ranking.estimates if n not in ranking.order]
        room = max(3, self.console.size.height - 8)
        span = _span(ranking)
        for position, name in enumerate(names[:room], start=1):
            tied = any(name in group for group in ranking.ties)
            aside = name in ranking.set_aside
            table.add_row(
                "x" if aside else f"{position}{'=' if tied else ''}",
                Text(visible_name(name)),
                f"{float(self.plan.scale.restore(ranking.estimates[name])):.4g}",
                _bar(ranking.interval(name), ranking.estimates[name], span),
                str(len(ranking.items[name])),
                str(waiting.get(name, "")),
            )
        if len(names) > room:
            table.add_row("", f"and {len(names) - room} more", "", "", "", "")
        return table


def _span(ranking: Ranking) -> tuple[float, float]:
    ends = [ranking.interval(name) for name in ranking.estimates]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _bar(interval: tuple[float, float], centre: float, span: tuple[float, float]) -> str:
    low, high = span
    width = max(high - low, 1e-9)

    def cell(value: float) -> int:
        return min(BAR_WIDTH - 1, max(0, int((value - low) / width * BAR_WIDTH)))

    cells = [" "] * BAR_WIDTH
    for i in range(cell(interval[0]), cell(interval[1]) + 1):
        cells[i] = "─"
    cells[cell(centre)] = "●"
    return "".join(cells)
