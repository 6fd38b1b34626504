"""What a person sees while a ranking runs: a small table in place, or plain lines.

The harness draws progress bars and logs to the same terminal.  While a ranking runs its bars are
switched off and its log lines go to the run directory; warnings are shown above the table.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..metrics.scale import Scale
    from ..ranker import Ranking
    from ..runs.journaled import JournaledRanker

BAR_WIDTH = 24
PLAIN_SECONDS = 10.0


@contextlib.contextmanager
def quiet_harness(log_file: Path | None, console: Any) -> Iterator[None]:
    """Switch the harness's progress bars off and send log lines to a file.

    Parameters
    ----------
    log_file : Path or None
        Receives every line of level INFO and above.
    console : rich.console.Console
        Receives warnings and errors.
    """
    from rich.logging import RichHandler

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    ours: list[logging.Handler] = [
        RichHandler(logging.WARNING, console, show_path=False, show_time=False, markup=False)
    ]
    if log_file is not None:
        with contextlib.suppress(OSError):  # a log that cannot be written must not stop the run
            ours.append(logging.FileHandler(log_file, encoding="utf-8"))
            ours[-1].setLevel(logging.INFO)
            ours[-1].setFormatter(
                logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
            )
    # The harness's answer to a failed request; our own line says the same with document and model.
    chatter = _Not("lm_eval.models.api_models")
    ours[0].addFilter(chatter)
    harness = logging.getLogger("lm_eval")
    kept = (harness.handlers[:], harness.propagate, harness.level)
    root.handlers[:] = ours
    harness.handlers[:], harness.propagate = [], True
    root.setLevel(logging.INFO)
    # A log line that cannot be written (a full disk) is not worth a traceback on the screen.
    complain, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        with warnings.catch_warnings(), _no_bars():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        for handler in ours[1:]:
            handler.close()
        logging.raiseExceptions = complain
        root.handlers[:], root.level = handlers, level
        harness.handlers[:], harness.propagate, harness.level = kept


class _Not(logging.Filter):
    """Lets through what does not come from one logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.name.startswith(self.name)


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    from tqdm import std

    original = std.tqdm.__init__

    def disabled(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["disable"] = True
        # `disable` is also the tenth positional argument; nobody in the harness passes that many.
        original(self, *args, **kwargs)

    std.tqdm.__init__ = disabled
    try:
        yield
    finally:
        std.tqdm.__init__ = original


class Display:
    """The progress of a run, refreshed from the thread that waits for it.

    Parameters
    ----------
    console : rich.console.Console
        Where to draw; the table updates in place only on a terminal.
    ranker : JournaledRanker
    scale : Scale
        The metric's own scale, for the figures shown.
    metric : str
    currency : {"items", "usd"}
    budget : float or None
        In the currency.
    seconds : float or None
        Time budget.
    plain : bool
        Plain log lines instead of the table.
    """

    def __init__(
        self,
        console: Any,
        ranker: JournaledRanker,
        scale: Scale,
        metric: str,
        currency: str,
        budget: float | None = None,
        seconds: float | None = None,
        plain: bool = False,
    ) -> None:
        self.console = console
        self.ranker = ranker
        self.scale = scale
        self.metric = metric
        self.currency = currency
        self.budget = budget
        self.seconds = seconds
        self.plain = plain or not console.is_terminal
        self._live: Any = None
        self._last = 0.0
        self._next = 0.0

    def __enter__(self) -> Display:
        self._last = time.monotonic()
        if not self.plain:
            from rich.live import Live

            self._live = Live(
                self.table(), console=self.console, auto_refresh=False, transient=True
            )
            self._live.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*exc)
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
            self.console.print(self.line(), highlight=False, soft_wrap=True)

    def _snapshot(self) -> tuple[Ranking, dict[str, int]]:
        with self.ranker.changed:
            waiting: dict[str, int] = {}
            for name, _ in self.ranker.claims:
                waiting[name] = waiting.get(name, 0) + 1
            return self.ranker.ranker.result(), waiting

    def line(self) -> str:
        """One log line about the state."""
        ranking, waiting = self._snapshot()
        items = sum(len(v) for v in ranking.items.values())
        parts = [ranking.in_words(), f"{items} items", *self._spending(ranking)]
        if waiting:
            parts.append(f"{sum(waiting.values())} in flight")
        return "; ".join(parts)

    def _spending(self, ranking: Ranking) -> list[str]:
        parts = []
        spent = sum(ranking.cost.values())
        if self.currency == "usd":
            limit = f" of ${self.budget:.4g}" if self.budget else ""
            parts.append(f"${spent:.4g}{limit}")
        elif self.budget:
            parts.append(f"budget {spent:g} of {self.budget:g} items")
        elapsed = self.ranker.elapsed()
        if self.seconds is not None:
            parts.append(f"{max(0.0, self.seconds - elapsed):.0f} s left")
        else:
            parts.append(f"{elapsed:.0f} s{self._time_left(spent, elapsed)}")
        return parts

    def _time_left(self, spent: float, elapsed: float) -> str:
        if not self.budget or spent <= 0 or elapsed < 2:
            return ""
        return f", at most {elapsed * max(0.0, self.budget - spent) / spent:.0f} s left"

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
        table.add_column(self.metric, justify="right")
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
                Text(name),
                f"{float(self.scale.restore(ranking.estimates[name])):.4g}",
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


def make_console(quiet: bool) -> Any:
    """A console on standard error, where progress belongs; results go to standard output."""
    from rich.console import Console

    return Console(file=sys.stderr, stderr=True, no_color=quiet or None)
