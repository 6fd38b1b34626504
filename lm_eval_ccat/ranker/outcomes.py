"""The outcomes of a ranking: what the method of each knows of the models."""

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

#: Answers that the prior of a correlation of outcomes counts for; see `Outcomes.correlation`.
_PRIOR_ANSWERS = 5.0


class OutcomeState:
    """One outcome in a ranking: what its method knows of the models by it.

    Attributes
    ----------
    outcome : Outcome
    policy : Policy
    scores : list of dict of int to float
        What each model was scored, by position in the bank, in the order of the answers.
    failed : list of list of int
        What each model failed on.
    changes : int
        Of what is known of its task.
    """

    def __init__(self, outcome: Outcome, policy: Policy, n_models: int) -> None:
        self.outcome = outcome
        self.policy = policy
        self.scores: list[dict[int, float]] = [{} for _ in range(n_models)]
        self.failed: list[list[int]] = [[] for _ in range(n_models)]
        self.changes = 0
        self._beliefs: dict[str, tuple[int, Belief]] = {}

    @property
    def n_told(self) -> NDArray[np.intp]:
        """Scores of every model; shape (n_models,)."""
        return np.array([len(s) for s in self.scores], dtype=np.intp)

    def belief(self, question: str) -> Belief:
        """The policy's belief, computed once for each of its states."""
        kept = self._beliefs.get(question)
        if kept is None or kept[0] != self.changes:
            kept = self._beliefs[question] = self.changes, self.policy.belief(question)
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


class Outcomes:
    """All outcomes of a ranking, which hear together of what happens to one answer.

    An answer counts for every outcome of its task. The errors of outcomes of the same answers are
    not independent; their correlation is that of the residuals (score less what was expected just
    before it came) of the answers that both have.

    Parameters
    ----------
    contents : Contents
    n_models : int
    make : callable
        ``(outcome, leader, n_models) -> Policy``.

    Attributes
    ----------
    of_task : list of list of OutcomeState
    changes : int
        Of what is known.
    """

    def __init__(
        self,
        contents: Contents,
        n_models: int,
        make: Callable[[Outcome, Outcome, int], Policy],
    ) -> None:
        self.contents = contents
        self.of_task = [
            [OutcomeState(o, make(o, task.leader, n_models), n_models) for o in task.outcomes]
            for task in contents.tasks
        ]
        self.changes = 0
        self._products = [np.zeros((len(p), len(p))) for p in self.of_task]
        self._both = [np.zeros((len(p), len(p))) for p in self.of_task]

    def leader(self, t: int = 0) -> OutcomeState:
        """The outcome that counts most, of a task; that of the first sets the ranking's ways."""
        return max(self.of_task[t], key=lambda o: o.outcome.weight)

    def _at(self, item: int) -> tuple[int, int, list[OutcomeState]]:
        """Task of an item, its position there, and the outcomes whose banks have kept it."""
        t = self.contents.task_at(item)
        i = item - self.contents.tasks[t].start
        return t, i, [o for o in self.of_task[t] if o.outcome.bank.kept[i]]

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        """One more model joins."""
        for t, outcomes in enumerate(self.of_task):
            self._changed(t)
            for one in outcomes:
                one.policy.add_model()
                one.scores.append({})
                one.failed.append([])

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        """`item` was asked."""
        _, i, kept = self._at(item)
        for one in kept:
            one.policy.placed(model, i, probability)

    def unplaced(self, model: int, item: int) -> None:
        """`item` was given back."""
        _, i, kept = self._at(item)
        for one in kept:
            one.policy.unplaced(model, i)

    def failed(self, model: int, item: int) -> None:
        """`item` will have no score."""
        t, i, kept = self._at(item)
        self._changed(t)
        for one in kept:
            one.fail(model, i)

    def told(self, model: int, item: int, scores: Sequence[float | None]) -> None:
        """Take in one answer's scores, as `read` returns them."""
        t, i, kept = self._at(item)
        self._changed(t)
        outcomes = self.of_task[t]
        if len(outcomes) > 1:
            residual = np.array(
                [
                    np.nan if s is None else s - float(o.policy.expected(model)[i])
                    for o, s in zip(outcomes, scores)
                ]
            )
            seen = np.isfinite(residual)
            residual = np.where(seen, residual, 0.0)
            self._products[t] += np.outer(residual, residual)
            self._both[t] += np.outer(seen, seen)
        for one, score in zip(outcomes, scores):
            if one in kept and score is None:
                one.fail(model, i)
            elif one in kept and score is not None:
                one.policy.told(model, i, score)
                one.scores[model][i] = score

    def _changed(self, t: int) -> None:
        self.changes += 1
        for one in self.of_task[t]:
            one.changes += 1

    def read(self, model: str, item: int, score: Any) -> list[float | None]:
        """Scores of one answer by outcome, checked; None for an outcome that it lacks.

        Raises
        ------
        ScaleError
            A score is not a number in [0, 1].
        UsageError
            An outcome is unknown, none that counts has a score, or a score alone is given for
            several outcomes.
        """
        t, i, _ = self._at(item)
        task, named = self.contents.tasks[t], self.contents.item(item)
        if not task.kept[i]:
            raise UsageError(f"doc_id {named!r} was removed from the bank by its calibration")
        names = [o.name for o in task.outcomes]
        if isinstance(score, Mapping):
            unknown = [k for k in score if k not in names]
            if unknown:
                raise UsageError(
                    f"unknown outcome {unknown[0]!r}; this task has {', '.join(names)}"
                )
            values = [score.get(name) for name in names]
        elif len(names) == 1:
            values = [score]
        else:
            raise UsageError(
                f"task {task.name!r} has several outcomes; tell a score of each: {{outcome: score}}"
            )
        if not any(s is not None and o.weight > 0.0 for o, s in zip(task.outcomes, values)):
            raise UsageError(f"no outcome that counts has a score on doc_id {named!r}")
        return [None if s is None else _score(s, model, named) for s in values]

    def expected(self, model: int) -> Floats:
        """Expected scores on all items, of the outcome of each task that counts most."""
        tasks = range(len(self.of_task))
        return np.concatenate([self.leader(t).policy.expected(model) for t in tasks])

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
    seen, missed = expected[[*scores]], expected[list(failed)]
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
