"""The methods a replay compares, by name, and the baselines among them.

``random`` is the paper's baseline. ``common`` and ``limit`` give every model the same items: models
are then compared on the same difficulty, which makes them much stronger. ``static`` is the classic
short form: the items that discriminate best, chosen once.

``paired`` compares models on the items that all have had.  ``paired_difference`` compares what is
left of their scores after a response model's predictions, and adds the predictions' mean over all
items: the difference estimator of survey sampling (C.-E. Särndal, B. Swensson and J. Wretman,
"Model Assisted Survey Sampling", 1992, section 6.3), unbiased up to the fit of one ability per
model however wrong the response model is. Several tasks are strata: their estimates and variances
add up, and the degrees of freedom are Satterthwaite's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.curves import fit_abilities
from ..methods.registry import method as registered
from ..methods.registry import method_of
from ..methods.registry import names as registered_names
from ..plugins import did_you_mean
from .judging import Claim, Floats


@dataclass(frozen=True)
class Method:
    """One way to spend a budget and rank the held-out models.

    Attributes
    ----------
    name : str
        What tables call it.
    kind : {"ranker", "fixed", "random", "common", "limit", "static", "paired", "paired_difference"}
        ``ranker`` drives :class:`~lm_eval_ccat.Ranker` as a live run does; ``fixed`` gives every
        model the same number of adaptively chosen items; the others are no rankers. The last two
        decide pairs by paired t-tests on common items.
    bank : str, optional
        The bank's method, for ``ranker``, ``fixed`` and ``paired_difference``.
    calibrate, rank : dict
        Options of the calibration and of the Ranker.
    own_budget : bool
        Spend up to the budget itself, not what the method "paper" spent.
    as_long_as : str, optional
        For ``fixed``: give every model as many items as the method of this name, which stands
        before it, gave the model it tested longest on the same fold with the same seed.
    holdout_range : bool
        Rescale by the range of the held-out models' own scores, as the paper's authors do. It
        looks at what is to be predicted; only for ``bank="paper"``, and only to compare.

    Examples
    --------
    >>> Method("paper, full information", "ranker", "paper", rank={"information": "full"}).name
    'paper, full information'
    """

    name: str
    kind: str
    bank: str | None = None
    calibrate: Mapping[str, Any] = field(default_factory=dict)
    rank: Mapping[str, Any] = field(default_factory=dict)
    own_budget: bool = False
    as_long_as: str | None = None
    holdout_range: bool = False

    @property
    def drives_ranker(self) -> bool:
        """Whether a `Ranker` asks for the items."""
        return self.kind in ("ranker", "fixed")

    @property
    def calibrates(self) -> bool:
        """Whether it needs the scores of models that are not held out."""
        if self.bank is None:
            return self.kind == "static"
        return registered(self.bank).calibrates

    @property
    def bank_key(self) -> tuple[str | None, str]:
        """Methods with equal keys share one calibration."""
        return self.bank, repr(sorted(self.calibrate.items()))


METHODS: dict[str, Method] = {
    "random": Method("random", "random"),
    "common": Method("common", "common"),
    "limit": Method("limit", "limit"),
    "static": Method("static", "static"),
    "paired": Method("paired", "paired"),
    "paired_difference": Method("paired_difference", "paired_difference", "default"),
    "fixed": Method("fixed", "fixed", "paper"),
    "fixed_default": Method("fixed_default", "fixed", "default"),
}


def named(name: str) -> Method:
    """A baseline, or any method of rankings that is registered or installed.

    Raises
    ------
    UsageError
        There is none of this name.
    """
    if name in METHODS:
        return METHODS[name]
    known = registered_names()
    if name not in known:
        everything = [*known, *METHODS]
        raise UsageError(f"no method {name!r}{did_you_mean(name, everything)}")
    return Method(name, "ranker", name)


def chosen_methods(methods: Sequence[str | Method]) -> tuple[Method, ...]:
    """Look names up; a :class:`Method` stands for itself.

    Raises
    ------
    UsageError
        An unknown name, a name that stands twice, or none at all.
    """
    chosen: list[Method] = []
    for method in methods:
        if isinstance(method, str):
            method = named(method)
        if method.as_long_as is not None and method.as_long_as not in {m.name for m in chosen}:
            raise UsageError(f"{method.name!r} needs {method.as_long_as!r} before it")
        if method.name in {m.name for m in chosen}:
            raise UsageError(f"method {method.name!r} appears twice")
        chosen.append(method)
    if not chosen:
        raise UsageError("name at least one method")
    return tuple(chosen)


# -- baselines that choose items blindly ---------------------------------------------------------

# A budget is a sum of the same prices in another order; rounding must not cost an item.
_SLACK = 1e-9


def random_items(
    scores: Floats, prices: Floats, units: Floats, budget: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], float]:
    """A random model and an item it has not had, up to the first draw that does not fit.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing; such items are not drawn.
    prices : ndarray of shape (n_models,)
    units : ndarray of shape (n_items,)
    budget : float
    rng : numpy Generator

    Returns
    -------
    administered : ndarray of bool, shape (n_models, n_items)
    spent : float
    """
    n_models = len(scores)
    queues = [
        rng.permutation(np.flatnonzero(np.isfinite(scores[m]))).tolist() for m in range(n_models)
    ]
    administered = np.zeros(scores.shape, dtype=bool)
    spent = 0.0
    while open_ := [m for m in range(n_models) if queues[m]]:
        m = open_[int(rng.integers(len(open_)))]
        item = queues[m].pop()
        price = prices[m] * units[item]
        if spent + price > budget * (1 + _SLACK):
            break
        administered[m, item] = True
        spent += price
    return administered, spent


def items_for_all(
    order: Iterable[int], scores: Floats, prices: Floats, units: Floats, budget: float
) -> tuple[NDArray[np.bool_], float]:
    """The items of an order for every model, up to the first that does not fit.

    Parameters and returns as :func:`random_items`; ``order`` is of item positions.
    """
    seen = np.isfinite(scores)
    administered = np.zeros(scores.shape, dtype=bool)
    spent = 0.0
    for item in order:
        price = float(prices @ seen[:, item]) * units[item]
        if spent + price > budget * (1 + _SLACK):
            break
        administered[:, item] = seen[:, item]
        spent += price
    return administered, spent


def discriminating_order(calibration: Floats) -> NDArray[np.intp]:
    """Items by corrected item-total correlation over the calibration models, highest first.

    The correlation of an item's scores with the models' mean score over their other items. Items
    without one (constant, or fewer than three models) come last, equal ones in the given order.

    Parameters
    ----------
    calibration : ndarray of shape (n_models, n_items)
        NaN where missing.
    """
    seen = np.isfinite(calibration)
    y = np.where(seen, calibration, 0.0)
    others = seen.sum(axis=1)[:, None] - seen
    rest = np.where(seen, (y.sum(axis=1)[:, None] - y) / np.maximum(others, 1), 0.0)
    count = np.maximum(seen.sum(axis=0), 1)
    dy = np.where(seen, y - y.sum(axis=0) / count, 0.0)
    dr = np.where(seen, rest - rest.sum(axis=0) / count, 0.0)
    norm = np.sqrt((dy**2).sum(axis=0) * (dr**2).sum(axis=0))
    usable = (seen.sum(axis=0) >= 3) & (norm > 1e-12)
    correlation = np.divide(
        (dy * dr).sum(axis=0), norm, out=np.full(y.shape[1], -np.inf), where=usable
    )
    return np.argsort(-correlation, kind="stable")


# -- paired t-tests ----------------------------------------------------------------------------

#: Part of an item at the end of the scale that counts as seen where all values are equal: no error
#: at all would be stated else.
_IMAGINED = 0.5


@dataclass(frozen=True)
class Stratum:
    """The observations of one task.

    Attributes
    ----------
    weight : float
        Of the task; those of all tasks sum to 1.
    known : ndarray of shape (n_models, n_items)
        Scores, or what predictions leave of them; NaN where no score was asked.
    offset : ndarray of shape (n_models,)
        What is added to their means.
    fitted : int
        Degrees of freedom that the mean and the predictions took.
    """

    weight: float
    known: Floats
    offset: Floats
    fitted: int = 1

    @classmethod
    def plain(cls, weight: float, known: Floats) -> Stratum:
        """The scores themselves."""
        return cls(weight, known, np.zeros(len(known)))

    @classmethod
    def predicted(cls, weight: float, known: Floats, bank: ItemBank) -> Stratum:
        """What a bank's predictions leave, its ability fitted on the same items."""
        curves = method_of(bank).curves(bank)
        expected = curves.expected(fit_abilities(curves, known))
        return cls(weight, known - expected, expected.mean(axis=1), 2)


