"""The policies of all outcomes, told together of what happens to one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank.outcome import Outcome
from ..errors import ScaleError, UsageError
from ..methods.belief import Belief, Floats
from ..methods.policy import Policy
from .contents import Contents

#: Answers that the prior of a correlation of outcomes counts for; see `Parts.correlation`.
_PRIOR_ANSWERS = 5.0


class Part:
    """One outcome in a ranking: what its method knows of the models by it.

    Attributes
    ----------
    outcome : Outcome
    policy : Policy
    scores : list of dict of int to float
        What each model was scored, by position in the bank, in the order told.
    failed : list of list of int
        What each model failed on.
    """

    def __init__(self, outcome: Outcome, policy: Policy, n_models: int) -> None:
        self.outcome = outcome
        self.policy = policy
        self.scores: list[dict[int, float]] = [{} for _ in range(n_models)]
        self.failed: list[list[int]] = [[] for _ in range(n_models)]
        self._beliefs: dict[str, tuple[int, Belief]] = {}

    @property
    def n_told(self) -> NDArray[np.intp]:
        """Scores of every model; shape (n_models,)."""
        return np.array([len(s) for s in self.scores], dtype=np.intp)

    def belief(self, question: str, version: int) -> Belief:
        """The policy's belief, computed once for each version of its state."""
        kept = self._beliefs.get(question)
        if kept is None or kept[0] != version:
            kept = self._beliefs[question] = version, self.policy.belief(question)
        return kept[1]

    def fail(self, model: int, item: int) -> None:
        """Record that an item will have no score."""
        self.policy.failed(model, item)
        self.failed[model].append(item)

    def lean(self, model: int) -> float:
        """How far its failures may bias each estimate; see `lean`."""
        if not self.failed[model]:
            return 0.0
        expected, scores = self.policy.expected(model), self.scores[model]
        left = 1.0 - len(scores) / self.outcome.bank.n_items
        return left * lean(expected, scores, self.failed[model])


class Parts:
    """All outcomes of a ranking.

    An answer counts for every outcome of its task. The errors of outcomes of the same answers are
    not independent; their correlation is that of the residuals (score less what was expected just
    before it was told) of the answers that both have.

    Parameters
    ----------
    contents : Contents
    n_models : int
    make : callable
        ``(outcome, leader, n_models) -> Policy``.

    Attributes
    ----------
    of_task : list of list of Part
    changes : list of int
        Of what is known, by task.
    """

    def __init__(
        self,
        contents: Contents,
        n_models: int,
        make: Callable[[Outcome, Outcome, int], Policy],
    ) -> None:
        self.contents = contents
        self.of_task = [
            [Part(o, make(o, task.leader, n_models), n_models) for o in task.outcomes]
            for task in contents.tasks
        ]
        self.changes = [0] * len(self.of_task)
        self._products = [np.zeros((len(p), len(p))) for p in self.of_task]
        self._both = [np.zeros((len(p), len(p))) for p in self.of_task]

    @property
    def leader(self) -> Part:
        """The outcome that counts most of the first task: its method's ways are the ranking's."""
        return max(self.of_task[0], key=lambda p: p.outcome.weight)

    def _kept(self, item: int) -> tuple[list[Part], int]:
        """The outcomes whose banks have kept an item, and its position in them."""
        _, parts, i = self._at(item)
        return [part for part in parts if part.outcome.bank.kept[i]], i

    def _at(self, item: int) -> tuple[int, list[Part], int]:
        t = self.contents.task_at(item)
        return t, self.of_task[t], item - self.contents.starts[t]

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        """One more model joins."""
        for t, parts in enumerate(self.of_task):
            self.changes[t] += 1
            for part in parts:
                part.policy.add_model()
                part.scores.append({})
                part.failed.append([])

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        """`item` was asked."""
        parts, i = self._kept(item)
        for part in parts:
            part.policy.placed(model, i, probability)

    def unplaced(self, model: int, item: int) -> None:
        """`item` was given back."""
        parts, i = self._kept(item)
        for part in parts:
            part.policy.unplaced(model, i)

    def failed(self, model: int, item: int) -> None:
        """`item` will have no score."""
        self.changes[self.contents.task_at(item)] += 1
        parts, i = self._kept(item)
        for part in parts:
            part.fail(model, i)

    def told(self, model: int, item: int, scores: list[float | None]) -> None:
        """Take in one answer's scores, as `read` gives them."""
        t, parts, i = self._at(item)
        self.changes[t] += 1
        if len(parts) > 1:
            self._correlate(t, model, i, scores)
        for part, score in zip(parts, scores):
            if score is not None and part.outcome.bank.kept[i]:
                part.policy.told(model, i, score)
                part.scores[model][i] = score
            elif part.outcome.bank.kept[i]:
                part.fail(model, i)

    def read(self, model: str, item: int, given: Any) -> list[float | None]:
        """Scores of one answer by outcome, checked; None for an outcome that it lacks.

        Raises
        ------
        ScaleError
            A score is not a number in [0, 1].
        UsageError
            An outcome is unknown, none that counts has a score, or a score alone is given for
            several outcomes.
        """
        t, parts, i = self._at(item)
        task, named = self.contents.tasks[t], self.contents.item(item)
        if not task.kept[i]:
            raise UsageError(f"doc_id {named!r} was removed from the bank by its calibration")
        if isinstance(given, Mapping):
            names = [p.outcome.name for p in parts]
            unknown = [k for k in given if k not in names]
            if unknown:
                raise UsageError(
                    f"unknown outcome {unknown[0]!r}; this task has {', '.join(names)}"
                )
            values = [given.get(name) for name in names]
        elif len(parts) == 1:
            values = [given]
        else:
            raise UsageError(
                f"task {task.name!r} has several outcomes; tell a score of each: {{outcome: score}}"
            )
        if not any(s is not None and p.outcome.weight > 0.0 for p, s in zip(parts, values)):
            raise UsageError(f"no outcome that counts has a score on doc_id {named!r}")
        return [None if s is None else _score(s, model, named) for s in values]

    def expected(self, model: int) -> Floats:
        """Expected scores on all items, of the outcome of each task that counts most."""
        leaders = (max(parts, key=lambda p: p.outcome.weight) for parts in self.of_task)
        return np.concatenate([p.policy.expected(model) for p in leaders])

    # -- what outcomes share ------------------------------------------------------------------

    def _correlate(self, t: int, model: int, i: int, scores: list[float | None]) -> None:
        residual = np.array(
            [
                np.nan if s is None else s - float(p.policy.expected(model)[i])
                for p, s in zip(self.of_task[t], scores)
            ]
        )
        seen = np.isfinite(residual)
        residual = np.where(seen, residual, 0.0)
        self._products[t] += np.outer(residual, residual)
        self._both[t] += np.outer(seen, seen)

    def correlation(self, t: int) -> Floats:
        """Correlation of the outcomes' errors in task `t`; shape (n_outcomes, n_outcomes).

        It starts at 1, where the errors of a weighted sum are largest, and that prior counts for
        five answers.
        """
        s, n = self._products[t], self._both[t]
        scale = np.sqrt(np.outer(s.diagonal(), s.diagonal()))
        seen = np.divide(s, scale, out=np.ones_like(s), where=scale > 0.0)
        out = (n * np.clip(seen, -1.0, 1.0) + _PRIOR_ANSWERS) / (n + _PRIOR_ANSWERS)
        np.fill_diagonal(out, 1.0)
        return np.asarray(out)


