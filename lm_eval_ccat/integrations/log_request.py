"""What is taken of logs that are fetched by name: tasks, models, and how much at most."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ..bank.bank import family_of
from ..grouping import grouped
from ..scores.reading import Progress
from ..shown import PathNames
from ..upkeep.score_tables import MAX_GB, MODELS

#: Models whose small files of mean scores are fetched, for each model that is taken.
_CANDIDATES_PER_MODEL = 3


@dataclass(frozen=True)
class LogRequest:
    """What is taken of logs by name.

    Attributes
    ----------
    tasks : tuple of str
        Names or shell patterns of tasks; of a board only these are fetched.
    metric : str or None
    models : int or None
        How many models of a board; None stands for `MODELS`.
    max_gb : float
        Most gigabytes that are fetched.
    say : callable
        Called with a line on what will be fetched, before it is.
    on_progress : callable, optional
        Called with (bytes fetched, bytes in all).
    names : PathNames
        Filled by `logs_of` with what the places are called that lie in a temporary folder.
    """

    tasks: tuple[str, ...] = ()
    metric: str | None = None
    models: int | None = None
    max_gb: float = MAX_GB
    say: Callable[[str], object] = lambda line: None
    on_progress: Progress = None
    names: PathNames = field(default_factory=PathNames)

    @property
    def n_models(self) -> int:
        """How many models are taken where there are more."""
        return self.models or MODELS

    def candidates(self, models: Sequence[str]) -> list[str]:
        """Return the models whose mean scores are looked up, of which `n_models` are then taken."""
        return _one_of_each_family(models, _CANDIDATES_PER_MODEL * self.n_models)


def _one_of_each_family(models: Sequence[str], n_models: int) -> list[str]:
    """Choose models by name alone: one of each family in turn, in an order without a meaning."""
    # By a hash of the name: no order of names may decide, and each call gives the same.
    shuffled = sorted(models, key=lambda name: hashlib.sha256(name.encode()).digest())
    families = grouped((family_of(model), model) for model in shuffled)
    turns = zip_longest(*families.values())
    return [model for turn in turns for model in turn if model is not None][:n_models]
