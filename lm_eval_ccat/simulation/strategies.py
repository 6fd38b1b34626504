"""The methods that a replay compares, by name, including baselines.

``random`` is the paper's baseline. ``common`` and ``limit`` give every model the same items: models
are then compared at the same difficulty, which makes these baselines much stronger. ``static`` is
the classic short form: the items that discriminate best, chosen once.

``paired`` compares models on the items that all have had. ``paired_difference`` compares their
residuals from a response model's predictions, and adds the predictions' mean over all items: the
difference estimator of survey sampling (C.-E. Särndal, B. Swensson and J. Wretman,
"Model Assisted Survey Sampling", 1992, section 6.3), unbiased up to the fit of one ability per
model however wrong the response model is. Several tasks are strata, whose beliefs are summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.belief import Belief
from ..methods.curves import fit_abilities
from ..methods.method import method as registered
from ..methods.method import method_of
from ..methods.method import names as registered_names
from ..methods.policy import rounded
from ..methods.sample.pairs import IMAGINED_ITEMS
from ..metrics.scale import Floats
from ..plugins import did_you_mean
from ..ranker.accounts import SLACK
from .judging import Claim


@dataclass(frozen=True)
class Strategy:
    """One way to spend a budget and rank the held-out models.

    Attributes
    ----------
    name : str
        Name in tables.
    kind : {"ranker", "fixed", "random", "common", "limit", "static", "paired", "paired_difference"}
        ``ranker`` drives :class:`~lm_eval_ccat.Ranker` as a live run does; ``fixed`` gives every
        model the same number of adaptively chosen items; the others use no ranker. The last two
        decide pairs by paired t-tests on common items.
    bank_method : str, optional
        The method of the bank, for ``ranker``, ``fixed`` and ``paired_difference``.
    calibrate, rank : dict
        Options of the calibration and of the Ranker.

    Examples
    --------
    >>> Strategy("paper, full information", "ranker", "paper", rank={"information": "full"}).name
    'paper, full information'
    """

    name: str
    kind: str
    bank_method: str | None = None
    calibrate: Mapping[str, Any] = field(default_factory=dict)
    rank: Mapping[str, Any] = field(default_factory=dict)

    @property
    def drives_ranker(self) -> bool:
        """Whether a `Ranker` chooses the items."""
        return self.kind in ("ranker", "fixed")

    @property
    def calibrates(self) -> bool:
        """Whether the method needs scores of models that are not held out."""
        if self.bank_method is None:
            return self.kind == "static"
        return registered(self.bank_method).calibrates

    @property
    def calibration_key(self) -> tuple[str | None, str]:
        """Key of the method's calibration; methods with equal keys share one."""
        return self.bank_method, repr(sorted(self.calibrate.items()))


METHODS: dict[str, Strategy] = {
    "random": Strategy("random", "random"),
    "common": Strategy("common", "common"),
    "limit": Strategy("limit", "limit"),
    "static": Strategy("static", "static"),
    "paired": Strategy("paired", "paired"),
    "paired_difference": Strategy("paired_difference", "paired_difference", bank_method="default"),
    "fixed": Strategy("fixed", "fixed", bank_method="paper"),
}


def strategy_named(name: str) -> Strategy:
    """Return the baseline, or the registered or installed ranking method, of this name.

    Raises
    ------
    UsageError
        There is no method of this name.
    """
    # Baselines have no plugins, and their names are taken.
    if name in METHODS:
        return METHODS[name]
    known = registered_names()
    if name not in known:
        every_name = [*known, *METHODS]
        raise UsageError(f"no method {name!r}{did_you_mean(name, every_name)}")
    return Strategy(name, "ranker", bank_method=name)


def chosen_methods(methods: Sequence[str | Strategy]) -> tuple[Strategy, ...]:
    """Look up methods by name; keep any :class:`Strategy` as it is.

    Raises
    ------
    UsageError
        A name is unknown or appears twice, or there is none.
    """
    strategies: list[Strategy] = []
    for method in methods:
        if isinstance(method, str):
            method = strategy_named(method)
        # Results are by name, so that one would hide the other.
        if method.name in {method.name for method in strategies}:
            raise UsageError(f"method {method.name!r} appears twice")
        strategies.append(method)
    if not strategies:
        raise UsageError("name at least one method")
    return tuple(strategies)


