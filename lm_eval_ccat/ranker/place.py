"""`Place`: where a new model stands among known ones, in words."""

from __future__ import annotations

from dataclasses import dataclass

from ..content import PlaceContent

_SHOWN = 6  # models of a long tie that are named in words


@dataclass(frozen=True)
class Place:
    """Where a new model stands among all models, known and new.

    Attributes
    ----------
    rank : int
        By the point estimates, 1 is best.
    best, worst : int
        Rank interval: one more than the number of models decidedly better, and the number of
        models less those decidedly worse.
    n_models : int
    above, below : str or None
        The nearest model that is decidedly better, and the nearest decidedly worse.
    tied_with : tuple of str
        Models from which it could not be separated, best first.
    """

    rank: int
    best: int
    worst: int
    n_models: int
    above: str | None
    below: str | None
    tied_with: tuple[str, ...]

    def in_words(self) -> str:
        """One line.

        Examples
        --------
        >>> Place(4, 3, 4, 9, "X", "Y", ("Z",)).in_words()
        'rank 4 of 9 (3 to 4), between X and Y, tied with Z'
        """
        ranks = f"{self.best} to {self.worst}" if self.best < self.worst else "decided"
        words = [f"rank {self.rank} of {self.n_models} ({ranks})"]
        if self.above and self.below:
            words.append(f"between {self.above} and {self.below}")
        elif self.above:
            words.append(f"below {self.above}")
        elif self.below:
            words.append(f"above {self.below}")
        if self.tied_with:
            # The nearest ones: they stand around the model's own place among those tied with it.
            start = min(
                max(self.rank - self.best - _SHOWN // 2, 0), max(len(self.tied_with) - _SHOWN, 0)
            )
            near = self.tied_with[start : start + _SHOWN]
            more = len(self.tied_with) - len(near)
            words.append(f"tied with {', '.join(near)}" + (f" and {more:,} more" if more else ""))
        return ", ".join(words)

    def to_dict(self) -> PlaceContent:
        """JSON values."""
        return {
            "rank": self.rank,
            "rank_interval": [self.best, self.worst],
            "models": self.n_models,
            "above": self.above,
            "below": self.below,
            "tied_with": list(self.tied_with),
            "in_words": self.in_words(),
        }
