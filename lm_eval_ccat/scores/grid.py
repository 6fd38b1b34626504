"""`Grid`: the one way from scores as logs hold them to a table of models and items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ScoreTableError
from ..metrics.scale import Scale
from ..shown import some
from .table import ScoreTable
from .wanted import Floats, Wanted

Codes = NDArray[np.int32]


class Grid:
    """Scores of one outcome, taken in as they come; later ones replace earlier ones.

    Rows are (model, config) pairs and columns items, both numbered by first appearance. Of the
    hashes that an item was seen with, the first is its own unless another one is more common.

    Examples
    --------
    >>> grid = Grid()
    >>> grid.lay([("a", "")], [1, 0], [0.5, 1.0])
    >>> grid.lay([("b", "")], [0], [0.25])
    >>> grid.finish(Path("x"), Wanted(), "acc").raw.tolist()
    [[1.0, 0.5], [0.25, nan]]
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], int] = {}
        self.items: dict[Any, int] = {}
        self.placed = 0  # scores taken in
        self._hashes: dict[str, int] = {}
        self._parts: list[tuple[Codes, Codes, Floats, Codes | None]] = []

    def row(self, model: str, config: str = "") -> int:
        """Number of a model's row; a new one where there is none."""
        return self.rows.setdefault((model, config), len(self.rows))

    def columns(self, doc_ids: Iterable[Any]) -> Codes:
        """Numbers of some items' columns."""
        items = self.items
        return np.array([items.setdefault(d, len(items)) for d in doc_ids], dtype=np.int32)

    def versions(self, hashes: Iterable[str | None]) -> Codes:
        """Numbers of some hashes; -1 for none."""
        known = self._hashes
        return np.array(
            [-1 if h is None else known.setdefault(h, len(known)) for h in hashes], dtype=np.int32
        )

    def lay(
        self,
        labels: Sequence[tuple[str, str]],
        doc_ids: Sequence[Any],
        scores: Sequence[float] | Floats,
        hashes: Sequence[str | None] | None = None,
    ) -> None:
        """Take in scores, each with its (model, config); one label may stand for all."""
        columns = self.columns(doc_ids)
        rows = np.array([self.row(*label) for label in labels], dtype=np.int32)
        rows = np.broadcast_to(rows, columns.shape) if len(rows) == 1 else rows
        versions = None if hashes is None else self.versions(hashes)
        self.place(rows, columns, np.asarray(scores, dtype=np.float64), versions)

    def place(
        self, rows: Codes, columns: Codes, scores: Floats, versions: Codes | None = None
    ) -> None:
        """Take in scores by numbers of rows, columns and hashes; NaN where one is missing."""
        self.placed += int(np.count_nonzero(~np.isnan(scores)))
        self._parts.append((rows, columns, scores, versions))

    def finish(
        self,
        path: Path,
        wanted: Wanted,
        metric: str,
        *,
        stated: Scale | None = None,
        lower_is_better: bool | None = None,
        warnings: Sequence[str] = (),
        unique: bool = False,
        say_missing: bool = False,
        **known: Any,
    ) -> ScoreTable:
        """The table, items ascending, with its scale.

        Parameters
        ----------
        path : Path
            For errors.
        wanted : Wanted
            What the user says of the scale.
        metric : str
        stated : Scale, optional
            The scale that the logs state.
        lower_is_better : bool, optional
            The direction that they state, where the user says nothing.
        warnings : sequence of str, optional
        unique : bool, optional
            Whether two scores of one model on one item are refused.
        say_missing : bool, optional
            Whether to name models that lack a score.
        **known
            Further parts of `ScoreTable`.

        Raises
        ------
        ScoreTableError
            There is no score, there are two where `unique` allows one, or doc_ids are of several
            types.
        ScaleError
            The scale is not known, or a score lies outside it.
        """
        if len({type(d) for d in self.items}) > 1:
            raise ScoreTableError(f"{path}: doc_ids are integers and strings; name items alike")
        labels, ids = list(self.rows), sorted(self.items)
        place = np.empty(len(ids), dtype=np.int32)  # of each column in the order of ids
        place[self.columns(ids)] = np.arange(len(ids))
        raw = np.full((len(labels), len(ids)), np.nan)
        for rows, columns, scores, _ in self._parts:
            raw[rows, place[columns]] = scores
        if unique and self.placed > np.count_nonzero(~np.isnan(raw)):
            self._refuse_duplicate(path)
        hashes, notes = self._settled(raw, place)
        counts = np.count_nonzero(~np.isnan(raw), axis=1)
        if not counts.any():
            of = f", filter {known['filter']!r}," if known.get("filter") else ""
            raise ScoreTableError(f"{path}: every score of metric {metric!r}{of} is missing")
        if not counts.all():
            gone = ", ".join(label[0] for label, count in zip(labels, counts) if not count)
            notes.append(f"no usable score of {gone}; left out")
            labels = [label for label, count in zip(labels, counts) if count]
            raw, counts = raw[counts > 0], counts[counts > 0]
        sparse = [
            f"{model}{f' ({config})' if config else ''} {count}"
            for (model, config), count in zip(labels, counts.tolist())
            if count < len(ids)
        ]
        if sparse and say_missing:
            more = f" and {len(sparse) - 5} more" if len(sparse) > 5 else ""
            shown = ", ".join(sparse[:5]) + more
            notes.append(f"not all of the {len(ids)} documents are scored for: {shown}")
        scale, of_scale = wanted.scale_of(raw, metric, str(path), stated, lower_is_better)
        return ScoreTable.from_arrays(
            raw,
            [model for model, _ in labels],
            ids,
            configs=[config for _, config in labels],
            scale=scale,
            metric=metric,
            copy=False,
            doc_hashes=hashes,
            warnings=(*warnings, *notes, *of_scale),
            **known,
        )

    def _refuse_duplicate(self, path: Path) -> None:
        """Say which score there are two of."""
        codes = [rows.astype(np.int64) * len(self.items) + columns
                 for rows, columns, *_ in self._parts]  # fmt: skip
        cells, counts = np.unique(np.concatenate(codes), return_counts=True)
        row, column = divmod(int(cells[counts > 1][0]), len(self.items))
        model, config = list(self.rows)[row]
        raise ScoreTableError(
            f"{path}: 2 scores of model {model!r} config {config!r} on doc_id "
            f"{list(self.items)[column]!r}; keep one, or name the runs apart in a column 'config'"
        )

    def _settled(self, raw: Floats, place: Codes) -> tuple[list[str | None] | None, list[str]]:
        """The hash of each item, and what to tell the reader; changes `raw`.

        A document seen with two hashes is two under one id: the rarer one's scores go. A mean over
        different documents measures neither.
        """
        if not self._hashes:
            return None, []
        own = np.full(raw.shape[1], -1, dtype=np.int32)
        seen = np.full(raw.shape, -1, dtype=np.int32)
        for rows, columns, _, versions in self._parts:
            if versions is not None:
                at = place[columns]
                seen[rows, at] = versions
                fresh = (own[at] < 0) & (versions >= 0)
                own[at[fresh][::-1]] = versions[fresh][::-1]  # the first stays
        labels, ids = list(self.rows), sorted(self.items)
        dropped: Counter[str] = Counter()
        changed = []
        for i in np.flatnonzero(((seen >= 0) & (seen != own)).any(axis=0)).tolist():
            scored = np.flatnonzero(~np.isnan(raw[:, i]))
            there = np.where(seen[scored, i] < 0, own[i], seen[scored, i])
            counts = Counter(there.tolist())
            # Of equals the one seen last.
            best = max(counts, key=lambda v: (counts[v], v), default=int(own[i]))
            own[i] = best
            out = scored[there != best]
            raw[out, i] = np.nan
            if len(out):
                changed.append(ids[i])
            dropped.update(labels[r][0] for r in out.tolist())
        texts: list[str | None] = [*self._hashes, None]
        hashes = [texts[v] for v in own.tolist()]
        if not changed:
            return hashes, []
        who = ", ".join(f"{model} ({count})" for model, count in dropped.most_common(5))
        return hashes, [
            f"the hash of {len(changed)} of {len(ids)} documents differs between logs "
            f"(doc_id {some(changed)}): the logs are not all of the same data set; the rarer "
            f"version counts as missing for {who}"
        ]
