"""`Outcome`: one metric and filter of one task, with the bank that knows its items."""

from __future__ import annotations

from dataclasses import dataclass

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

    Examples
    --------
    >>> one = Outcome(ItemBank.blank(range(5), task="gsm", metric="acc", filter="strict"))
    >>> one.key, one.metric, one.filter
    (('gsm', 'acc'), 'acc', 'strict')
    """

    bank: ItemBank
    task: str = ""
    name: str = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", self.task or self.bank.task or "")
        object.__setattr__(self, "name", self.name or self.bank.metric)

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.bank.metric

    @property
    def filter(self) -> str | None:
        """The filter pipeline whose value counts; None where the bank names none."""
        return self.bank.filter

    @property
    def scale(self) -> Scale:
        """Scale of raw scores."""
        return self.bank.scale

    @property
    def key(self) -> tuple[str, str]:
        """Task and name, which tell it from the others of a ranking."""
        return self.task, self.name
