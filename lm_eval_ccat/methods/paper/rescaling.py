"""The map from scores to the scale of the paper's response model, and back.

The calibration of the method "paper" stretches scores over [0, 1] before it takes their logit. A
score told to the test must be stretched in the same way, or the ability that it points to is not on
the scale of the difficulties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...bank import ItemBank
from ...errors import BankError

Floats = NDArray[np.float64]

RESCALE = ("range", "none")


@dataclass(frozen=True)
class Rescaling:
    """``x = (y - low) / (high - low)``, clipped to [0, 1].

    Attributes
    ----------
    low, high : float
        Scores on [0, 1] that map to 0 and 1.

    Examples
    --------
    >>> narrow = Rescaling(0.25, 0.75)
    >>> narrow.apply(0.5), narrow.apply(0.9), float(narrow.restore(np.array(0.5)))
    (0.5, 1.0, 0.5)
    """

    low: float = 0.0
    high: float = 1.0

    @property
    def span(self) -> float:
        """Score units per unit of the model's scale."""
        return self.high - self.low

    def apply(self, score: float) -> float:
        """The score on the scale of the response model."""
        return min(max((score - self.low) / self.span, 0.0), 1.0)

    def restore(self, value: Floats) -> Floats:
        """Expected scores of the response model on the scale of the scores."""
        return np.asarray(self.low + self.span * value)


def rescaling_of(bank: ItemBank, score_range: tuple[float, float] | None = None) -> Rescaling:
    """The rescaling of a bank; a bank that states none takes scores as given.

    Parameters
    ----------
    bank : ItemBank
        Of method "paper".
    score_range : (float, float), optional
        Rescale by this range, whatever the bank states.

    Raises
    ------
    BankError
        The range is empty or not within [0, 1], or the bank rescales and states no range.
    """
    if score_range is None:
        if bank.constants.get("rescale", "none") == "none":
            return Rescaling()
        score_range = bank.constants.get("score_range") or (0.0, 0.0)
    try:
        low, high = (float(v) for v in score_range)
    except (TypeError, ValueError):
        low = high = 0.0
    if not 0.0 <= low < high <= 1.0:
        raise BankError(
            f"scores cannot be rescaled by the range {score_range}: two numbers low < high within "
            "[0, 1] are needed; calibrate the bank again"
        )
    return Rescaling(low, high)
