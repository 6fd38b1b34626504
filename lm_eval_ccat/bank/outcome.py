"""`Outcome`: one metric and filter of one task, with the bank that knows its items."""

from __future__ import annotations

from dataclasses import dataclass

from ..metrics.registry import Metric
from ..metrics.scale import Scale
from .bank import ItemBank


@dataclass(frozen=True, eq=False)
class Outcome:
    """One metric and filter of one task. A ranking is over a list of outcomes.

    Attributes
    ----------
    bank : ItemBank
        The calibrated items; `ItemBank.blank` without a calibration.
    metric : Metric
        Turns what the task reports into a score, and knows its scale.
    task : str
    name : str
        Unique among the task's outcomes.
    filter : str
        The filter pipeline whose value counts; "" if none is named.
    weight : float
        Weight among the task's outcomes in the ranked score; an outcome of weight 0 is only
        reported.

    Examples
    --------
    >>> outcome = Outcome.of(ItemBank.blank(range(5), task="gsm", metric="acc", filter="strict"))
    >>> outcome.key, outcome.metric.name, outcome.filter, outcome.results_key
    (('gsm', 'acc'), 'acc', 'strict', 'acc,strict')
    """

    bank: ItemBank
    metric: Metric
    task: str
    name: str
    filter: str
    weight: float = 1.0

    @classmethod
    def of(
        cls,
        bank: ItemBank,
        task: str | None = None,
        name: str | None = None,
        *,
        metric: Metric | None = None,
        filter: str | None = None,
        weight: float = 1.0,
    ) -> Outcome:
        """Build an outcome; the bank supplies every argument that is left out."""
        return cls(
            bank,
            metric=metric or Metric(bank.metric, bank.scale),
            task=task or bank.task or "",
            name=name or bank.metric,
            filter=filter or bank.filter or "",
            weight=weight,
        )

    @property
    def scale(self) -> Scale:
        """Scale of raw scores."""
        return self.metric.scale

    @property
    def key(self) -> tuple[str, str]:
        """Task and name, which identify the outcome in a ranking."""
        return self.task, self.name

    @property
    def results_key(self) -> str:
        """Key of the estimate among the task's results."""
        return self.metric.key(self.filter or "none")
