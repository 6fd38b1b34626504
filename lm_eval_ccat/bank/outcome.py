"""`Outcome`: one metric and filter of one task, with the bank that knows its items."""

from __future__ import annotations

from dataclasses import dataclass

from ..metrics.registry import Metric
from ..metrics.scale import Scale
from .bank import ItemBank


@dataclass(frozen=True, eq=False)
class Outcome:
    """What is measured of the answers to one task. A ranking is over a list of outcomes.

    Attributes
    ----------
    bank : ItemBank
        Its items, and what is known of them; `ItemBank.blank` where nothing is.
    task : str
        The bank's, where none is stated.
    name : str
        Among the task's outcomes; the metric's, where none is stated.
    weight : float
        Among the task's outcomes in the score that is ranked by; an outcome of weight 0 is only
        reported.
    metric : Metric
        How what the task reports becomes a score, on the scale of what it reports; where none is
        stated, one of the bank's name and scale.
    filter : str
        The filter pipeline whose value counts; the bank's, where none is stated ("" where it
        names none).

    Examples
    --------
    >>> one = Outcome(ItemBank.blank(range(5), task="gsm", metric="acc", filter="strict"))
    >>> one.key, one.metric.name, one.filter, one.results_key
    (('gsm', 'acc'), 'acc', 'strict', 'acc,strict')
    """

    bank: ItemBank
    task: str = ""
    name: str = ""
    weight: float = 1.0
    metric: Metric = None  # type: ignore[assignment]
    filter: str = ""

    def __post_init__(self) -> None:
        bank = self.bank
        object.__setattr__(self, "task", self.task or bank.task or "")
        object.__setattr__(self, "name", self.name or bank.metric)
        object.__setattr__(self, "metric", self.metric or Metric(bank.metric, bank.scale))
        object.__setattr__(self, "filter", self.filter or bank.filter or "")

    @property
    def scale(self) -> Scale:
        """Scale of raw scores."""
        return self.metric.scale

    @property
    def key(self) -> tuple[str, str]:
        """Task and name, which tell it from the others of a ranking."""
        return self.task, self.name

    @property
    def results_key(self) -> str:
        """Where the estimate stands among the task's results."""
        return self.metric.key(self.filter or "none")
