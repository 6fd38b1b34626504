"""`Grid`: the one way from scores as logs hold them to a matrix of models and items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ScoreTableError
from ..metrics.scale import Scale
from ..wording import some
from .readers.reader import RawScores, Wanted
from .scales import choose_scale

Codes = NDArray[np.intp]
_SLACK = 1.5  # by what the matrix grows in columns, so that it is not copied for every new item


class Grid:
    """Scores of one outcome, laid into a matrix as they come; later ones replace earlier ones.

    Rows are (model, config) pairs and columns items, both in order of first appearance until
    `finish`. Of the hashes that an item was seen with, the first is its own until another one
    turns out to be more common.

    Examples
    --------
    >>> grid = Grid()
    >>> grid.add("a", "", [1, 0], [0.5, 1.0])
    >>> grid.add("b", "", [0], [0.25])
    >>> grid.finish(Path("x"), Wanted(), "acc").raw.tolist()
    [[1.0, 0.5], [0.25, nan]]
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], int] = {}
        self.items: dict[Any, int] = {}
        self.placed = self.replaced = 0  # scores taken in, and how many took another one's place
        self._hashes: dict[str, int] = {}
        self._hash: Codes = np.empty(0, dtype=np.intp)  # of each item; -1 where none is known
        self._odd: dict[tuple[int, int], int] = {}  # scores of documents with another hash
        self._cells: NDArray[np.float64] = np.empty((0, 0))
        self._used = 0  # columns that have been taken

    # -- taking scores in -----------------------------------------------------------------------

    def row(self, model: str, config: str = "") -> int:
        """Number of a model's row; a new one where there is none."""
        return self.rows.setdefault((model, config), len(self.rows))

    def columns(self, doc_ids: Iterable[Any]) -> Codes:
        """Numbers of some items' columns."""
        items = self.items
        return np.array([items.setdefault(d, len(items)) for d in doc_ids], dtype=np.intp)

    def versions(self, hashes: Iterable[str | None]) -> Codes:
        """Numbers of some hashes; -1 for none."""
        known = self._hashes
        return np.array(
            [-1 if h is None else known.setdefault(h, len(known)) for h in hashes], dtype=np.intp
        )

    def add(
        self,
        model: str,
        config: str,
        doc_ids: Sequence[Any],
        scores: Sequence[float],
        hashes: Sequence[str | None] | None = None,
    ) -> None:
        """Take in scores of one model."""
        columns = self.columns(doc_ids)
        rows = np.full(len(columns), self.row(model, config), dtype=np.intp)
        versions = None if hashes is None else self.versions(hashes)
        self.place(rows, columns, np.asarray(scores, dtype=np.float64), versions)

    def place(
        self,
        rows: Codes,
        columns: Codes,
        scores: NDArray[np.float64],
        versions: Codes | None = None,
    ) -> None:
        """Take in scores by numbers of rows, columns and hashes; NaN where one is missing."""
        self._grow(len(self.rows), len(self.items))
        self._cells[rows, columns] = scores
        self.placed += int(np.count_nonzero(~np.isnan(scores)))
        if versions is None:
            return
        if len(self._hash) < len(self.items):
            new = np.full(len(self.items) - len(self._hash), -1, dtype=np.intp)
            self._hash = np.concatenate([self._hash, new])
        fresh = (self._hash[columns] < 0) & (versions >= 0)
        # Of equals the first counts: assignments in reverse leave it.
        self._hash[columns[fresh][::-1]] = versions[fresh][::-1]
        other = (versions >= 0) & (self._hash[columns] != versions)
        if not (self._odd or other.any()):
            return
        for row, column, version, odd in zip(
            *map(np.ndarray.tolist, (rows, columns, versions, other))
        ):
            if odd:
                self._odd[row, column] = version
            else:
                self._odd.pop((row, column), None)

    def _grow(self, rows: int, columns: int) -> None:
        """Make room; new cells are missing.

        A matrix with room for the columns grows by rows in place, without a second one beside it;
        the room for further columns is not touched, and so takes no memory.
        """
        (old, room), used = self._cells.shape, self._used
        if columns > room:
            wide = columns if not room else int(columns * _SLACK)
            bigger: NDArray[np.float64] = np.empty((rows, wide))
            bigger[:old, :used] = self._cells[:, :used]
            self._cells = bigger
        elif rows > old:
            self._cells.resize((rows, room), refcheck=False)
        self._cells[:old, used:columns] = np.nan
        self._cells[old:, :columns] = np.nan
        self._used = columns

    # -- giving them out ------------------------------------------------------------------------

    def finish(
        self,
        path: Path,
        wanted: Wanted,
        metric: str,
        *,
        task: str | None = None,
        filter: str | None = None,
        stated: Scale | None = None,
        lower_is_better: bool | None = None,
        warnings: Sequence[str] = (),
        say_missing: bool = False,
        **known: Any,
    ) -> RawScores:
        """The matrix, items ascending, with its scale; the grid is used up.

        Parameters
        ----------
        path : Path
            For errors.
        wanted : Wanted
        metric, task, filter : str, optional
        stated : Scale, optional
            The scale that the logs state.
        lower_is_better : bool, optional
            The direction that they state, where the user says nothing.
        warnings : sequence of str, optional
        say_missing : bool, optional
            Whether to name models that lack a score.
        **known
            Further parts of `RawScores`.

        Raises
        ------
        ScoreTableError
            There is no score, or doc_ids are of several types.
        ScaleError
            The scale is not known, or a score lies outside it.
        """
        if len({type(d) for d in self.items}) > 1:
            raise ScoreTableError(f"{path}: doc_ids are integers and strings; name items alike")
        self.replaced = self.placed - sum(
            int(np.isfinite(row[: self._used]).sum()) for row in self._cells
        )
        notes = [*warnings, *self._settle_versions()]
        labels, ids = list(self.rows), sorted(self.items)
        raw = self._ordered(ids)
        if not raw.size or not any(np.isfinite(row).any() for row in raw):
            of = f", filter {filter!r}," if filter else ""
            raise ScoreTableError(f"{path}: every score of metric {metric!r}{of} is missing")
        counts = [int(np.isfinite(row).sum()) for row in raw]
        if not all(counts):
            gone = [labels[r][0] for r, n in enumerate(counts) if not n]
            notes.append(f"no usable score of {', '.join(gone)}; left out")
            scored = [r for r, n in enumerate(counts) if n]
            raw, labels = raw[scored], [labels[r] for r in scored]
            counts = [counts[r] for r in scored]
        if say_missing:
            notes += _missing(labels, counts, raw.shape[1])
        scale, scale_notes = choose_scale(raw, metric, wanted, str(path), stated, lower_is_better)
        return RawScores(
            raw,
            [model for model, _ in labels],
            [config for _, config in labels],
            ids,
            scale,
            metric,
            task,
            filter,
            doc_hashes=self._hashes_of(ids),
            warnings=(*notes, *scale_notes),
            **known,
        )

    def _ordered(self, ids: Sequence[Any]) -> NDArray[np.float64]:
        """The cells with the items in this order, in the memory that they lie in."""
        rows, columns = len(self.rows), len(self.items)
        cells, self._cells = self._cells, np.empty((0, 0))
        order = self.columns(ids)
        if cells.shape[1] > columns or (np.diff(order) < 0).any():
            flat = cells.reshape(-1)
            for r in range(rows):
                flat[r * columns : (r + 1) * columns] = cells[r, order]
            del flat
            cells.resize((rows, columns), refcheck=False)
        return cells

    def _settle_versions(self) -> list[str]:
        """A document seen with two hashes is two under one id: the rarer one's scores go.

        A mean over different documents measures neither.
        """
        if not self._odd:
            return []
        ids, labels = list(self.items), list(self.rows)
        dropped: Counter[str] = Counter()
        changed = []
        for column in dict.fromkeys(column for _, column in self._odd):
            scored = np.flatnonzero(np.isfinite(self._cells[:, column])).tolist()
            odd = {r: v for r in scored if (v := self._odd.get((r, column))) is not None}
            first = int(self._hash[column])
            counts = Counter({first: len(scored) - len(odd), **Counter(odd.values())})
            best = max(counts, key=lambda v: (counts[v], v))  # of equals the one seen last
            self._hash[column] = best
            out = [r for r in scored if odd.get(r, first) != best]
            self._cells[out, column] = np.nan
            if out:
                changed.append(ids[column])
            dropped.update(labels[r][0] for r in out)
        if not changed:
            return []
        shown = some(sorted(changed))
        who = ", ".join(f"{model} ({count})" for model, count in dropped.most_common(5))
        return [
            f"the hash of {len(changed)} of {len(ids)} documents differs between logs "
            f"(doc_id {shown}): the logs are not all of the same data set; the rarer version "
            f"counts as missing for {who}"
        ]

    def _hashes_of(self, ids: Sequence[Any]) -> tuple[str | None, ...] | None:
        if not self._hashes:
            return None
        texts: list[str | None] = [*self._hashes, None]
        return tuple(texts[v] for v in self._hash[self.columns(ids)].tolist())


def _missing(labels: Sequence[tuple[str, str]], counts: Sequence[int], items: int) -> list[str]:
    sparse = [
        f"{model}{f' ({config})' if config else ''} {count}"
        for (model, config), count in zip(labels, counts)
        if count < items
    ]
    if not sparse:
        return []
    shown = ", ".join(sparse[:5]) + (f" and {len(sparse) - 5} more" if len(sparse) > 5 else "")
    return [f"not all of the {items} documents are scored for: {shown}"]
