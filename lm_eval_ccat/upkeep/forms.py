"""Fixed forms: the few items that best predict the score of the whole benchmark.

An adaptive test asks each model its own items. Who can only run a fixed list takes a *form*: items
chosen once for all models, with the linear regression of the benchmark's mean on their scores (not
the mean of these scores, which is biased as the items are chosen).

Item scores and the mean over all items have a joint covariance over models. Its sample estimate is
drawn towards that of one common factor, by a share that is found by leaving models out; the share
is what makes forms possible with fewer models than items. Items are taken one after the other,
each time the one that leaves the least variance of the mean (forward selection, a pivoted Cholesky
decomposition, so that no matrix of all pairs of items is needed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..bank.text import plain
from ..errors import BankError, UsageError

Floats = NDArray[np.float64]
#: Shares of the common factor that are tried.
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)
FOLDS = 10
MIN_MODELS = 8
_LEAST_VARIANCE = 1e-9
#: Axes of a form's figures, each of the length of its items.
_SHAPES = {"mean": 1, "covariance": 2, "with_mean": 1, "centre": 0, "variance": 0, "error": 0}


@dataclass(frozen=True, eq=False)
class Form:
    """Items and the regression of the benchmark's mean on their scores.

    Attributes
    ----------
    items : tuple of doc_id
    doc_hashes : tuple of (str or None)
    mean : ndarray of shape (n,)
        Mean scores of the items over the models they were chosen by, on [0, 1].
    covariance : ndarray of shape (n, n)
    with_mean : ndarray of shape (n,)
        Covariance of each item with the mean over the benchmark.
    centre, variance : float
        Of the mean over the benchmark.
    error : float
        Root of the mean squared error over models left out, items chosen without them.
    models : int
        How many models it is made of.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> skill = rng.normal(size=(60, 1))
    >>> scores = 1 / (1 + np.exp(-skill - rng.normal(size=80) + 0.5 * rng.normal(size=(60, 80))))
    >>> form = make_forms(scores[:50], range(80), 8)[0]
    >>> estimate, error = form.estimate({i: scores[55, i] for i in form.items})
    >>> bool(abs(estimate - scores[55].mean()) < 4 * error)
    True
    """

    items: tuple[Any, ...]
    doc_hashes: tuple[str | None, ...]
    mean: Floats
    covariance: Floats
    with_mean: Floats
    centre: float
    variance: float
    error: float
    models: int

    def estimate(self, scores: Mapping[Any, float]) -> tuple[float, float]:
        """Mean score over the whole benchmark and its standard error, on [0, 1].

        Parameters
        ----------
        scores : mapping of doc_id to float
            On [0, 1]; items that lack one count as not asked.

        Raises
        ------
        UsageError
            No item of the form has a score.
        """
        at = [i for i, d in enumerate(self.items) if np.isfinite(scores.get(d, np.nan))]
        if not at:
            raise UsageError("no item of the form has a score")
        seen = np.array([float(scores[self.items[i]]) for i in at])
        weights, explained = self._regression(at)
        value = self.centre + float(weights @ (seen - self.mean[at]))
        left, all_left = (
            self.variance - explained,
            self.variance - self._regression(range(len(self.items)))[1],
        )
        widened = max(left, all_left, _LEAST_VARIANCE) / max(all_left, _LEAST_VARIANCE)
        return min(max(value, 0.0), 1.0), self.error * float(np.sqrt(widened))

    def interval(self, estimate: float, error: float, confidence: float) -> tuple[float, float]:
        """Interval of the mean score, cut to [0, 1]."""
        reach = float(stdtrit(max(self.models - 1, 1), 0.5 + 0.5 * confidence)) * error
        return max(0.0, estimate - reach), min(1.0, estimate + reach)

    def _regression(self, at: Sequence[int]) -> tuple[Floats, float]:
        """Weights of some items, and the variance of the mean that they explain."""
        covariance = self.with_mean[at]
        weights = np.linalg.solve(self.covariance[np.ix_(at, at)], covariance)
        return np.asarray(weights), float(covariance @ weights)

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {name: plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Form:
        """Rebuild from `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            A part is missing or makes no sense.
        """
        n = len(d["items"])
        arrays = {name: np.array(d[name], dtype=np.float64) for name in _SHAPES}
        for name, shape in _SHAPES.items():
            if arrays[name].shape != (n,) * shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} does not fit {n} items")
        np.linalg.cholesky(arrays["covariance"])  # LinAlgError is a ValueError
        hashes = tuple(d["doc_hashes"])
        if not n or len(hashes) != n:
            raise ValueError("items and hashes do not fit one another")
        parts: dict[str, Any] = {n: a if a.ndim else float(a) for n, a in arrays.items()}
        return cls(items=tuple(d["items"]), doc_hashes=hashes, models=int(d["models"]), **parts)


def make_forms(
    scores: Any,
    doc_ids: Any,
    n_items: int,
    parallel: int = 1,
    *,
    doc_hashes: Any = None,
    offered: Any = None,
    seed: int = 0,
) -> list[Form]:
    """Choose the items of one form, or of several without an item in common.

    Parameters
    ----------
    scores : array_like of shape (n_models, n_documents)
        Of all models on the whole benchmark, on [0, 1]; NaN where missing.
    doc_ids : sequence
    n_items : int
        Of each form.
    parallel : int, optional
        How many forms.
    doc_hashes : sequence of (str or None), optional
    offered : array_like of bool, optional
        Items that may be chosen.
    seed : int, optional
        Of the folds by which the share of the common factor is chosen.

    Returns
    -------
    list of Form

    Raises
    ------
    BankError
        Fewer than eight models.
    UsageError
        There are too few items that tell models apart.
    """
    x = _filled(np.asarray(scores, dtype=np.float64))
    ids = list(doc_ids)
    n_models = len(x)
    if n_models < MIN_MODELS:
        raise BankError(f"a form needs the scores of at least {MIN_MODELS} models, not {n_models}")
    may = np.ones(len(ids), dtype=bool) if offered is None else np.asarray(offered, dtype=bool)
    usable = int((may & (x.var(axis=0) > _LEAST_VARIANCE)).sum())
    if n_items < 1 or parallel < 1 or n_items * parallel > usable:
        raise UsageError(f"{parallel} form(s) of {n_items} items: {usable} items separate models")
    rng = np.random.default_rng(seed)
    fold = rng.permutation(np.arange(n_models) % min(FOLDS, n_models))
    errors = [_left_out(x, may, n_items, 1, share, fold) for share in SHARES]
    share = SHARES[int(np.argmin([e.mean() for e in errors]))]
    squares = _left_out(x, may, n_items, parallel, share, fold)
    model = _Covariance(x, share)
    hashes = [None] * len(ids) if doc_hashes is None else list(doc_hashes)
    forms = []
    for k, chosen in enumerate(_chosen(model, may, n_items, parallel)):
        chosen = sorted(chosen)
        forms.append(
            Form(
                items=tuple(ids[i] for i in chosen),
                doc_hashes=tuple(hashes[i] for i in chosen),
                mean=model.mean[chosen],
                covariance=model.block(chosen),
                with_mean=model.with_mean[chosen],
                centre=float(model.mean.mean()),
                variance=model.variance,
                error=float(np.sqrt(squares[k].mean())),
                models=n_models,
            )
        )
    return forms


class _Covariance:
    """Covariance of item scores over models, drawn towards one common factor by `share`."""

    def __init__(self, x: Floats, share: float) -> None:
        self.mean = x.mean(axis=0)
        self._z = (x - self.mean) / np.sqrt(len(x) - 1)
        self._share = share
        level = self._z.mean(axis=1)
        size = float(np.linalg.norm(level))
        self.diagonal = np.maximum((self._z**2).sum(axis=0), _LEAST_VARIANCE)
        self._loading = self._z.T @ level / max(size, 1e-12)
        unique = np.maximum(self.diagonal - self._loading**2, 0.0)
        n = x.shape[1]
        factor = self._loading * self._loading.mean() + unique / n
        self.with_mean = (1.0 - share) * (self._z.T @ level) + share * factor
        self.variance = float(self.with_mean.mean())

    def column(self, i: int) -> Floats:
        """Covariances of item `i` with all; shape (n_items,)."""
        out = (1.0 - self._share) * (self._z.T @ self._z[:, i])
        out += self._share * self._loading[i] * self._loading
        out[i] = self.diagonal[i]
        return np.asarray(out)

    def block(self, items: list[int]) -> Floats:
        """Covariance of some items."""
        return np.array([self.column(i)[items] for i in items])


def _chosen(
    model: _Covariance, may: NDArray[np.bool_], n_items: int, parallel: int
) -> list[list[int]]:
    """Forward selection for several forms in turn; the order of turns is reversed each time."""
    free = may & (model.diagonal > 2 * _LEAST_VARIANCE)
    states = [_State(model) for _ in range(parallel)]
    for step in range(n_items):
        for state in states if step % 2 == 0 else states[::-1]:
            free[state.take(model, free)] = False
    return [state.items for state in states]


class _State:
    """The state of one form: covariances with the mean and variances, given its items."""

    def __init__(self, model: _Covariance) -> None:
        self.items: list[int] = []
        self._with_mean = model.with_mean.copy()
        self._variance = model.diagonal.copy()
        self._rows: list[Floats] = []

    def take(self, model: _Covariance, free: NDArray[np.bool_]) -> int:
        """The free item that explains most of what is left."""
        gain = self._with_mean**2 / np.maximum(self._variance, _LEAST_VARIANCE)
        i = int(np.argmax(np.where(free, gain, -np.inf)))
        q = model.column(i)
        for row in self._rows:
            q = q - row[i] * row
        q = q / np.sqrt(max(float(q[i]), _LEAST_VARIANCE))
        self._with_mean -= (
            q * float(self._with_mean[i]) / np.sqrt(max(float(self._variance[i]), _LEAST_VARIANCE))
        )
        self._variance = np.maximum(self._variance - q**2, 0.0)
        self._rows.append(q)
        self.items.append(i)
        return i


def _left_out(
    x: Floats, may: NDArray[np.bool_], n_items: int, parallel: int, share: float, fold: Any
) -> Floats:
    """Squared errors of models that had no part in choosing; shape (parallel, n_models)."""
    truth = x.mean(axis=1)
    out = np.zeros((parallel, len(x)))
    for f in np.unique(fold):
        test = fold == f
        model = _Covariance(x[~test], share)
        for k, items in enumerate(_chosen(model, may, n_items, parallel)):
            weights = np.linalg.solve(model.block(items), model.with_mean[items])
            predicted = model.mean.mean() + (x[test][:, items] - model.mean[items]) @ weights
            out[k, test] = (np.clip(predicted, 0.0, 1.0) - truth[test]) ** 2
    return out


def _filled(x: Floats) -> Floats:
    """Missing scores by what model and item have elsewhere."""
    seen = np.isfinite(x)
    if seen.all():
        return x
    total = float(x[seen].mean())
    rows = np.where(seen, x, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    columns = np.where(seen, x, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    guess = np.clip(rows[:, None] + columns[None, :] - total, 0.0, 1.0)
    return np.where(seen, x, guess)
