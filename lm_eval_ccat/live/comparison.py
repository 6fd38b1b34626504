"""What a comparison of two models found, by outcome, and what it decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import UsageError
from ..methods.belief import BENCHMARK, RUN
from ..metrics.scale import Scale
from ..money import columns_in_words
from ..ranker.difference import Difference
from ..ranker.verdicts import NOT_KNOWN, NOT_WORSE, WORSE
from ..scores.reading import Logged
from ..shown import Shown, ShownTable, plural
from .losses import Loss

#: Most terms of a weighted mean that its name lists; of more, the last counts the others.
NAMED_TERMS = 3


def is_exact(question: str, sampled: bool) -> bool:
    """Whether one answer to every item of the benchmark settles a question, with no error left."""
    return question == RUN or (question == BENCHMARK and not sampled)


@dataclass(frozen=True)
class Compared:
    """The comparison on one metric and filter of one task.

    Attributes
    ----------
    task, metric, filter : str or None
    scale : str
        The scale in words.
    overall : Difference
    groups : dict of str to Difference
        Differences within groups of documents, if requested.
    decisive : bool
        Whether it counts for the verdict; of an adaptive run, only what steered the run counts.
    question : {"population", "benchmark", "run"}
        Whether `overall` is about documents like these, about these, or about these very answers.
    sampled : bool
        Whether answers are draws; the first two questions are then about expected scores.
    other_question : Difference or None
        The difference for the other question, if known.
    higher_is_better : bool
    weighted : bool
        Whether it is a weighted mean of several, whose terms `task` lists.
    n_items : int or None
        Documents of the task, if known.
    losses : tuple of Loss
        Documents on which the candidate scores lower, the largest loss first.
    """

    task: str | None
    metric: str
    filter: str | None
    scale: str
    overall: Difference
    groups: dict[str, Difference]
    decisive: bool = True
    question: str = BENCHMARK
    sampled: bool = False
    other_question: Difference | None = None
    higher_is_better: bool = True
    weighted: bool = False
    n_items: int | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def name(self) -> str:
        """Task and metric as a single name; of a weighted mean, its terms or the first of many."""
        if not self.weighted:
            return self.outcome.name
        terms = str(self.task).split(" + ")
        if len(terms) > NAMED_TERMS:
            terms[NAMED_TERMS - 1 :] = [f"{len(terms) - NAMED_TERMS + 1} more"]
        return " + ".join(terms)

    @property
    def outcome(self) -> Logged:
        """Task, metric and filter."""
        return Logged(self.task, self.metric, self.filter)

    def has_too_few(self, difference: Difference) -> bool:
        """Whether the task is known to have fewer documents than would decide a difference."""
        needed = difference.documents + (difference.more_documents or 0)
        return self.n_items is not None and needed > self.n_items

    def to_dict(self) -> dict[str, Any]:
        """JSON values, among which those of `overall` are."""
        content = asdict(self)
        return {**content.pop("overall"), **content}


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The result of `compare`.

    Attributes
    ----------
    baseline, candidate : str
        Names of the models.
    margin, confidence : float
    outcomes : list of Compared
    warnings : list of str
    money : dict of str to float, or None
        Cost of live models in dollars (billed, assumed, unknown); None without a known price.
    asked : dict of str to int
        Answers that were asked of each live model; the difference may use fewer, as some were under
        way at the verdict.

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, compare
    >>> old = ScoreTable.from_arrays([[0.2, 0.5, 0.1] * 30], ["old"])
    >>> new = ScoreTable.from_arrays([[0.4, 0.5, 0.3] * 30], ["new"])
    >>> comparison = compare(old, new)
    >>> comparison
    <Comparison: new against old: better>
    >>> comparison.exit_code, round(comparison.outcomes[0].overall.difference, 3)
    (0, 0.133)
    """

    baseline: str
    candidate: str
    margin: float
    confidence: float
    outcomes: list[Compared]
    warnings: list[str]
    money: Mapping[str, float] | None = None
    asked: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The worst verdict among decisive outcomes: "worse" before "not known" before others."""
        verdicts = [outcome.overall.verdict for outcome in self.outcomes if outcome.decisive]
        for bad in (WORSE, NOT_KNOWN):
            if bad in verdicts:
                return bad
        # One outcome may be better and another one equivalent: neither is worse.
        return verdicts[0] if len(set(verdicts)) == 1 else NOT_WORSE

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 not worse by more than the margin, 5 worse, 3 not known."""
        return {WORSE: 5, NOT_KNOWN: 3}.get(self.verdict, 0)

    @property
    def notes(self) -> list[str]:
        """Return what was asked, costs and warnings, one sentence each."""
        counts = [
            f"{model} was asked {plural(count, 'answer')}, those under way at the verdict too."
            for model, count in self.asked.items()
        ]
        # A baseline's logs may hold every document, but only those count that the candidate was
        # asked before the verdict.
        if self.asked and any(
            outcome.overall.documents < (outcome.n_items or 0) for outcome in self.outcomes
        ):
            counts.append("Both scores are estimates from these documents.")
        return [*counts, *(columns_in_words(self.money) if self.money else ()), *self.warnings]

    def _grid(self) -> ShownTable:
        figures = (
            "baseline", "candidate", "difference", "low", "high", "p_better", "documents",
            "verdict",
        )  # fmt: skip
        rows = [
            [outcome.name, group, *(getattr(difference, name) for name in figures)]
            for outcome in self.outcomes
            for group, difference in (("all", outcome.overall), *outcome.groups.items())
        ]
        title = f"{self.candidate} against {self.baseline}: {self.verdict}"
        return ShownTable(title, ("outcome", "group", *figures), rows, tuple(self.notes))

    def to_dict(self) -> dict[str, Any]:
        """JSON values.

        Examples
        --------
        >>> from lm_eval_ccat import ScoreTable, compare
        >>> table = ScoreTable.from_arrays([[0.2, 0.5, 0.1] * 30], ["same"])
        >>> compare(table, table).to_dict()["verdict"]
        'equivalent'
        """
        outcomes = [outcome.to_dict() for outcome in self.outcomes]
        return {**asdict(self), "verdict": self.verdict, "outcomes": outcomes}


@dataclass(frozen=True)
class Gate:
    """What a comparison decides, and how sure it has to be.

    Attributes
    ----------
    margin : float
        How much worse is still good enough, on the metric's own scale.
    confidence : float
        Two-sided.
    question : {"population", "benchmark", "run"}
    """

    margin: float
    confidence: float
    question: str


def require_margin(margin: float, metric: str, scale: Scale) -> None:
    """Refuse a margin that every model passes.

    Raises
    ------
    UsageError
        The margin is no less than the whole scale.

    Examples
    --------
    >>> require_margin(0.01, "acc", Scale(0.0, 1.0))
    """
    # Nothing is worse by more than the whole scale.
    if margin >= scale.span:
        raise UsageError(
            f"--margin {margin:g} lets every candidate pass: {metric} has the scale "
            f"{scale.describe()}; state a smaller margin, or the scale (--range WORST,BEST)"
        )
