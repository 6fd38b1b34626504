"""`Newcomers`: models that banks make up, like those that calibrated them.

A newcomer has the ability of a calibration model that is drawn at random, moved a little (a
smoothed bootstrap): the same model and the same move in every task. Its scores are drawn from the
item curves, with their residual factors and the noise of models of its ability.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..bank import ItemBank
from ..methods.curves import Curves
from ..methods.method import method_of
from ..metrics.scale import Floats


class Newcomers:
    """Models like those of the banks' calibrations.

    Parameters
    ----------
    banks : mapping of name to ItemBank
        Of methods with item curves, which state abilities on the scale of these curves.

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, calibrate
    >>> scores = np.clip(np.linspace(0.2, 0.8, 9)[:, None] + np.linspace(-0.2, 0.2, 60), 0, 1)
    >>> bank = calibrate(ScoreTable.from_arrays(scores, list("abcdefghi")))
    >>> Newcomers({"t": bank}).scores(np.random.default_rng(0))["t"].shape
    (60,)
    """

    def __init__(self, banks: Mapping[str, ItemBank]) -> None:
        self._curves: dict[str, Curves] = {}
        # By bank and calibration model, on the scale of the bank's curves.
        self._abilities: dict[str, dict[str, float]] = {}
        for name, bank in banks.items():
            self._curves[name] = curves = method_of(bank).curves(bank)
            reported = (bank.provenance.get("report") or {}).get("abilities")
            # A bank that does not report abilities has one model, of usual ability. Reports add
            # `origin` to abilities on the curves' scale, as adaptive tests do.
            reported = reported or {"usual": curves.centre + curves.origin}
            self._abilities[name] = {
                model: float(a) - curves.origin for model, a in reported.items()
            }
        by_bank = list(self._abilities.values())
        shared = set(by_bank[0]).intersection(*by_bank)
        #: Models of all banks; empty where they are too few, and each bank draws from its own.
        self._shared_models = sorted(shared) if len(shared) > 2 else []

    @classmethod
    def if_possible(cls, banks: Mapping[str, ItemBank]) -> Newcomers | None:
        """Return the newcomers of banks; None if a bank does not tell what models score.

        A bank tells that if its method has item curves of the scores as they are, not only of
        stretched ones (`Method.test_curves`), and it reports the abilities of at least two models.
        """
        for bank in banks.values():
            method = method_of(bank)
            abilities = (bank.provenance.get("report") or {}).get("abilities") or {}
            if not method.has_curves or method.test_curves is not None or len(abilities) < 2:
                return None
        return cls(banks)

    def scores(self, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw one newcomer's scores on [0, 1], by bank, in bank order."""
        # One model, by its place among all (0 to 1), and one move, in widths of the kernel, for all
        # banks: a model that is good at one task is at others.
        place, move = rng.random(), rng.normal()
        scores: dict[str, Floats] = {}
        for name, curves in self._curves.items():
            ability_of = self._abilities[name]
            abilities = [ability_of[model] for model in self._shared_models or ability_of]
            # Silverman's width of the kernel. The moved ability is then shrunk towards the mean, so
            # that newcomers have the spread of the models, and not a larger one.
            width = len(abilities) ** -0.2
            ability = abilities[int(place * len(abilities))]
            centre = float(np.mean(abilities))
            moved = ability - centre + width * float(np.std(abilities)) * move
            scores[name] = curves.drawn(centre + moved / float(np.sqrt(1.0 + width**2)), rng)
        return scores
