"""`Ranking`: what a ranker knows, as rows, with everything needed to read and reproduce it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from ..content import OpenPairContent, RankingContent
from ..methods.policy import Drawn
from ..metrics.scale import Scale
from ..shown import Grid, Shown
from .audit import AuditResult
from .headline import order_in_words, ranking_grid
from .rows import ModelRow, PairRow, Placement
from .verdicts import Verdicts

_ALL_PAIRS = 100  # models up to which every pair is written down
Pair = tuple[str, str]
T = TypeVar("T")


def signature(parts: Mapping[str, object]) -> str:
    """One line that lets a reader reproduce a number: ``task:gsm|metric:acc|...``.

    Examples
    --------
    >>> signature({"task": "gsm", "seed": 0})
    'task:gsm|seed:0'
    """
    return "|".join(f"{k}:{v}" for k, v in parts.items() if v is not None)


@dataclass(frozen=True, repr=False)
class Ranking(Shown):
    """The result of a `Ranker`, as rows; single columns are properties.

    Attributes
    ----------
    models : tuple of ModelRow
        The tested ones as they were given, those set aside included, then reference models.
    pairs : tuple of PairRow
        Of all pairs with a tested model; best first.
    order : list of str
        Models, best first; those set aside are not in it.
    ties : list of tuple of str
        The coarse view: runs of models whose neighbours are not decided.
    separated_within_ties : list of (str, str)
        Pairs inside a tie group that are decided nevertheless.
    open_pairs : list of OpenPairContent
        Open neighbours of the order, and what would decide them; the cheapest first.
    withdrawn : list of (str, str)
        Pairs that were decided the other way round, and are open again.
    expected_wrong : float
        Expected number of wrong pairs among the decided ones, as for a single look.
    question : {"benchmark", "population"}
        Whether the order is that of full runs of these items, or of items like these.
    stopped_because : str
        Why nothing more is asked, in words ("" while the ranking is running).
    goal_met : bool
        Whether the goal of the stopping rule is met; by default, that all pairs are decided or
        equivalent.
    confidence : float
        Two-sided confidence at which a pair counts as decided.
    level_spent : float
        Part of the level of error that the looks could use up so far; the rest is kept back for a
        horizon that is raised.
    n_items : int
        Items of the full benchmark.
    scale : Scale
        The metric's own scale; [0, 1] where outcomes of several scales are summed.
    signature : str
        Task, metric, bank, method, confidence, seed and versions, in one line.
    tasks, outcomes, groups : dict of str to Ranking
        If there are several: the ranking by each alone, which the run did not try to decide.
    weights : dict of str to float
        Weights of the tasks (or of the outcomes of one task) in the ranked score.
    verdicts : Verdicts
        Where the rows come from.

    Examples
    --------
    >>> from lm_eval_ccat import ItemBank, Ranker
    >>> ranker = Ranker(ItemBank.blank(range(200)), ["weak", "strong"])
    >>> while not ranker.done:
    ...     for model, item in ranker.ask(8):
    ...         ranker.tell(model, item, {"weak": 0.3, "strong": 0.6}[model] + 0.001 * (item % 7))
    >>> ranking = ranker.result()
    >>> ranking
    <Ranking: strong > weak>
    >>> ranking.decisions["strong", "weak"], ranking.rank_ranges["weak"]
    ('decided', (2, 2))
    """

    models: tuple[ModelRow, ...]
    pairs: tuple[PairRow, ...]
    order: list[str]
    ties: list[tuple[str, ...]]
    separated_within_ties: list[Pair]
    open_pairs: list[OpenPairContent]
    withdrawn: list[Pair]
    expected_wrong: float
    question: str
    confidence: float
    level_spent: float
    n_items: int
    scale: Scale
    signature: str
    verdicts: Verdicts = field(compare=False)
    stopped_because: str = ""
    goal_met: bool = False
    tasks: dict[str, Ranking] = field(default_factory=dict)
    outcomes: dict[str, Ranking] = field(default_factory=dict)
    groups: dict[str, Ranking] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    # -- columns ------------------------------------------------------------------------------

    def _of(self, column: Callable[[ModelRow], T | None]) -> dict[str, T]:
        """One column of the models' rows, by model; models without a value are left out."""
        return {m.name: v for m in self.models if (v := column(m)) is not None}

    @cached_property
    def estimates(self) -> dict[str, float]:
        """Estimated full-benchmark mean score of each model."""
        return self._of(lambda m: m.estimate.mean)

    @cached_property
    def standard_errors(self) -> dict[str, float]:
        """Standard errors of the estimates."""
        return self._of(lambda m: m.estimate.error)

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Intervals of the tested models' estimates, at `confidence`."""
        return self._of(lambda m: None if m.known else m.interval)

    @property
    def looks(self) -> str:
        """At which looks intervals hold: "every", or "one", at a number of items fixed before."""
        each = (m.estimate for m in self.models if not m.known)
        return "one" if all(one.looks.once and one.of_method is None for one in each) else "every"

    @cached_property
    def abilities(self) -> dict[str, tuple[float, float]]:
        """Ability and its standard error, in logits; of one outcome alone."""
        return self._of(lambda m: m.ability)

    @cached_property
    def items(self) -> dict[str, list[Any]]:
        """Items each model was scored on, in the order they were told."""
        return self._of(lambda m: m.items)

    @cached_property
    def draws(self) -> dict[str, list[tuple[Any, float]]]:
        """Those of them that were drawn at random, with the probability of the draw."""
        return self._of(lambda m: m.draws or None)

    @cached_property
    def failed(self) -> dict[str, dict[Any, str]]:
        """Items that a model failed on, with the reason."""
        return self._of(lambda m: None if m.known else m.failed)

    @cached_property
    def cost(self) -> dict[str, float]:
        """What each model spent, in price x units."""
        return self._of(lambda m: m.cost)

    @cached_property
    def set_aside(self) -> dict[str, str]:
        """Models dropped before the end, with the reason."""
        return self._of(lambda m: m.set_aside)

    @cached_property
    def findings(self) -> dict[str, list[str]]:
        """Sentences about models of which the bank says little."""
        return self._of(lambda m: m.findings or None)

    @cached_property
    def samples(self) -> dict[str, Drawn]:
        """Estimates from the randomly drawn items alone."""
        return self._of(lambda m: m.sample)

    @cached_property
    def audits(self) -> dict[str, AuditResult]:
        """With ``audit``: an estimate per model that does not rely on the response model."""
        return self._of(lambda m: m.audit)

    @cached_property
    def places(self) -> dict[str, Placement]:
        """Among reference models: where each tested model stands."""
        return self._of(lambda m: m.place)

    @cached_property
    def known(self) -> tuple[str, ...]:
        """Reference models, fixed points of the order; they have no items and no ability."""
        return tuple(m.name for m in self.models if m.known)

    @cached_property
    def rank_ranges(self) -> dict[str, tuple[int, int]]:
        """The ranks that the decided pairs leave possible, 1 best."""
        return self._of(lambda m: m.rank_range)

    @cached_property
    def p_top(self) -> dict[int, dict[str, float]]:
        """Probability of being among the best k, for some k."""
        tops = dict.fromkeys(k for m in self.models for k in m.p_top)
        return {k: {m.name: m.p_top[k] for m in self.models if k in m.p_top} for k in tops}

    @property
    def p_best(self) -> dict[str, float]:
        """Probability of being the best."""
        return self.p_top.get(1, {})

    @cached_property
    def pairwise(self) -> dict[Pair, float]:
        """``P(a better than b)`` for every ordered pair. It describes; `decisions` decides."""
        one_way = {(row.a, row.b): row.p for row in self.pairs}
        return one_way | {(b, a): 1.0 - p for (a, b), p in one_way.items()}

    @cached_property
    def decisions(self) -> dict[Pair, str]:
        """ "decided", "equivalent" or "open", for every ordered pair."""
        one_way = {(row.a, row.b): row.decision for row in self.pairs}
        return one_way | {(b, a): what for (a, b), what in one_way.items()}

    @property
    def decided(self) -> bool:
        """Whether every adjacent pair of the order is decided."""
        return not self.ties

    # -- more of it ---------------------------------------------------------------------------

    def row(self, model: str) -> ModelRow:
        """What is known of one model.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.row("a").name
        'a'
        """
        return next(m for m in self.models if m.name == model)

    def interval(self, model: str, confidence: float | None = None) -> tuple[float, float]:
        """Interval of the full-benchmark mean score, cut to [0, 1].

        Student's where the number of items was fixed in advance, else one that holds at every
        look; in either case computed for this confidence.

        Parameters
        ----------
        model : str
        confidence : float, optional
            Two-sided; default that of the ranking.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> low, high = ranking.interval("a", confidence=0.8)
        >>> low <= ranking.estimates["a"] <= high
        True
        """
        row = self.row(model)
        return row.interval if confidence is None else row.estimate.interval(confidence)

    def difference(
        self, a: str, b: str, confidence: float | None = None
    ) -> tuple[float, float, float]:
        """Estimated difference of the scores of two models, and the ends of its interval.

        Parameters
        ----------
        a, b : str
            At least one of them tested, and neither set aside.
        confidence : float, optional
            Two-sided; default that of the ranking.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> gap, low, high = ranking.difference("a", "b")
        >>> low <= gap <= high
        True
        """
        i, j = (self.verdicts.names.index(name) for name in (a, b))
        low, high = self.verdicts.intervals(confidence)
        gap = self.estimates[a] - self.estimates[b]
        if i < len(low):
            return gap, float(low[i, j]), float(high[i, j])
        return gap, -float(high[j, i]), -float(low[j, i])

    def only(self, model: str) -> Ranking:
        """The same result for one of its models, as a ranking of that model alone.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.only("b").order
        ['b']
        """
        row = self.row(model)
        return replace(
            self,
            models=(row,),
            pairs=(),
            order=[model] if row.rank else [],
            ties=[],
            separated_within_ties=[],
            open_pairs=[],
            withdrawn=[],
        )

    def in_words(self) -> str:
        """The order as one line, ``B > A > {C, D} > E``.

        Models in braces are all open to each other, or equivalent. A run in which some pair is
        decided though no neighbours are is a chain, ``C (3 to 4) >~ D (3 to 5) >~ E (4 to 5)``,
        with the ranks that each may have.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.in_words()
        '{a, b}'
        """
        return order_in_words(self.order, self.ties, self.separated_within_ties, self.rank_ranges)

    def _grid(self) -> Grid:
        return ranking_grid(self.to_dict(), self.in_words() or "no model was ranked")

    def to_dict(self) -> RankingContent:
        """JSON values, estimates on the metric's own scale and in its own direction.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.to_dict()["order"]
        ['a', 'b']
        """
        rows = self.pairs
        if len(self.order) > _ALL_PAIRS:
            # A leaderboard has thousands of reference models, nearly all of them far from a new
            # one: only pairs that are open, or neighbours, are written down.
            known, place = set(self.known), {m: i for i, m in enumerate(self.order)}
            rows = tuple(
                r
                for r in rows
                if not {r.a, r.b} & known or r.decision != "decided" or place[r.b] - place[r.a] == 1
            )
        turned = (r._replace(a=r.b, b=r.a, p=1.0 - r.p, needed=1.0 - r.needed) for r in rows)
        content: RankingContent = {
            "order": self.order,
            "ranking": self.in_words(),
            "question": self.question,
            "models": {m.name: m.to_dict(self.scale, self.confidence) for m in self.models},
            "pairwise": [row.to_dict() for both in zip(rows, turned) for row in both],
            "ties": [list(g) for g in self.ties],
            "separated_within_ties": [list(p) for p in self.separated_within_ties],
            "open_pairs": [pair.copy() for pair in self.open_pairs],
            "withdrawn": [list(p) for p in self.withdrawn],
            "expected_wrong_pairs": self.expected_wrong,
            "confidence": self.confidence,
            "looks": self.looks,
            "level_spent": self.level_spent,
            "items_of_benchmark": self.n_items,
            "items_administered": sum(len(m.items) for m in self.models),
            "cost": sum(m.cost for m in self.models),
            "stopped_because": self.stopped_because,
            "goal_met": self.goal_met,
            "signature": self.signature,
        }
        if self.weights:
            content["weights"] = self.weights
        if self.tasks:
            content["tasks"] = {name: r.to_dict() for name, r in self.tasks.items()}
        if self.outcomes:
            content["outcomes"] = {name: r.to_dict() for name, r in self.outcomes.items()}
        if self.groups:
            content["groups"] = {name: r.to_dict() for name, r in self.groups.items()}
        return content


class Brief(NamedTuple):
    """Order, ties and estimates of a ranking, each as `Ranking` has them; scores on [0, 1]."""

    order: list[str]
    ties: list[tuple[str, ...]]
    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
