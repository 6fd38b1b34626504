"""The method "paper": order by ability, independent errors, uncertainty per item and price.

The paper's standard errors ignore that its response model is wrong. Calibration therefore leaves
out groups of models, one after another, and gives each model of a group the adaptive test on a bank
of the others. A ranking multiplies the variances that the test states by the ratio of squared
errors to these variances, found for single models and for pairs. Abilities and the choice of items
stay the paper's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ...bank import ItemBank
from ...errors import BankError
from ...metrics.scale import Floats
from ...scores.table import ScoreTable
from ..belief import BENCHMARK, Belief, Indices, References
from ..calibration import GROUPS
from ..curves import STRAIGHT, Curves, fit_abilities
from ..method import Fitted, Method, require_parts
from ..policy import Choice, Description, Items, Mask, Policy, rounded
from .test import CLIP, SQUEEZE, PaperTest, fit, stretched_scale

#: Numbers of items after which errors are measured.
STOPS = (10, 20, 45, 100, 200)
#: Models left out, and the most of a group that are tested.
REPLAYS = 60
MOST_TESTED = REPLAYS // GROUPS
#: Number of models without misfit that are imagined in addition to those observed.
PRIOR = 4.0


@dataclass(frozen=True)
class Misfit:
    """By what factors, at least 1, squared errors exceed the variances that the test states.

    Attributes
    ----------
    n : tuple of float
        Numbers of items of a model, ascending.
    single, pair : tuple of float
        Factor at each of these numbers on a model's variance, and on its part of the variance of a
        difference.
    df : float
        Degrees of freedom of the factors, and so of all variances.
    """

    n: tuple[float, ...]
    single: tuple[float, ...]
    pair: tuple[float, ...]
    df: float

    @classmethod
    def of(cls, bank: ItemBank) -> Misfit:
        """Read the misfit that the calibration measured, or take the usual one.

        Examples
        --------
        >>> Misfit.of(ItemBank.blank(range(9))) is USUAL
        True
        """
        if (stored := bank.constants.get("misfit")) is None:
            return USUAL
        try:
            n, single, pair = (tuple(map(float, stored[k])) for k in ("n", "single", "pair"))
            out = cls(n, single, pair, float(stored["df"]))
            sound = len(out.n) == len(out.single) == len(out.pair) > 0 and out.df > 0.0
            sound = sound and min(*out.n, *out.single, *out.pair) >= 1.0
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise BankError("damaged item bank: constant 'misfit' makes no sense")
        return out

    def widened(self, error: Floats, n: Floats) -> tuple[Floats, Floats]:
        """Return standard errors after `n` items, times the roots of the factors; (n_models,) each.

        The first are those of estimates, the second what each model adds to differences. Factors
        are linear in ``log n`` between the numbers that were measured, and constant beyond.
        """
        log_n = np.log(np.maximum(n, 1.0))
        of_single, of_pair = (
            np.interp(log_n, np.log(self.n), factors) for factors in (self.single, self.pair)
        )
        return error * np.sqrt(of_single), error * np.sqrt(of_pair)


#: Used where nothing was measured: for a bank of fewer than four models.
USUAL = Misfit((10.0, 200.0), (2.0, 8.0), (1.5, 2.0), 5.0)


def calibrated(table: ScoreTable, *, rescale: str = "range") -> Fitted:
    """Calibrate as the paper does (`test.fit`), and measure the misfit."""
    fitted = fit(table, rescale=rescale)
    if (misfit := measured(table, rescale)) is None:
        return fitted
    return replace(fitted, constants={**fitted.constants, "misfit": misfit})


class ReplayErrors:
    """Errors of replayed tests after one number of items, beside the variances that these stated.

    Attributes
    ----------
    of_models, of_pairs : list of float
        Squared errors of models' means and of their differences, each over its stated variance.
    gaps : list of float
        How far the means of each pair truly are apart.
    """

    def __init__(self) -> None:
        self.of_models: list[float] = []
        self.of_pairs: list[float] = []
        self.gaps: list[float] = []

    def add(self, estimate: Floats, variance: Floats, truth: Floats) -> None:
        """Take in the mean scores of models that were tested on one bank; shapes (n_models,)."""
        error = estimate - truth
        self.of_models += list(error * error / variance)
        i, j = np.triu_indices(len(truth), 1)
        self.of_pairs += list((error[i] - error[j]) ** 2 / (variance[i] + variance[j]))
        self.gaps += list(np.abs(truth[i] - truth[j]))

    @property
    def model_factor(self) -> float:
        """Factor on variances by which 90% intervals hold for 90% of the models.

        A mean of the ratios would depend on a few models unlike all others.
        """
        # A standard normal variable lies within +-1.645 with probability 0.9, and 1.645^2 = 2.706.
        return float(np.quantile(self.of_models, 0.9) / 2.706)

    @property
    def pair_factor(self) -> float:
        """Mean ratio over the closest third of the pairs, and all that are as close as these.

        Their order is in doubt; errors of the others grow with the difference and decide nothing.
        """
        gaps = rounded(np.array(self.gaps))
        last_of_third = np.sort(gaps)[math.ceil(len(gaps) / 3) - 1]
        return float(np.array(self.of_pairs)[gaps <= last_of_third].mean())


def measured(table: ScoreTable, rescale: str) -> dict[str, object] | None:
    """Measure the misfit of left-out models, as JSON values; None if there are too few models."""
    n_models = len(table.models)
    replays: defaultdict[int, ReplayErrors] = defaultdict(ReplayErrors)
    for left_out in _groups_to_leave_out(table.models):
        bank = _bank_without(table, left_out, rescale)
        if bank is None:
            continue
        # A whole test of each model takes time, so only a part of a large group is tested.
        y = table.model_scores(models=left_out[:MOST_TESTED])
        truth = np.nanmean(y, axis=1)
        for n, (estimate, variance) in _tested(bank, y).items():
            replays[n].add(estimate, variance, truth)
    stops = sorted(n for n, errors in replays.items() if errors.gaps)
    if not stops:
        return None
    single = tuple(shrunk(replays[n].model_factor, n_models) for n in stops)
    pair = tuple(shrunk(replays[n].pair_factor, n_models) for n in stops)
    return asdict(Misfit(tuple(map(float, stops)), single, pair, n_models + PRIOR - 2.0))


def shrunk(factor: float, n_models: int) -> float:
    """Return a factor that so many models showed, drawn towards 1, and at least 1.

    ``(n factor + PRIOR) / (n + PRIOR)``, so that no error becomes smaller than the test states.

    Examples
    --------
    >>> shrunk(3.0, n_models=4), shrunk(0.5, n_models=4)
    (2.0, 1.0)
    """
    return max((n_models * factor + PRIOR) / (n_models + PRIOR), 1.0)


def _groups_to_leave_out(models: Sequence[str]) -> Iterator[Indices]:
    """Draw groups of at least two models, until `REPLAYS` models or more were in one.

    Fewer than four models make no groups.
    """
    n_groups, rng = min(GROUPS, len(models) // 2), np.random.default_rng(0)
    # Without a group nothing would be left to calibrate on.
    if n_groups < 2:
        return
    by_name = np.argsort(np.array(models))  # a bank does not depend on the order of its rows
    for _ in range(math.ceil(REPLAYS / len(models))):
        order = by_name[rng.permutation(len(models))]
        for group in range(n_groups):
            yield order[group::n_groups]


def _bank_without(table: ScoreTable, left_out: Indices, rescale: str) -> ItemBank | None:
    """Return a bank of the other models; None if nothing differs without those left out."""
    try:
        fitted = fit(table.without([table.models[i] for i in left_out]), rescale=rescale)
    except BankError:
        return None
    return replace(
        ItemBank.blank(table.doc_ids), method="paper", kept=fitted.kept,
        parameters=fitted.parameters, constants=fitted.constants,
    )  # fmt: skip


def _tested(bank: ItemBank, y: Floats) -> dict[int, tuple[Floats, Floats]]:
    """Test models whose scores are `y`; return estimates and variances by number of items."""
    tests = [PaperTest(bank, seed=(k,)) for k in range(len(y))]
    free = bank.kept & np.isfinite(y)
    longest, out = int(free.sum(axis=1).min()), {}
    for n in range(1, min(longest, STOPS[-1]) + 1):
        for test, left, scores in zip(tests, free, y):
            [item] = test.select(left)
            left[item] = False
            test.learn(item, float(scores[item]))
        # A benchmark shorter than the first stop is judged at its end.
        if n in STOPS or n == longest < STOPS[0]:
            error = np.array([test.slope * test.ability_error for test in tests])
            out[n] = np.array([test.estimate for test in tests]), error**2
    return out


class PaperPolicy(Policy):
    """Ranking by the method "paper" (arXiv:2601.13885).

    ``P(i better than j) = Phi((theta_i - theta_j) / sqrt(SE_i^2 + SE_j^2))``; the next item goes
    to the model with the largest ``SE^2 / ((n + 1) x price of one unit)``, after ``n`` items; a
    model gets at most half the items kept.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    seed : int, optional
        Seed of the draws among items of equal information.
    information, score_range, jitter
        See `PaperTest`.
    looks : {"every", "one"}, optional
        With "one", errors are the paper's; otherwise they are widened by `Misfit`.
    sampled : bool, optional
        Whether an answer is one draw. Errors contain the noise of answers whether it is or not, but
        if it is, not even all items make a pair known in full.
    """

    warmup_ignores_limits = True
    affords_mean = True
    max_share = 0.5
    looks_after_every_answer = True

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        information: str = "first",
        score_range: tuple[float, float] | None = None,
        jitter: bool = False,
        looks: str = "one",
        sampled: bool = False,
    ) -> None:
        self._bank, self._sampled = bank, sampled
        self._misfit = Misfit.of(bank) if looks == "every" else None
        options = {"information": information, "score_range": score_range, "jitter": jitter}
        self._options: dict[str, Any] = options
        self._seed = seed
        self.tests: list[PaperTest] = []
        # Of each model: ability and its error, items, estimate and slope; those of the models that
        # learned a score since are stale.
        self._figures = np.empty((0, 5))
        self._learned_since: set[int] = set()
        for _ in range(n_models):
            self.add_model()

    def add_model(self) -> None:
        seed = (self._seed, len(self.tests))
        self._learned_since.add(len(self.tests))
        self._figures = np.vstack([self._figures, np.zeros(5)])
        self.tests.append(PaperTest(self._bank, **self._options, seed=seed))

    def told(self, model: int, item: int, score: float) -> None:
        self.tests[model].learn(item, score)
        self._learned_since.add(model)

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Return the belief about abilities; for either question its errors are a population's."""
        # Few of perhaps hundreds of models have answered since the last belief.
        for model in self._learned_since:
            test = self.tests[model]
            self._figures[model] = (
                test.ability,
                test.ability_error,
                len(test.answered),
                test.estimate,
                test.slope,
            )
        self._learned_since.clear()
        ability, error, n, score, slope = self._figures.T.copy()
        df, pair_error = np.inf, None
        # All items make a model known in full only if the question is about these, and answers are
        # not sampled.
        in_full = question == BENCHMARK and not self._sampled
        n_items = float(self._bank.n_items) if in_full else math.inf
        # Errors of models, and of differences, are wider where every answer is followed by a look.
        if self._misfit is not None:
            df, (error, pair_error) = self._misfit.df, self._misfit.widened(error, n)
        return Belief.independent(
            ability, error, n=n, n_items=n_items, score=score, slope=slope,
            question=question, pair_error=pair_error, df=df,
        )  # fmt: skip

    def expected(self, model: int) -> Floats:
        return self.tests[model].expected()

    def describe(self, model: int) -> Description:
        return Description(self.tests[model].ability, self.tests[model].ability_error)

    def references(
        self, names: tuple[str, ...], mean: Floats, kept_mean: Floats, error: Floats
    ) -> References:
        """Place reference models at the abilities at which the bank expects their means.

        A test of every item ends there, because its steps solve ``sum (y - mu) = 0``.
        """
        scale, kept_items = (
            stretched_scale(self._bank, self._options["score_range"]),
            self._bank.kept,
        )
        # A mean of 0 or 1 has no finite ability.
        targets = np.clip((kept_mean - scale.low) / scale.span, CLIP, 1.0 - CLIP)
        curves = stretched_curves(self._bank)
        theta = fit_abilities(curves, np.where(kept_items, targets[:, None], np.nan), precision=0.0)
        mu = curves.expected(theta)[:, kept_items]
        slope = (mu * (1.0 - mu)).mean(axis=1)
        # The delta method.
        variance = (error / scale.span / np.maximum(slope, 1e-12)) ** 2
        return References(names, theta, variance, mean, error)

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        return [Choice(i) for i in self.tests[model].select(available, k)]

    def priorities(
        self, models: Items, pending: Iterable[Items], prices: Sequence[float]
    ) -> Floats:
        worth = [
            1.0 / (test.precision_with(items) * (len(test.answered) + len(items) + 1) * price)
            for test, items, price in zip([self.tests[j] for j in models], pending, prices)
        ]
        return np.array(worth)


