"""`ScoreGrid`: collects scores from logs into a table of models and items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import OutsideScaleError, ScoreTableError
from ..grouping import grouped
from ..metrics.scale import Floats, Scale
from ..shown import first_of, some
from .numbering import OTHER_ORDER, renumbered
from .prompts import Prompts
from .reading import Query
from .table import ScoreTable

Codes = NDArray[np.int32]


class Coded(NamedTuple):
    """A column with few distinct values: those values, and the index of each entry's value."""

    values: Sequence[Any]
    codes: Codes


class _Cells:
    """A matrix that grows in place, so that no second copy of a large table is ever held.

    It is one flat array, row by row, which may have more columns than are in use.

    Parameters
    ----------
    missing : float
        Value of a cell that holds nothing.
    kind : type
        Type of the values.
    """

    def __init__(self, missing: float, kind: type[np.generic]) -> None:
        self._missing, self._flat = missing, np.empty(0, dtype=kind)
        self._n_rows, self._n_columns = 0, 0

    def grow(self, n_rows: int, n_columns: int) -> None:
        """Make room for at least so many rows and columns.

        Each time it grows by an eighth at least, so that it seldom has to.
        """
        flat, old_width = self._flat, self._n_columns
        if n_columns > old_width:
            self._n_columns = width = max(n_columns, old_width + old_width // 8)
            flat.resize(self._n_rows * width, refcheck=False)
            # The last row moves first, so that none is overwritten.
            for row in reversed(range(self._n_rows)):
                start, end = row * width, row * width + old_width
                flat[start:end] = flat[row * old_width : (row + 1) * old_width]
                flat[end : start + width] = self._missing
        if n_rows > self._n_rows:
            filled = len(flat)
            self._n_rows = max(n_rows, self._n_rows + self._n_rows // 8)
            flat.resize(self._n_rows * self._n_columns, refcheck=False)
            flat[filled:] = self._missing

    def replace(self, rows: Codes, columns: Codes, values: NDArray[Any]) -> NDArray[Any]:
        """Put values into cells, and return what was there before.

        Of several values for one cell the last is put, and what is returned for each of them is
        what the cell had before all of them.

        Parameters
        ----------
        rows, columns : ndarray of shape (n,)
            Numbers of the row and of the column of each cell, which `grow` has made room for.
        values : ndarray of shape (n,)
        """
        # A large table has more cells than 32 bits can number.
        cells = rows * np.int64(self._n_columns) + columns
        before: NDArray[Any] = self._flat[cells]
        self._flat[cells] = values
        return before

    def finish(self, n_rows: int, order: NDArray[np.intp]) -> NDArray[Any]:
        """Return the matrix with its columns in an order, and empty these cells.

        Parameters
        ----------
        n_rows : int
        order : ndarray of shape (n,)
            For each column of the result, its column now.
        """
        self.grow(n_rows, len(order))
        flat, n_columns, n = self._flat, self._n_columns, len(order)
        # Row by row and in place, as a second matrix may not fit into memory. Where a row is put,
        # all rows have been moved already.
        if n_columns > n or (order != np.arange(n)).any():
            for row in range(n_rows):
                flat[row * n : (row + 1) * n] = flat[row * n_columns + order]
        flat.resize(n_rows * n, refcheck=False)
        self._flat, self._n_rows, self._n_columns = np.empty(0, dtype=flat.dtype), 0, 0
        return flat.reshape(n_rows, n)


class ScoreGrid:
    """Collects the scores of one outcome as they come; later scores replace earlier ones.

    Rows are (model, config) pairs and columns items, both numbered by first appearance. An item's
    hash is the one that most of its scores have; of equally common hashes, the newest.

    Parameters
    ----------
    labels : iterable of (str, str), optional
        Rows that precede those of the scores.

    Examples
    --------
    >>> grid = ScoreGrid()
    >>> grid.lay([("a", "")], [1, 0], [0.5, 1.0])
    >>> grid.lay([("b", "")], [0], [0.25])
    >>> grid.finish(Path("x"), Query(), "acc").raw.tolist()
    [[1.0, 0.5], [0.25, nan]]
    """

    def __init__(self, labels: Iterable[tuple[str, str]] = ()) -> None:
        self.rows: dict[Any, int] = {}
        #: Number of scores that were taken in.
        self.n_scores = 0
        self._items: dict[Any, int] = {}
        self._hashes: dict[Any, int] = {None: 0}
        self._marks: dict[Any, int] = {None: 0}
        self._repeated: tuple[int, int] | None = None  # the first cell of two scores
        self._scores = _Cells(np.nan, np.float64)
        # Numbers of the hash and of the mark that came with each score; 0 where none came.
        self._hash_codes, self._mark_codes = _Cells(0, np.int32), _Cells(0, np.int32)
        # Of each item, the number of the hash that came first.
        self._first_hash_codes = _Cells(0, np.int32)
        _numbers(self.rows, list(labels))

    def lay(
        self,
        labels: Sequence[tuple[str, str]] | Coded,
        doc_ids: Sequence[Any] | Coded,
        scores: Sequence[float] | Floats,
        hashes: Sequence[str | None] | Coded = (None,),
        marks: Sequence[str | None] | Coded = (None,),
    ) -> None:
        """Take in scores, each with its (model, config), item, hash and mark of its prompt.

        Parameters
        ----------
        labels, doc_ids, scores, hashes, marks : sequence, Coded or ndarray
            An entry for each score, or a single one that stands for all. Hashes are of documents,
            marks short hashes of prompts. A NaN is no score: it makes its row and its item known,
            and leaves what the cell has.
        """
        scores = np.asarray(scores, dtype=np.float64)
        rows, columns, hash_codes, mark_codes = (
            np.broadcast_to(_numbers(known, column), scores.shape)
            for known, column in (
                (self.rows, labels), (self._items, doc_ids), (self._hashes, hashes),
                (self._marks, marks),
            )
        )  # fmt: skip
        shape = len(self.rows), len(self._items)
        self._scores.grow(*shape)
        self._note_first_hashes(columns, hash_codes)
        # Most tables have no gaps, and need no copy of their columns.
        is_score = ~np.isnan(scores)
        if not is_score.all():
            scores, rows, columns = scores[is_score], rows[is_score], columns[is_score]
            hash_codes, mark_codes = hash_codes[is_score], mark_codes[is_score]
        self.n_scores += len(scores)
        # First the number of each score is put, then the score itself: where a cell gives back
        # another number than the score's own, a later score of this batch is for the same cell.
        numbers = np.arange(len(scores))
        before = self._scores.replace(rows, columns, numbers)
        replaced = self._scores.replace(rows, columns, scores) != numbers
        repeated = np.flatnonzero(replaced | ~np.isnan(before))
        if self._repeated is None and len(repeated):
            self._repeated = int(rows[repeated[0]]), int(columns[repeated[0]])
        if len(self._marks) > 1:
            self._mark_codes.grow(*shape)
            self._mark_codes.replace(rows, columns, mark_codes)
        if len(self._hashes) > 1:
            self._hash_codes.grow(*shape)
            self._hash_codes.replace(rows, columns, hash_codes)

    def _note_first_hashes(self, columns: Codes, hash_codes: Codes) -> None:
        """Keep of each item the first hash that comes with it, whether or not a score does.

        Parameters
        ----------
        columns, hash_codes : ndarray of shape (n,)
            Number of the item and of the hash of each entry.
        """
        if len(self._hashes) == 1:
            return
        self._first_hash_codes.grow(1, len(self._items))
        # In reverse, so that the first hash of an item is put last and stays.
        with_hash = np.flatnonzero(hash_codes)[::-1]
        items, row = columns[with_hash], np.zeros(len(with_hash), dtype=np.int32)
        earlier = self._first_hash_codes.replace(row, items, hash_codes[with_hash])
        # Hashes of earlier batches came before those of this one.
        had_one = earlier > 0
        self._first_hash_codes.replace(row[had_one], items[had_one], earlier[had_one])

    def finish(
        self,
        path: Path,
        query: Query,
        metric: str,
        *,
        stated_scale: Scale | None = None,
        lower_is_better: bool | None = None,
        warnings: Sequence[str] = (),
        unique: bool = False,
        say_missing: bool = False,
        **known: Any,
    ) -> ScoreTable:
        """Return the scores as a table with its items in ascending order, and empty the grid.

        Parameters
        ----------
        path : Path
            For error messages.
        query : Query
            What the user says of the scale.
        metric : str
        stated_scale : Scale, optional
            The scale that the logs state.
        lower_is_better : bool, optional
            The direction that the logs state; it counts if the user states none.
        warnings : sequence of str, optional
            Warnings of the reader, which come before those found here.
        unique : bool, optional
            Whether two scores of one model on one item are refused.
        say_missing : bool, optional
            Whether to warn of models that lack a score.
        **known
            Further attributes of the `ScoreTable`, such as ``task``.

        Raises
        ------
        ScoreTableError
            There is no score, there are two where `unique` allows one, or doc_ids are of several
            types.
        ScaleError
            The scale is not known, or a score lies outside it.
        """
        self._require_sound(path, unique)
        labels, ids = list(self.rows), sorted(self._items)
        # For each item in ascending order, the column that it has so far.
        order = np.array([self._items[doc_id] for doc_id in ids], dtype=np.intp)
        raw = self._scores.finish(len(labels), order)
        prompts = self._prompts(order)
        # Scores of other documents leave `raw`, maybe the last one of a model.
        hashes, notes = self._join_documents(raw, None if prompts is None else prompts.codes, order)
        counts = np.count_nonzero(~np.isnan(raw), axis=1)
        if not counts.any():
            raise _all_missing(path, metric, known.get("filter"))
        notes += _unevenly_scored([model for model, _ in labels], raw)
        if not counts.all():
            unscored = ", ".join(model for (model, _), count in zip(labels, counts) if not count)
            notes.append(f"models without a usable score are left out: {unscored}")
            labels = [label for label, count in zip(labels, counts) if count]
            prompts = prompts and prompts.take(counts > 0)
            raw, counts = raw[counts > 0], counts[counts > 0]
        # In logs, a gap means that a run is not whole; in a table that somebody wrote it may be
        # meant.
        if say_missing:
            notes += _incomplete(labels, counts.tolist(), len(ids))
        scale, scale_notes = query.scale_of(raw, metric, str(path), stated_scale, lower_is_better)
        _require_within(scale, raw, path)
        return ScoreTable.from_arrays(
            raw,
            [model for model, _ in labels],
            ids,
            configs=[config for _, config in labels],
            scale=scale,
            metric=metric,
            copy=False,
            doc_hashes=hashes,
            prompts=prompts,
            warnings=(*warnings, *notes, *scale_notes),
            guessed=query.guesses(metric, scale, stated_scale),
            **known,
        )

    def _prompts(self, order: NDArray[np.intp]) -> Prompts | None:
        """Return the marks of all prompts with items in an order; None if none came."""
        if len(self._marks) == 1:
            return None
        codes = self._mark_codes.finish(len(self.rows), order)
        # The grid numbers marks from 1, with 0 for none; `Prompts` numbers them from 0.
        codes -= 1
        return Prompts(tuple(self._marks)[1:], codes)

    def _require_sound(self, path: Path, unique: bool) -> None:
        """Refuse doc_ids of several types and, with `unique`, two scores of a cell."""
        if len({type(doc_id) for doc_id in self._items}) > 1:
            raise ScoreTableError(f"{path}: doc_ids are integers and strings; name items alike")
        # In logs the newer score counts. In a table that somebody wrote neither is newer.
        if unique and self._repeated is not None:
            row, column = self._repeated
            model, config = list(self.rows)[row]
            raise ScoreTableError(
                f"{path}: 2 scores of model {model!r} config {config!r} on doc_id "
                f"{list(self._items)[column]!r}; keep one, or name the runs apart in a "
                "column 'config', or the answers in a column 'repeat'"
            )

    def _join_documents(
        self, raw: Floats, prompt_codes: Codes | None, order: NDArray[np.intp]
    ) -> tuple[list[str | None] | None, list[str]]:
        """Make all scores of an item scores of one document; return its hashes, and warnings.

        An id that has two hashes stands for two documents. Where a row has the same documents as
        most rows in another order, its scores are moved to theirs. Else the scores of the rarer
        document are dropped, because a mean over different documents measures neither.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_items)
            Scores, which are changed in place.
        prompt_codes : ndarray of shape (n_rows, n_items), or None
            The number of each score's prompt, -1 for none; changed in place.
        order : ndarray of shape (n_items,)
            For each column of `raw`, the column that the grid has for the item.

        Returns
        -------
        hashes : list of str or None, or None
            The hash of each column's document; None if no log states a hash.
        notes : list of str
        """
        # Without hashes, ids alone name the documents.
        if len(self._hashes) == 1:
            return None, []
        [first_hash_codes] = self._first_hash_codes.finish(1, order)
        hash_codes = self._hash_codes.finish(len(raw), order)
        # The number of the hash of each item's document. To begin with, the first hash of the item.
        document_codes = first_hash_codes.copy()
        texts = list(self._hashes)
        differs = (hash_codes > 0) & (hash_codes != document_codes)
        doubtful = np.flatnonzero(differs.any(axis=0)).tolist()
        for i in doubtful:
            codes_of_item = hash_codes[~np.isnan(raw[:, i]), i]
            # A score without a hash counts as one of the document that came first.
            codes_of_item = np.where(codes_of_item == 0, first_hash_codes[i], codes_of_item)
            counts = Counter(codes_of_item.tolist())
            # Of equally common hashes the newest, which has the highest number.
            document_codes[i] = max(
                counts, key=lambda code: (counts[code], code), default=int(document_codes[i])
            )
        hashes = [texts[code] for code in document_codes.tolist()]
        # Logs of one data set, the usual case, need no second matrix of documents.
        if not doubtful:
            return hashes, []
        moved = [
            row
            for row in range(len(raw))
            if _put_in_order(row, document_codes, hash_codes, raw, prompt_codes)
        ]
        codes_of_scores = np.where(hash_codes == 0, first_hash_codes, hash_codes)
        foreign = (codes_of_scores != document_codes) & ~np.isnan(raw)
        raw[foreign] = np.nan
        # A prompt whose score does not count must not make its row unlike the others.
        if prompt_codes is not None:
            prompt_codes[foreign] = -1
        return hashes, self._notes_on_documents(moved, foreign)

    def _notes_on_documents(self, moved: Sequence[int], foreign: NDArray[np.bool_]) -> list[str]:
        """Say which models have their documents in another order, and which lost scores.

        Parameters
        ----------
        moved : sequence of int
            Rows that were put into the order of most rows.
        foreign : ndarray of shape (n_rows, n_items)
            Scores that were dropped.
        """
        models = [model for model, _ in self.rows]
        ids, notes = sorted(self._items), []
        if moved:
            names = some(list(dict.fromkeys(models[row] for row in moved)))
            notes.append(f"{names}: {OTHER_ORDER} than in most logs, joined by their hashes")
        if foreign.any():
            changed = [ids[i] for i in np.flatnonzero(foreign.any(axis=0)).tolist()]
            dropped = Counter[str]()
            for row, count in enumerate(foreign.sum(axis=1).tolist()):
                dropped[models[row]] += count
            # `+` leaves out models that lost nothing.
            names = ", ".join(f"{model} ({count})" for model, count in (+dropped).most_common(5))
            notes.append(
                f"the hash of {len(changed)} of {len(ids)} documents differs between logs "
                f"(doc_id {some(changed)}): the logs are not all of the same data set; the rarer "
                f"version counts as missing for {names}"
            )
        return notes


def _put_in_order(
    row: int, document_codes: Codes, hash_codes: Codes, raw: Floats, prompt_codes: Codes | None
) -> bool:
    """Move a row's scores to the columns of their documents, if it has them in another order.

    Return whether they were moved.

    Parameters
    ----------
    row : int
    document_codes : ndarray of shape (n_items,)
        The number of the hash of each column's document.
    hash_codes : ndarray of shape (n_rows, n_items)
        The number of the hash that came with each score; 0 where none came.
    raw, prompt_codes : ndarray of shape (n_rows, n_items)
        Scores, and the numbers of their prompts where any is known.
    """
    scored = np.flatnonzero(~np.isnan(raw[row])).tolist()
    column_of = renumbered(
        {i: int(hash_codes[row, i]) or None for i in scored},
        dict(enumerate(document_codes.tolist())),
    )
    if not column_of:
        return False
    sources, targets = list(column_of), list(column_of.values())
    for cells, missing in ((raw, np.nan), (hash_codes, 0), (prompt_codes, -1)):
        if cells is not None:
            values = cells[row, sources]
            cells[row] = missing
            cells[row, targets] = values
    return True


def _incomplete(
    labels: Sequence[tuple[str, str]], counts: Sequence[int], n_documents: int
) -> Iterator[str]:
    """Yield a warning that names the models with fewer scores than documents, if there are any."""
    incomplete = [
        f"{model}{f' ({config})' if config else ''} {count}"
        for (model, config), count in zip(labels, counts)
        if count < n_documents
    ]
    if incomplete:
        yield f"not all of the {n_documents} documents are scored for: {first_of(incomplete, 5)}"


def _require_within(scale: Scale, raw: Floats, path: Path) -> None:
    """Refuse scores outside their scale, and name the file.

    Raises
    ------
    OutsideScaleError
    """
    try:
        scale.check(raw)
    except OutsideScaleError as error:
        # The scale knows no file; whoever reads the message has many.
        fact, *remedy = error.args
        remedy = remedy or ["correct them, or state the range (--range WORST,BEST)"]
        raise OutsideScaleError(f"{path}: {fact}", *remedy) from None


def _all_missing(path: Path, metric: str, filter: str | None) -> ScoreTableError:
    """Return the error of an outcome without any score."""
    filter_note = f", filter {filter!r}," if filter else ""
    return ScoreTableError(
        f"{path}: every score of metric {metric!r}{filter_note} is missing; name another, "
        "or write them again"
    )


def _unevenly_scored(models: Sequence[str], raw: Floats) -> list[str]:
    """Return a warning of models that have more scores on some items than on others."""
    rows_of = grouped((model, row) for row, model in enumerate(models))
    uneven = []
    for model, own_rows in rows_of.items():
        # How many of the model's rows score each item; a single row counts none twice.
        counts = np.isfinite(raw[own_rows]).sum(axis=0) if len(own_rows) > 1 else np.zeros(1)
        counts = counts[counts > 0]
        if len(counts) and counts.min() < counts.max():
            uneven.append(f"{model} {counts.min()} to {counts.max()}")
    if not uneven:
        return []
    return [
        "an item counts once, by the mean of its scores, although some items have more scores "
        f"than others: {first_of(uneven, 5)}"
    ]


def _numbers(known: dict[Any, int], column: Sequence[Any] | Coded) -> Codes:
    """Return the number that `known` has for each entry; new entries get the next numbers."""
    values, codes = column if isinstance(column, Coded) else (column, None)
    numbers = np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int32)
    return numbers if codes is None else numbers[codes]