def paired(strata: Sequence[Stratum], confidence: float) -> Claim:
    """Models compared by paired t-tests on the items that both have.

    Parameters
    ----------
    strata : sequence of Stratum
        One a task.
    confidence : float
        Two-sided, of each pair, at one look.
    """
    means, gaps = zip(*(_moments(s) for s in strata))
    mean, variance, df = _added(means, [s.weight for s in strata])
    gap, gap_variance, gap_df = _added(gaps, [s.weight for s in strata])
    error = np.sqrt(variance)
    half = stdtrit(df, (1.0 + confidence) / 2.0) * error
    better = stdtr(gap_df, gap / np.sqrt(np.maximum(gap_variance, 1e-30)))
    tail = (1.0 - confidence) / 2.0
    decided = (better < tail) | (better > 1.0 - tail)
    return Claim(
        estimates=mean,
        standard_errors=error,
        intervals=np.stack([mean - half, mean + half], axis=1),
        ahead=np.where(decided, np.sign(gap), 0.0).astype(np.int8),
        variance=gap_variance,
        df=gap_df,
    )


Moments = tuple[Floats, Floats, Floats]


def _moments(of: Stratum) -> tuple[Moments, Moments]:
    """Mean, variance and degrees of freedom of each model, and of each difference of two."""
    y, size = of.known[:, np.isfinite(of.known).any(axis=0)], of.known.shape[1]
    seen = np.isfinite(y)
    filled = np.where(seen, y, 0.0)
    both = seen[:, None] & seen[None, :]
    apart = np.where(both, filled[:, None] - filled[None, :], 0.0)
    one, gap = (_of_mean(v, s, size, of.fitted) for v, s in ((filled, seen), (apart, both)))
    offset = of.offset
    return (one[0] + offset, *one[1:]), (gap[0] + offset[:, None] - offset[None, :], *gap[1:])


def _of_mean(y: Floats, seen: np.ndarray, size: int, fitted: int) -> Moments:
    n = np.maximum(seen.sum(axis=-1), 1)
    mean, df = y.sum(axis=-1) / n, np.maximum(n - fitted, 1.0)
    spread = (np.where(seen, y - mean[..., None], 0.0) ** 2).sum(axis=-1) / df
    spread = np.where(spread > 0.0, spread, _IMAGINED / n)
    return mean, spread * (1.0 - n / size) / n, df


def _added(parts: Sequence[Moments], weights: Sequence[float]) -> Moments:
    """The weighted sum; degrees of freedom as F. E. Satterthwaite (1946) has them."""
    mean = sum(w * m for w, (m, _, _) in zip(weights, parts))
    of_part = [w**2 * v for w, (_, v, _) in zip(weights, parts)]
    variance = np.asarray(sum(of_part))
    if len(parts) == 1:
        return np.asarray(mean), variance, parts[0][2]
    rest = sum(v**2 / df for v, (_, _, df) in zip(of_part, parts))
    df = np.divide(variance**2, rest, out=np.ones_like(variance), where=rest > 0.0)
    return np.asarray(mean), variance, df