def stretched_curves(bank: ItemBank) -> Curves:
    """Return curves for scores stretched over [0, 1], which is the scale of the test."""
    return _curves(bank, np.asarray(-bank.parameters["difficulty"]))


def unstretched_curves(bank: ItemBank) -> Curves:
    """Return curves for scores as they are.

    The bank's difficulties are minus the logits of mean scores that were stretched over all of
    [0, 1]: the hardest and the easiest item have the difficulties 6.9 and -6.9, whatever their
    means. Stretching is undone by the lowest and highest mean of an item, which the bank holds
    (``mean_range``); a bank without them has the curves of `stretched_curves`.
    """
    difficulty = bank.parameters["difficulty"]
    try:
        low, high = (float(constant) for constant in bank.constants["mean_range"])
    except (KeyError, TypeError, ValueError):
        return stretched_curves(bank)
    share = (expit(-difficulty) - SQUEEZE) / (1.0 - 2.0 * SQUEEZE)
    mean = np.clip(low + share * (high - low), SQUEEZE, 1.0 - SQUEEZE)
    return _curves(bank, np.asarray(logit(mean)))


def _curves(bank: ItemBank, intercept: Floats) -> Curves:
    """Return curves of slope 1 with these intercepts, and the bank's noise."""
    return Curves(
        np.column_stack([intercept, np.ones(bank.n_items)]),
        np.full(bank.n_items, float(bank.constants["k"])),
        STRAIGHT,
        -float(np.median(intercept)),
    )


def _requires(bank: ItemBank) -> None:
    require_parts(bank, ("difficulty",), ("k", "start"), positive=("k",))
    if bank.constants["k"] < 1e-12:
        raise BankError("damaged item bank: constant 'k' is absurdly small")


METHOD = Method(
    name="paper",
    summary="exactly the paper, for comparison: one difficulty per item, one noise per bank",
    policy=PaperPolicy,
    calibrate=calibrated,
    requires=_requires,
    curves=unstretched_curves,
    test_curves=stretched_curves,
    test_scale=stretched_scale,
)
