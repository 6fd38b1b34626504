"""Small worlds of models and items, and rankings of them driven to their end."""

from functools import cache

import numpy as np

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate


def draw(skill, n_items: int, seed: int, task: int = 0, noise: float = 0.4) -> np.ndarray:
    """Scores of models of these skills on the items of a task."""
    ease = np.random.default_rng(task).normal(size=n_items)
    skill = np.asarray(skill, dtype=float)[:, None]
    error = noise * np.random.default_rng([seed, task]).normal(size=(len(skill), n_items))
    return 1 / (1 + np.exp(-skill - ease - error))


@cache
def bank_of(method: str, n_items: int = 80, task: int = 0, metric: str | None = None) -> ItemBank:
    """A bank calibrated on 14 models; without calibration for the method "sample"."""
    if method == "sample":
        return ItemBank.blank(range(n_items), task=f"t{task}", metric=metric or "acc")
    scores = draw(np.linspace(-2, 2, 14), n_items, 99, task)
    names = [f"c{j}" for j in range(14)]
    return calibrate(ScoreTable.from_arrays(scores, names, task=f"t{task}"), method)


def of(scores, names="abcdefgh"):
    """What each model scores on an item, from rows by model, or of models in this order."""
    rows = scores if isinstance(scores, dict) else dict(zip(names, scores))
    return lambda model, item: float(rows[model][item])


def drive(ranker: Ranker, scores, n: int = 1):
    """Run a ranking to its end; `scores` is ``(model, item) -> what is told``, or as of `of`."""
    score = scores if callable(scores) else of(scores)
    while not ranker.done:
        for model, item in ranker.ask(n):
            ranker.tell(model, item, score(model, item))
    return ranker.result()
