"""Scale each item's scores to [0, 1] over the calibration configs, as for BioLaySumm in the paper.

A metric such as FKGL or BERTScore uses a narrow part of its scale, a different part on each
document. ``(y - min)/(max - min)``, with an item's lowest and highest score over the calibration
rows, spreads it. These ends come only from calibration data: scores of models under test are scaled
by them and clipped, but never change them.

The estimate is then the mean of the scaled scores. It orders models much as the metric does but is
not the metric's mean, so tables of scaled scores have their own metric name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ScoreTableError
from ..metrics import Scale
from ..metrics.scale import ITEM_SCALED, Floats
from .table import ScoreTable

#: Key of the scaling among a bank's constants.
CONSTANT = "item_scaling"


@dataclass(frozen=True, eq=False)
class ItemScaling:
    """Lowest and highest calibration score of each item, on [0, 1] with higher better.

    Parameters
    ----------
    doc_ids : tuple of int or tuple of str
    low, high : ndarray of shape (n_items,)
        NaN for an item without scores. An item whose ends are equal tells nothing: it becomes 0.5.
    metric : str
    scale : Scale
        Of the raw scores.
    n_rows : int
        Number of calibration rows (models x configs) that the ends were taken over.

    Examples
    --------
    >>> table = ScoreTable.from_arrays([[0.2, 0.6], [0.4, 0.9]], models=["a", "b"])
    >>> ItemScaling.fit(table).apply(table).raw.tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """

    doc_ids: tuple[Any, ...]
    low: Floats
    high: Floats
    metric: str
    scale: Scale
    n_rows: int

    @classmethod
    def fit(cls, calibration: ScoreTable) -> ItemScaling:
        """Take the ends from a table of calibration scores.

        Raises
        ------
        ScoreTableError
            If it is a table of scaled scores already.
        """
        # Scaled once more, nothing would change but the name.
        if calibration.metric.endswith(ITEM_SCALED):
            raise ScoreTableError(f"the scores of {calibration.metric} are scaled already")
        scores = calibration.scores
        # `fmin` and `fmax` pass over missing scores, which are NaN.
        return cls(
            calibration.doc_ids,
            low=np.fmin.reduce(scores, axis=0),
            high=np.fmax.reduce(scores, axis=0),
            metric=calibration.metric,
            scale=calibration.scale,
            n_rows=len(scores),
        )

    def apply(self, table: ScoreTable) -> ScoreTable:
        """Scale a table of the same metric; scores beyond the ends are clipped.

        Parameters
        ----------
        table : ScoreTable
            Calibration or other models; items that calibration did not have become missing.

        Returns
        -------
        ScoreTable
            On [0, 1], higher is better, its metric named ``<metric>_item_scaled``.

        Raises
        ------
        ScoreTableError
            If the table is of another metric or scale, or shares no item.
        """
        if (table.metric, table.scale) != (self.metric, self.scale):
            raise ScoreTableError(
                f"the scaling is of {self.metric} ({self.scale.describe()}), the scores are of "
                f"{table.metric} ({table.scale.describe()})"
            )
        positions = np.array([self._position.get(doc_id, -1) for doc_id in table.doc_ids])
        if (positions < 0).all():
            raise ScoreTableError(
                f"none of the {len(positions)} documents is among those the scaling was made of"
            )
        ends = (np.where(positions < 0, np.nan, end[positions]) for end in (self.low, self.high))
        # New models may score beyond what calibration saw of an item.
        scaled = _spread(table.scores, *ends)
        unknown = int((positions < 0).sum())
        warnings = (f"{unknown} documents have no item scaling",) if unknown else ()
        return replace(
            table,
            raw=scaled,
            scale=Scale(),
            metric=self.metric + ITEM_SCALED,
            warnings=(*table.warnings, *warnings),
        )

    def score(self, doc_id: Any, raw: float) -> float:
        """Scale one raw score of one document; NaN if calibration did not have the document."""
        n = self._position.get(doc_id)
        if n is None:
            return float("nan")
        return float(_spread(self.scale.normalise(raw), self.low[n], self.high[n]))

    @cached_property
    def _position(self) -> dict[Any, int]:
        """The position of each document in the columns of ends."""
        return {doc_id: n for n, doc_id in enumerate(self.doc_ids)}

    def to_dict(self) -> dict[str, object]:
        """JSON values for the constants of a bank of scaled scores; `of_bank` reads them."""
        return {
            "metric": self.metric,
            "scale": self.scale.to_dict(),
            "rows": self.n_rows,
            "doc_ids": list(self.doc_ids),
            "low": [None if np.isnan(value) else value for value in self.low.tolist()],
            "high": [None if np.isnan(value) else value for value in self.high.tolist()],
        }

    @classmethod
    def of_bank(cls, constants: Mapping[str, Any]) -> ItemScaling | None:
        """Read the scaling from a bank's constants; None if its scores were not scaled by item.

        Raises
        ------
        ScoreTableError
            The bank's scaling is damaged.
        """
        content = constants.get(CONSTANT)
        if content is None:
            return None
        try:
            low, high = (np.array(content[name], dtype=np.float64) for name in ("low", "high"))
            doc_ids = tuple(content["doc_ids"])
            if not low.shape == high.shape == (len(doc_ids),):
                raise ValueError("lengths")
            scale = Scale.from_dict(content["scale"])
            return cls(
                doc_ids,
                low=low,
                high=high,
                metric=content["metric"],
                scale=scale,
                n_rows=content["rows"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ScoreTableError(f"the bank's item scaling is damaged ({error})") from error


def _spread(scores: Floats, low: Any, high: Any) -> Floats:
    """Return scores between the ends of their items, on [0, 1]; beyond the ends they are cut."""
    # An item whose ends are equal becomes 0.5: nothing says which end its score is.
    flat = low == high
    scaled = np.clip((scores - low) / np.where(flat, 1.0, high - low), 0.0, 1.0)
    return np.where(flat & ~np.isnan(scores), 0.5, scaled)
