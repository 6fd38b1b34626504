"""Fields of documents, such as their subject: from a table of items, or from harness logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..scores.readers.lm_eval.files import find_runs, open_log
from ..simulation.benchmark import read_items


class DocumentFields:
    """What is known of documents beside their scores.

    Parameters
    ----------
    items : path, mapping or None
        A table with a column ``doc_id``, or ``{doc_id: {field: value}}``; with None the documents
        in the logs say.
    sides : sequence
        Paths of logs; what is no path is passed over.
    task : str or None
        Which task's logs.
    """

    def __init__(self, items: Any, sides: Sequence[Any], task: str | None) -> None:
        self.of_doc: dict[Any, Mapping[str, Any]] = {}
        if isinstance(items, Mapping):
            self.of_doc = dict(items)
        elif items is not None:
            self.of_doc = {row["doc_id"]: row for row in read_items(Path(items)).to_pylist()}
        elif task is not None:
            for side in sides:
                if isinstance(side, (str, Path)):
                    self._read_logs(Path(side), task)

    def _read_logs(self, path: Path, task: str) -> None:
        for run in find_runs(path, task)[0]:
            with open_log(run.samples) as stream:
                for line in stream:
                    try:
                        row = json.loads(line)
                    except ValueError:
                        continue  # the reader of the scores has said so
                    if isinstance(row, dict) and isinstance(row.get("doc"), dict):
                        self.of_doc.setdefault(row.get("doc_id"), row["doc"])

    def of(self, field: str, ids: Sequence[Any]) -> NDArray[Any]:
        """The value of a field for some documents, as text.

        Raises
        ------
        UsageError
            No document has such a field.
        """
        values = [self.of_doc.get(d, {}).get(field) for d in ids]
        if all(v is None for v in values):
            known = sorted({str(k) for doc in self.of_doc.values() for k in doc})
            raise UsageError(
                f"no document has a field {field!r}"
                + (f"; there are {', '.join(known[:20])}" if known else "; give --items")
            )
        return np.array(["(none)" if v is None else str(v) for v in values])