def _score(value: Any, model: str, item: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = float("nan")
    if not 0.0 <= score <= 1.0:
        raise ScaleError(
            f"score {value!r} of model {model!r} on doc_id {item!r} is not in [0, 1]; "
            "normalise it with the scale of the metric first"
        )
    return score


# -- what failures may hide --------------------------------------------------------------------


#: Failures, and scores, below which nothing is read off them.
FEWEST = 3
#: Standard errors of `b` that are added to its size: it is known from few failures.
MARGIN = 0.5


def lean(expected: Floats, scores: Mapping[int, float], failed: Sequence[int]) -> float:
    """By how much an estimate may be too high (below 0: too low) because some answers failed.

    An estimate takes failures for random, given what is expected of the items. Whether they are
    shows in part: if a score less by one makes a failure likelier by b, so does an expected score,
    because an expectation is the mean of scores. By regressing failures on expected scores `b` is
    known, and with the variance s2 of scores about their expectation those that were seen lie
    ``b s2 / (1 - f)`` above it on average, where a share f failed. By so much an estimate is too
    high at most, for the bank and the items that did not fail pull it the other way, and never by
    more than if all that failed had scored 0.

    Parameters
    ----------
    expected : ndarray of shape (n_items,)
        Expected scores of one model.
    scores : mapping of int to float
        What it scored, by item.
    failed : sequence of int
        Items that it failed on.

    Examples
    --------
    >>> expected = np.linspace(0.1, 0.9, 9)
    >>> scores = {i: expected[i] + 0.2 * (-1) ** i for i in range(3, 9)}
    >>> round(lean(expected, scores, [0, 1, 2]), 3)
    0.067
    """
    if min(len(scores), len(failed)) < FEWEST:
        return 0.0
    told = np.fromiter(scores, dtype=np.intp)
    seen, missed = expected[told], expected[list(failed)]
    share = len(missed) / (len(seen) + len(missed))
    both = np.concatenate([seen, missed])
    spread = float(both.var())
    if spread < 1e-9:
        return 0.0
    slope = share * (1.0 - share) * float(seen.mean() - missed.mean()) / spread
    noise = float(np.mean((np.array(list(scores.values())) - seen) ** 2))
    unsure = (share * (1.0 - share) / (len(both) * spread)) ** 0.5
    high = (slope + np.copysign(MARGIN * unsure, slope)) * noise / (1.0 - share)
    return float(np.clip(high, -share * (1.0 - missed).mean(), share * missed.mean()))
