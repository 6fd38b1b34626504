"""Per-item scaling within a task, so that live runs and banks of scaled scores go together.

A task's ``process_results`` is given a document and not its number, so the task remembers the order
of its documents when the harness loads them (`LiveScaling.remember` in ``process_docs``, which
leaves them unchanged) and looks the document up when it is scored. The ends come from banks that
``lm-eval-ccat calibrate --scale_items`` wrote, in the folder that ``CCAT_ITEM_SCALING`` names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..errors import UsageError
from ..scores.item_scaling import SUFFIX, ItemScaling

VARIABLE = "CCAT_ITEM_SCALING"


class LiveScaling:
    """Scales the scores of one task's documents as they come.

    Parameters
    ----------
    column : str
        A column whose text tells the documents apart.

    Examples
    --------
    In a task's utils::

        SCALING = LiveScaling("article")
        process_docs = SCALING.remember

        def process_results(doc, results):
            return SCALING.scale(doc, {"fkgl": lambda: fkgl(results[0])})
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self._number: dict[str, int] = {}
        self._fingerprint: str | None = None
        self._loaded: tuple[str, dict[str, ItemScaling]] | None = None

    def remember(self, dataset: Any) -> Any:
        """Note the order of a `datasets.Dataset`; returns it as it is."""
        fingerprint = getattr(dataset, "_fingerprint", None)
        # The harness processes the documents at every access, and reading a column takes a while.
        if fingerprint is None or fingerprint != self._fingerprint:
            self._number = {}
            for number, text in enumerate(dataset[self.column]):
                self._number.setdefault(text, number)
            self._fingerprint = fingerprint
        return dataset

    def scale(self, doc: dict[str, Any], scores: dict[str, Any]) -> dict[str, float]:
        """Scaled scores of one document.

        Parameters
        ----------
        doc : dict
        scores : dict of str to callable
            For each metric what computes its raw score; called only if there are ends for it.

        Returns
        -------
        dict of str to float
            ``<metric>_item_scaled`` in [0, 1], higher is better; NaN for a document without ends.

        Raises
        ------
        UsageError
            If no folder with ends is named, or it has none for any of the metrics.
        """
        ends = self._ends()
        known = [metric for metric in scores if metric in ends]
        if not known:
            raise UsageError(
                f"{os.environ[VARIABLE]} holds no scaling of {', '.join(scores)}; write one with "
                "`lm-eval-ccat calibrate ... --scale_items`"
            )
        number = self._number[doc[self.column]]
        return {metric + SUFFIX: ends[metric].score(number, scores[metric]()) for metric in known}

    def _ends(self) -> dict[str, ItemScaling]:
        folder = os.environ.get(VARIABLE)
        if not folder:
            raise UsageError(
                f"this task scales its items: set {VARIABLE} to a folder of banks that "
                "`lm-eval-ccat calibrate ... --scale_items` wrote"
            )
        if self._loaded is None or self._loaded[0] != folder:
            banks = map(ItemBank.load, sorted(Path(folder).glob("*.json")))
            scalings = [ItemScaling.of_bank(bank.constants) for bank in banks]
            self._loaded = folder, {one.metric: one for one in scalings if one is not None}
        return self._loaded[1]