# -- baselines that choose items blindly ---------------------------------------------------------


class Draw(NamedTuple):
    """Models, by number, and the item to ask all of them."""

    models: list[int]
    item: int


Draws = Iterable[Draw]


def random_draws(scores: Floats, rng: np.random.Generator) -> Draws:
    """Draw again and again a random model and an item that it has not had; never draw NaN."""
    queues = [rng.permutation(np.flatnonzero(np.isfinite(row))).tolist() for row in scores]
    while unfinished := [model for model, queue in enumerate(queues) if queue]:
        model = unfinished[int(rng.integers(len(unfinished)))]
        yield Draw([model], queues[model].pop())


def draws_for_all(scores: Floats, order: Iterable[int]) -> Draws:
    """Yield the items of an order, each for all models that have a score on it."""
    present = np.isfinite(scores)
    return (Draw(np.flatnonzero(present[:, item]).tolist(), item) for item in order)


class AskedItems(NamedTuple):
    """Which items each model was asked, shape (n_models, n_items), and what they cost."""

    asked: NDArray[np.bool_]
    spent: float


def administer(draws: Draws, prices: Floats, units: Floats, budget: float) -> AskedItems:
    """Administer draws up to the first that does not fit into the budget.

    Parameters
    ----------
    draws : iterable of Draw
    prices : ndarray of shape (n_models,)
        Price of one unit of each model.
    units : ndarray of shape (n_items,)
        Size of each item.
    budget : float
        The sum of price times units that may be spent.

    Examples
    --------
    >>> draws = [Draw([0, 1], 2), Draw([0, 1], 0)]
    >>> administered = administer(draws, np.array([1.0, 2.0]), np.ones(3), budget=5.0)
    >>> administered.asked.tolist(), float(administered.spent)
    ([[False, False, True], [False, False, True]], 3.0)
    """
    asked = np.zeros((len(prices), len(units)), dtype=bool)
    spent = 0.0
    for models, item in draws:
        price = float(prices[models].sum()) * units[item]
        if spent + price > budget * (1 + SLACK):
            break
        asked[models, item] = True
        spent += price
    return AskedItems(asked, spent)


def discriminating_order(calibration: Floats) -> NDArray[np.intp]:
    """Sort items by corrected item-total correlation over the calibration models, highest first.

    This correlates an item's scores with the models' mean scores over their other items. Items
    without a correlation (constant, or fewer than three models) come last; ties keep their order.

    Parameters
    ----------
    calibration : ndarray of shape (n_models, n_items)
        NaN where missing.
    """
    present = np.isfinite(calibration)
    n_others = present.sum(axis=1)[:, None] - present
    # A model with a score of this item alone has no mean to go with it.
    present &= n_others > 0
    y = np.where(present, calibration, 0.0)
    mean_of_others = np.where(present, (y.sum(axis=1)[:, None] - y) / np.maximum(n_others, 1), 0.0)
    # By item, deviations of both from their means over the models that have the item.
    count = np.maximum(present.sum(axis=0), 1)
    dy = np.where(present, y - y.sum(axis=0) / count, 0.0)
    dm = np.where(present, mean_of_others - mean_of_others.sum(axis=0) / count, 0.0)
    norm = np.sqrt((dy**2).sum(axis=0) * (dm**2).sum(axis=0))
    usable = (present.sum(axis=0) >= 3) & (norm > 1e-12)
    correlation = np.divide(
        (dy * dm).sum(axis=0), norm, out=np.full(y.shape[1], -np.inf), where=usable
    )
    return np.argsort(-rounded(correlation), kind="stable")


# -- paired t-tests ----------------------------------------------------------------------------


class TaskScores(NamedTuple):
    """What paired t-tests know of one task.

    Attributes
    ----------
    share : float
        The task's weight in a model's score; all sum to 1.
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], more is better; items in the order of the bank if there is one. NaN where not
        asked.
    bank : ItemBank or None
        The bank whose predictions, at abilities fitted to these scores, are subtracted.
    """

    share: float
    scores: Floats
    bank: ItemBank | None


