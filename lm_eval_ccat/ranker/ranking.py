"""`Ranking`: what a ranker knows, as rows, with everything needed to read and reproduce it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ..content import (
    ModelContent,
    OpenPairContent,
    Pair,
    PairContent,
    PlaceContent,
    RankingContent,
    SampleContent,
)
from ..methods.belief import BENCHMARK, RUN
from ..methods.policy import Mask
from ..metrics.scale import Floats, Scale
from ..shown import Shown, ShownTable
from .columns import ranking_grid
from .headline import order_in_words
from .looks import ROUNDING
from .rows import ModelRow, PairColumns, PairRow, place_of
from .verdicts import ALL_PAIRS, DECIDED, Verdicts

T = TypeVar("T")


class _View(Generic[T]):
    """A value of a ranking that is derived from others, computed once."""

    def __init__(self, read: Callable[[Ranking], T]) -> None:
        self.read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, ranking: Ranking, owner: type) -> T:
        value = ranking.__dict__[self.name] = self.read(ranking)
        return value


class _Column(_View[dict[str, T]]):
    """One column of the models' rows, as a dict by model without those that lack a value."""

    def __init__(self, read_row: Callable[[ModelRow], T | None]) -> None:
        super().__init__(
            lambda ranking: {
                row.name: value for row in ranking.models if (value := read_row(row)) is not None
            }
        )


class PairDifferences(NamedTuple):
    """Differences of scores, row less column, and the ends of their intervals within [-1, 1].

    Arrays of shape (n_tested, n_models).
    """

    gap: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, repr=False)
