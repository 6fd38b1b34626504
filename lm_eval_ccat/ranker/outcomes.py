"""The policies of all outcomes, told together of what happens to one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..errors import ScaleError, UsageError
from ..methods.policy import Floats, Policy
from .contents import Contents, Task

#: Answers that the prior of a correlation of outcomes counts for; see `Outcome.correlation`.
_PRIOR_ANSWERS = 5.0


class Outcome:
    """One outcome of one task: a method's policy over its bank.

    Attributes
    ----------
    bank : ItemBank
    policy : Policy
    weight : float
        In the score that is ranked by.
    scores : list of dict of int to float
        What each model was scored, by position in the bank, in the order told.
    """

    def __init__(
        self, task: int, name: str, bank: ItemBank, policy: Policy, weight: float, n_models: int
    ) -> None:
        self.task = task
        self.name = name
        self.bank = bank
        self.policy = policy
        self.weight = weight
        self.scores: list[dict[int, float]] = [{} for _ in range(n_models)]


class Outcomes:
    """All outcomes of a ranking.

    An answer counts for every outcome of its task. The errors of outcomes of the same answers are
    not independent; their correlation is that of the residuals (score less what was expected just
    before it was told) of the answers that both have.

    Parameters
    ----------
    contents : Contents
    n_models : int
    make : callable
        ``(bank, n_models) -> Policy``.
    """

    def __init__(
        self, contents: Contents, n_models: int, make: Callable[[ItemBank, int], Policy]
    ) -> None:
        self.contents = contents
        self.n_models = n_models
        self.of_task: list[list[Outcome]] = [
            [
                Outcome(t, name, bank, make(bank, n_models), task.weights[name], n_models)
                for name, bank in task.banks.items()
            ]
            for t, task in enumerate(contents.tasks)
        ]
        self.changes = [0] * len(self.of_task)  # of what is known, by task
        self._products = [np.zeros((len(o), len(o))) for o in self.of_task]
        self._pairs = [np.zeros((len(o), len(o))) for o in self.of_task]

    def _at(self, item: int) -> tuple[Task, list[Outcome], int]:
        t = self.contents.task_at(item)
        task = self.contents.tasks[t]
        return task, self.of_task[t], item - task.start

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        """One more model joins."""
        self.n_models += 1
        for outcomes in self.of_task:
            for o in outcomes:
                o.policy.add_model()
                o.scores.append({})

    def place(self, model: int, item: int, probability: float | None = None) -> None:
        """`item` was asked."""
        _, outcomes, i = self._at(item)
        for o in outcomes:
            if o.bank.kept[i]:
                o.policy.place(model, i, probability)

    def unplace(self, model: int, item: int) -> None:
        """`item` was given back."""
        _, outcomes, i = self._at(item)
        for o in outcomes:
            if o.bank.kept[i]:
                o.policy.unplace(model, i)

    def skip(self, model: int, item: int) -> None:
        """`item` will have no score."""
        _, outcomes, i = self._at(item)
        self.changes[self.contents.task_at(item)] += 1
        for o in outcomes:
            if o.bank.kept[i]:
                o.policy.skip(model, i)

    def tell(self, model: int, item: int, scores: list[float | None]) -> None:
        """Take in one answer's scores, as `read` gives them."""
        t = self.contents.task_at(item)
        _, outcomes, i = self._at(item)
        self.changes[t] += 1
        if len(outcomes) > 1:
            self._correlate(t, model, i, scores)
        for o, score in zip(outcomes, scores):
            if score is not None and o.bank.kept[i]:
                o.policy.update(model, i, score)
                o.scores[model][i] = score
            elif o.bank.kept[i]:
                o.policy.skip(model, i)

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
        task, outcomes, i = self._at(item)
        named = self.contents.item(item)
        if not task.kept[i]:
            raise UsageError(f"doc_id {named!r} was removed from the bank by its calibration")
        if isinstance(given, Mapping):
            unknown = [k for k in given if k not in task.banks]
            if unknown:
                there = ", ".join(task.banks)
                raise UsageError(f"unknown outcome {unknown[0]!r}; this task has {there}")
            found = [given.get(o.name) for o in outcomes]
        elif len(outcomes) == 1:
            found = [given]
        else:
            raise UsageError(
                f"task {task.name!r} has several outcomes; tell a score of each: {{outcome: score}}"
            )
        if not any(s is not None and o.weight > 0.0 for o, s in zip(outcomes, found)):
            raise UsageError(f"no outcome that counts has a score on doc_id {named!r}")
        return [None if s is None else _score(s, model, named) for s in found]

    def expected(self, model: int) -> Floats:
        """Expected scores on all items, of the outcome of each task that counts most."""
        leaders = (max(outcomes, key=lambda o: o.weight) for outcomes in self.of_task)
        return np.concatenate([o.policy.expected(model) for o in leaders])

    # -- what outcomes share ------------------------------------------------------------------

    def _correlate(self, t: int, model: int, i: int, scores: list[float | None]) -> None:
        residual = np.array(
            [
                np.nan if s is None else s - float(o.policy.expected(model)[i])
                for o, s in zip(self.of_task[t], scores)
            ]
        )
        seen = np.isfinite(residual)
        both = np.outer(seen, seen)
        residual = np.where(seen, residual, 0.0)
        self._products[t] += np.outer(residual, residual)
        self._pairs[t] += both

    def correlation(self, t: int) -> Floats:
        """Correlation of the outcomes' errors in task `t`; shape (n_outcomes, n_outcomes).

        It starts at 1, where the errors of a weighted sum are largest, and that prior counts for
        five answers.
        """
        s, n = self._products[t], self._pairs[t]
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