class _Residuals(NamedTuple):
    """Scores of one task less what a bank predicts of them.

    Attributes
    ----------
    values : ndarray of shape (n_models, n_items)
        NaN where not asked; the scores themselves without a bank.
    mean_prediction : ndarray of shape (n_models,)
        Mean over all items of what was subtracted from each model's scores.
    n_fitted : int
        Degrees of freedom that are taken by a mean and, with a bank, by a fitted ability.
    """

    values: Floats
    mean_prediction: Floats
    n_fitted: int

    @classmethod
    def of(cls, task: TaskScores) -> _Residuals:
        """Subtract the predictions of the task's bank, if it has one."""
        if task.bank is None:
            return cls(task.scores, np.zeros(len(task.scores)), n_fitted=1)
        curves = method_of(task.bank).curves(task.bank)
        expected = curves.expected(fit_abilities(curves, task.scores))
        return cls(task.scores - expected, expected.mean(axis=1), n_fitted=2)


def _gaps_on_common_items(task: TaskScores) -> tuple[Floats, Belief]:
    """Return by how much each model leads each other one, by the items that both have had.

    Returns
    -------
    gaps : ndarray of shape (n_models, n_models)
        Of the model of the row to that of the column; on the diagonal, the model's own mean.
    belief : Belief
        The means, and the variances of all gaps.
    """
    residuals, size = _Residuals.of(task), task.scores.shape[1]
    y = residuals.values[:, np.isfinite(residuals.values).any(axis=0)]
    # By item, (n_models, n_models, n_asked): differences of each pair of models; on the diagonal,
    # the model's own values.
    differences, diagonal = y[:, None] - y[None, :], np.arange(len(y))
    differences[diagonal, diagonal] = y
    predicted = residuals.mean_prediction
    predicted_gaps = predicted[:, None] - predicted[None, :]
    predicted_gaps[diagonal, diagonal] = predicted
    present = np.isfinite(differences)
    n = np.maximum(present.sum(axis=-1), 1)
    mean = np.where(present, differences, 0.0).sum(axis=-1) / n
    df = np.maximum(n - residuals.n_fitted, 1.0)
    # Variance of a difference on an item.
    spread = (np.where(present, differences - mean[..., None], 0.0) ** 2).sum(axis=-1) / df
    # Values that are all equal (up to rounding) do not prove that there is no error: half an item
    # that differs by the whole scale is imagined.
    spread = np.where(spread > 1e-20, spread, IMAGINED_ITEMS / n)
    # With the finite-population correction.
    variance = spread * (1.0 - n / size) / n
    gaps = mean + predicted_gaps
    return gaps, Belief(gaps.diagonal(), variance, df=df, n=n.astype(float), n_items=size)


def paired(tasks: Sequence[TaskScores], confidence: float) -> Claim:
    """Claim which models are better, by paired t-tests on the items that both have had.

    Parameters
    ----------
    tasks : sequence of TaskScores
    confidence : float
        Two-sided, for each pair, at one look.
    """
    gaps, beliefs = zip(*map(_gaps_on_common_items, tasks))
    shares = [task.share for task in tasks]
    total, gap = Belief.sum(beliefs, shares), np.tensordot(shares, gaps, 1)
    error = np.sqrt(total.variance.diagonal())
    half = stdtrit(total.df.diagonal(), (1.0 + confidence) / 2.0) * error
    # Chance that the model of the row is better than that of the column.
    better = stdtr(total.df, gap / np.sqrt(np.maximum(total.variance, 1e-30)))
    # Not by `Verdicts`: where scores are missing, a pair's difference on the items that both have
    # is not that of their estimates.
    tail = (1.0 - confidence) / 2.0
    decided = ((better < tail) | (better > 1.0 - tail)) & ~np.eye(len(gap), dtype=bool)
    return Claim(
        estimates=total.location,
        standard_errors=error,
        intervals=np.stack([total.location - half, total.location + half], axis=1),
        # 1 where the model of the row is decided to be better than that of the column.
        ahead=np.where(decided, np.sign(gap), 0.0).astype(np.int8),
        variance=total.variance,
        df=total.df,
    )