class Ranking(Shown):
    """The result of a `Ranker`, as rows; single columns are properties.

    Attributes
    ----------
    models : tuple of ModelRow
        The tested models as given, including those set aside, then reference models.
    verdicts : Verdicts
        Verdicts on the models that take part; order, ranks and pairs follow from them.
    n_items : int
        Items of the full benchmark.
    scale : Scale
        The metric's own scale; [0, 1] where outcomes of several scales are summed.
    warnings : tuple of str
        What a reader should know of known models.
    signature : str
        Task, metric, bank, method, confidence, seed and versions, in one line.
    question : {"benchmark", "population", "run"}
        Whether the order is that on these items, on items like these, or of these very answers.
    sampled : bool
        Whether answers are draws; the first two orders are then those of expected scores.
    n_answers : int
        Answers of one model in full: items, times their repeats.
    beyond : ndarray of bool, shape (n_tested, n_tested), optional
        Pairs whose decision also holds for items like these.
    tops : tuple of int
        The values of k in `p_top`.
    stopped_because : str
        Why the ranking stopped, in words ("" while it is running).
    goal_met : bool
        Whether the goal of the stopping rule is met; by default, that all adjacent pairs are
        decided or equivalent.
    tasks, outcomes, groups : dict of str to Ranking
        With several of them, the ranking by each alone, which the run did not try to decide.
    weights : dict of str to float
        Weights of the tasks (or of the outcomes of one task) in the ranked score.
    estimates, standard_errors : dict of str to float
        Estimated full-benchmark mean score of each model.
    intervals : dict of str to (float, float)
        Intervals of the tested models' estimates, at `confidence`.
    abilities : dict of str to (float, float)
        Ability and its standard error, in logits; only for a single outcome.
    items, draws, failed : dict of str to list or dict
        By model: `items` it was scored on, in the order they were told; `draws`, the (item,
        probability) of those that were drawn at random; `failed`, each item it failed on with the
        reason.
    cost : dict of str to float
        Amount spent on each model, in price x units.
    set_aside : dict of str to str
        Models dropped before the end, with the reason.
    findings : dict of str to list of str
        Reasons why the bank says little about a model, as `ModelRow.findings`.
    samples : dict of str to Drawn
        Estimates from the randomly drawn items alone.
    confidence : float
        Two-sided confidence at which a pair counts as decided.
    order : list of str
        Models, best first, without those set aside.
    ties : list of tuple of str
        The coarse view: runs of neighbours that are not decided.
    separated_within_ties : list of (str, str)
        Pairs within a run of `ties` that are decided nevertheless.
    withdrawn : list of (str, str)
        Pairs that an earlier look decided and that are open again. The first model was better then,
        and is behind now.
    expected_wrong : float
        Expected number of wrong pairs among the decided ones, as for a single look.
    rank_ranges : dict of str to (int, int)
        The ranks that the decided pairs leave possible, 1 best.
    known : tuple of str
        Reference models, fixed points of the order; they have no items and no ability.
    decided : bool
        Whether every adjacent pair of the order is decided.
    p_best : dict of str to float
        Probability of being the best.
    looks : {"every", "one"}
        Whether intervals hold at every look, or at one look at a number of items fixed in advance.

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
    verdicts: Verdicts = field(compare=False)
    n_items: int
    scale: Scale
    signature: str
    question: str = BENCHMARK
    sampled: bool = False
    n_answers: int = 0
    beyond: Mask | None = field(default=None, compare=False)
    tops: tuple[int, ...] = ()
    stopped_because: str = ""
    goal_met: bool = False
    warnings: tuple[str, ...] = ()
    tasks: dict[str, Ranking] = field(default_factory=dict)
    outcomes: dict[str, Ranking] = field(default_factory=dict)
    groups: dict[str, Ranking] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    estimates = _Column(lambda m: m.estimate.mean)
    standard_errors = _Column(lambda m: m.estimate.error)
    intervals = _Column(lambda m: None if m.known else m.interval)
    abilities = _Column(lambda m: m.ability)
    items = _Column(lambda m: m.items)
    draws = _Column(lambda m: m.draws or None)
    failed = _Column(lambda m: None if m.known else dict(m.failed))
    cost = _Column(lambda m: m.cost)
    set_aside = _Column(lambda m: m.set_aside)
    findings = _Column(lambda m: m.findings or None)
    samples = _Column(lambda m: m.sample)

    confidence = _View(lambda r: r.verdicts.confidence)
    order = _View(lambda r: r.verdicts.order)
    ties = _View(lambda r: r.verdicts.ties)
    separated_within_ties = _View(lambda r: r.verdicts.separated_within_ties)
    withdrawn = _View(lambda r: r.verdicts.withdrawn)
    expected_wrong = _View(lambda r: r.verdicts.expected_wrong)
    rank_ranges = _View(lambda r: r.verdicts.rank_ranges)
    known = _View(lambda r: r.verdicts.names[r.verdicts.n_tested :])
    decided = _View(lambda r: not r.ties)
    p_best = _View(lambda r: r.p_top[1])
    looks = _View(
        lambda r: "one" if all(model.estimate.single_look for model in r.models) else "every"
    )
    _rows = _View(lambda r: {model.name: model for model in r.models})
    _rank = _View(lambda r: {model: n for n, model in enumerate(r.order, 1)})

    @property
    def expected(self) -> bool:
        """Whether estimates are of expected scores, of which even full results are noisy."""
        return self.sampled and self.question != RUN

    @cached_property
    def open_pairs(self) -> list[OpenPairContent]:
        """Open neighbours of the order, and what would decide them, cheapest first."""
        # The mean cost of an answer includes that of attempts that failed.
        costs = {row.name: row.cost / len(row.items) for row in self.models if row.items}
        n_failed = {row.name: len(row.failed) for row in self.models}
        return self.verdicts.missing(self.n_answers or self.n_items, costs, n_failed)

    @cached_property
    def places(self) -> dict[str, PlaceContent]:
        """Place of each tested model among reference models; empty without reference models."""
        tested = self.verdicts.tested if self.known else ()
        return {name: place_of(self.verdicts, name) for name in tested}

    @cached_property
    def p_top(self) -> dict[int, dict[str, float]]:
        """Probability of being among the best k, by k and model."""
        # Every model is among the best k of k.
        tops = sorted(k for k in {1, *self.tops} if k == 1 or k < len(self.order))
        chances = self.verdicts.p_top(tops).items()
        return {
            k: {name: chance_of[name] for name in self.verdicts.names if name in chance_of}
            for k, chance_of in chances
        }

    @cached_property
    def pairs(self) -> tuple[PairRow, ...]:
        """All pairs, best first; beyond a hundred models, of known ones only neighbours.

        The interval of two known models is that of their full results: without error, unless items
        or answers count as a sample.
        """
        return tuple(self._columns.rows(self.verdicts.names))

    @cached_property
    def _positions(self) -> NDArray[np.intp]:
        """Position of each model of the verdicts in the order, from 0; shape (n_models,)."""
        return np.argsort(self.verdicts.best_first)

    @cached_property
    def _columns(self) -> PairColumns:
        """The columns of `pairs`."""
        verdicts, order = self.verdicts, self.verdicts.best_first
        n_tested, position = verdicts.n_tested, self._positions
        tested = order[order < n_tested]
        i, j = np.repeat(tested, len(order)), np.tile(order, len(tested))
        # Of two tested models either is a row of the matrices: take each pair once, the better
        # first (the smaller position in the order).
        better_first = (j >= n_tested) | (position[j] > position[i])
        i, j = i[better_first], j[better_first]
        gap, low, high = self._differences
        population = np.full(len(i), -1, dtype=np.int8)
        if self.beyond is not None:
            of_tested = j < n_tested
            population[of_tested] = self.beyond[i[of_tested], j[of_tested]]
        columns = PairColumns(
            i, j, verdicts.better[i, j], gap[i, j], low[i, j], high[i, j],
            verdicts.state[i, j], population, verdicts.barred[i, j],
        )  # fmt: skip
        # A known model that leads a tested one is only a column: its pair is turned round.
        leads = position[i] < position[j]
        both_ways: Iterator[tuple[NDArray[Any], NDArray[Any]]] = zip(columns, columns.turned)
        ordered = (np.where(leads, column, turned) for column, turned in both_ways)
        known: tuple[NDArray[Any], ...] = self._known_pairs()
        return PairColumns(*(np.concatenate(parts) for parts in zip(ordered, known)))

    def _known_pairs(self) -> PairColumns:
        """Return the pairs of reference models."""
        known = self.verdicts.best_first[self.verdicts.best_first >= self.verdicts.n_tested]
        # No answer changes a pair of known models, and a board has millions: neighbours are enough.
        if len(self.order) <= ALL_PAIRS:
            i, j = (known[places] for places in np.triu_indices(len(known), 1))
        else:
            i, j = known[:-1], known[1:]
        # Without two reference models every column is empty.
        if not len(i):
            return PairColumns(i, j, *(np.empty(0),) * 4, *(np.empty(0, np.int8),) * 2, i > j)
        pair = self.verdicts.of_known(i, j, self.confidence)
        # The chance is normal; without an error it is 1, 0, or 1/2 of equal means.
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(
                pair.error > 0.0, ndtr(pair.gap / pair.error), 0.5 + 0.5 * np.sign(pair.gap)
            )
        unchecked, barred = np.full(len(i), -1, dtype=np.int8), np.zeros(len(i), dtype=bool)
        return PairColumns(i, j, p, pair.gap, pair.low, pair.high, pair.state, unchecked, barred)

    @cached_property
    def pairwise(self) -> dict[Pair, float]:
        """``P(a better than b)`` for every ordered pair: descriptive; see `decisions`."""
        one_way = {(row.a, row.b): row.p for row in self.pairs}
        return one_way | {(b, a): 1.0 - chance for (a, b), chance in one_way.items()}

    @cached_property
    def decisions(self) -> dict[Pair, str]:
        """ "decided", "equivalent" or "open", for every ordered pair."""
        one_way = {(row.a, row.b): row.decision for row in self.pairs}
        return one_way | {(b, a): what for (a, b), what in one_way.items()}

    # -- more of it ---------------------------------------------------------------------------

    def row(self, model: str) -> ModelRow:
        """Return the row of one model.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.row("a").name
        'a'
        """
        return self._rows[model]

    def interval(self, model: str, confidence: float | None = None) -> tuple[float, float]:
        """Return the interval of a full-benchmark mean score, cut to [0, 1].

        If the number of items was fixed in advance, Student's interval, else one that holds at
        every look.

        Parameters
        ----------
        model : str
        confidence : float, optional
            Two-sided; default the ranking's.

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
        """Estimate the difference of two models' scores, with the ends of its interval.

        Parameters
        ----------
        a, b : str
            Neither may be set aside.
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
        # Two known models are in no matrix.
        if min(i, j) >= self.verdicts.n_tested:
            pair = self.verdicts.of_known(np.array([i]), np.array([j]), confidence)
            return float(pair.gap[0]), float(pair.low[0]), float(pair.high[0])
        as_ranked = confidence in (None, self.confidence)
        gap, low, high = self._differences if as_ranked else self._differences_at(confidence)
        # Tested models come first; of a known and a tested one the latter is the row.
        if i < len(low):
            return float(gap[i, j]), float(low[i, j]), float(high[i, j])
        return -float(gap[j, i]), -float(high[j, i]), -float(low[j, i])

    @cached_property
    def _differences(self) -> PairDifferences:
        """All differences at the ranking's confidence."""
        return self._differences_at(None)

    def _differences_at(self, confidence: float | None) -> PairDifferences:
        """All differences at a confidence; None is the ranking's."""
        low, high = self.verdicts.intervals(confidence)
        gap = self.verdicts.belief.on_scores.pairs.gap
        ends = np.fmax(low, -1.0), np.fmin(high, 1.0)
        # Means of equal scores that came in another order differ by what adding them rounds.
        return PairDifferences(
            *(np.where(np.abs(sizes) < ROUNDING, 0.0, sizes) for sizes in (gap, *ends))
        )

    def in_words(self) -> str:
        """Write the order as one line, ``B > A > {C, D} > E``.

        Pairs of models in braces are all open or equivalent. Where no neighbours are decided but
        two models further apart are, the models form a chain, ``C (3 to 4) >~ D (3 to 5) >~ E (4 to
        5)``, with the ranks that each may have.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.in_words()
        '{a, b}'
        """
        return order_in_words(self.order, self.ties, self.separated_within_ties, self.rank_ranges)

    def _grid(self) -> ShownTable:
        return ranking_grid(self.to_dict(), self.in_words() or "no model was ranked")

    def content_of(self, row: ModelRow) -> ModelContent:
        """Return the JSON values of one model, estimates on the metric's own scale.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.content_of(ranking.row("b"))["rank_range"]
        [1, 2]
        """
        name, scale = row.name, self.scale
        ranks = self.rank_ranges.get(name)
        chances = {
            str(k): chance_of[name] for k, chance_of in self.p_top.items() if name in chance_of
        }
        return {
            "rank": self._rank.get(name),
            "rank_range": ranks and list(ranks),
            "p_best": chances.get("1"),
            "p_top": chances,
            "estimate": float(scale.restore(row.estimate.mean)),
            "standard_error": float(scale.restore_error(row.estimate.error)),
            "interval": np.sort(scale.restore(row.interval)).tolist(),
            "bound": row.bound and np.sort(scale.restore(row.bound)).tolist(),
            "known": row.known,
            "place": self.places.get(name),
            "ability": row.ability and row.ability[0],
            "ability_standard_error": row.ability and row.ability[1],
            "n_items": len(row.items),
            "items": list(row.items),
            "draws": list(row.draws),
            "failed": row.failures,
            "cost": row.cost,
            "set_aside": row.set_aside,
            "findings": row.findings,
            "sample": self.sample_of(row),
            **self._of_repeats(row),
        }

    def sample_of(self, row: ModelRow) -> SampleContent | None:
        """Return the JSON values of a model's mean of random draws, on the metric's own scale.

        None for a method that has draws alone, whose estimate is this mean.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.sample_of(ranking.row("a")) is None
        True
        """
        if (drawn := row.sample) is None:
            return None
        return {
            "n": drawn.n,
            "estimate": float(self.scale.restore(drawn.estimate)),
            "standard_error": float(self.scale.restore_error(drawn.standard_error)),
            "interval": np.sort(self.scale.restore(drawn.interval(self.confidence))).tolist(),
        }

    def _of_repeats(self, row: ModelRow) -> ModelContent:
        """Return what repeats add to a model's values: nothing where items have one answer."""
        content: ModelContent = {}
        if self.n_answers <= self.n_items:
            return content
        if row.noise is not None:
            error = (row.noise / self.n_answers) ** 0.5
            content["scatter"] = float(self.scale.restore_error(error))
        if row.pass_at is not None:
            content["pass_at"] = {"k": row.pass_at.k, "estimate": row.pass_at.estimate}
        return content

    def _written_pairs(self) -> list[PairContent]:
        """Return the pairs that are written down: all, unless the order is a leaderboard's.

        That has thousands of reference models, nearly all of them far from a new one: of pairs with
        them, only open, equivalent and adjacent ones are written down.
        """
        columns, n_tested, position = self._columns, self.verdicts.n_tested, self._positions
        if len(self.order) > ALL_PAIRS:
            columns = columns.select(
                (np.maximum(columns.a, columns.b) < n_tested)
                | (columns.state != DECIDED)
                | (position[columns.b] - position[columns.a] == 1)
            )
        return list(columns.contents(self.verdicts.names, self.scale))

    def to_dict(self) -> RankingContent:
        """Return JSON values, estimates on the metric's own scale and in its own direction.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank, Ranker
        >>> ranking = Ranker(ItemBank.blank(range(100)), ["a", "b"]).result()
        >>> ranking.to_dict()["order"]
        ['a', 'b']
        """
        content: RankingContent = {
            "order": list(self.order),
            "ranking": self.in_words(),
            "question": self.question,
            **({"sampled": True} if self.sampled else {}),
            **({"answers_of_benchmark": self.n_answers} if self.n_answers > self.n_items else {}),
            "models": {row.name: self.content_of(row) for row in self.models},
            "pairwise": self._written_pairs(),
            "ties": [list(tie) for tie in self.ties],
            "separated_within_ties": [list(pair) for pair in self.separated_within_ties],
            "open_pairs": [pair.copy() for pair in self.open_pairs],
            "withdrawn": [list(pair) for pair in self.withdrawn],
            "expected_wrong_pairs": self.expected_wrong,
            "scale": self.scale.to_dict(),
            "confidence": self.confidence,
            "familywise": self.verdicts.familywise,
            "looks": self.looks,
            "items_of_benchmark": self.n_items,
            "items_administered": sum(len(row.items) for row in self.models),
            "cost": sum(row.cost for row in self.models),
            "stopped_because": self.stopped_because,
            "goal_met": self.goal_met,
            "signature": self.signature,
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }
        if self.weights:
            content["weights"] = dict(self.weights)
        for part in ("tasks", "outcomes", "groups"):
            if parts := getattr(self, part):
                content[part] = {
                    name: part_ranking.to_dict() for name, part_ranking in parts.items()
                }
        return content
