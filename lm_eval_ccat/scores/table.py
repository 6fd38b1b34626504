"""`ScoreTable`: observed scores, models x configs x items, on the metric's own scale.

`Reader` is what reads one kind of log into such a table. The package's own readers are asked first.
Another package offers one as an entry point::

    [project.entry-points."lm_eval_ccat.readers"]
    mine = "my_package.my_reader:READER"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import (
    CcatError,
    NoScoresFoundError,
    OutsideScaleError,
    ScoreTableError,
    UnknownScoresError,
    UsageError,
)
from ..grouping import grouped
from ..metrics.scale import Floats, Scale, range_holding
from ..plugins import Plugins, existing
from ..shown import some
from .numbering import OTHER_ORDER, renumbered
from .prompts import Prompts
from .reading import (
    ANY,
    YAML,
    Logged,
    OwnScale,
    Progress,
    Query,
    board_in_words,
    files_at,
    remedy_of,
    rescaling,
)  # fmt: skip

DocId = int | str
Positions = slice | NDArray[np.intp]

#: Number of scores that are looked at together.
_SCORES_AT_A_TIME = 1 << 18
#: What stands before the number of an answer in the configuration of a row that is one of several
#: answers to its items, by itself or after a comma.
REPEAT_CONFIG = "repeat "


@dataclass(frozen=True)
class Overview:
    """A score table's sums, counts and extremes as they are, not estimated; scores on [0, 1].

    Attributes
    ----------
    model_mean, model_count : ndarray of shape (n_models,)
        Mean of the scores that a model has (NaN where none), and how many.
    item_sum, item_count, item_low, item_high : ndarray of shape (n_items,)
        Extremes are NaN where no model has a score.
    """

    model_mean: Floats
    model_count: Floats
    item_sum: Floats
    item_count: Floats
    item_low: Floats
    item_high: Floats

    @property
    def whole(self) -> bool:
        """Whether no score is missing."""
        return bool((self.item_count == len(self.model_mean)).all())

    @classmethod
    def of(cls, parts: Iterable[tuple[slice, Floats]], n_models: int, n_items: int) -> Overview:
        """Sum up the parts that `ScoreTable.parts` yields, and overwrite their scores."""
        mean, model_count = np.full(n_models, np.nan), np.zeros(n_models)
        total, count = np.zeros(n_items), np.zeros(n_items)
        low, high = np.full(n_items, np.nan), np.full(n_items, np.nan)
        for models, scores in parts:
            np.fmin(low, np.fmin.reduce(scores, axis=0), out=low)
            np.fmax(high, np.fmax.reduce(scores, axis=0), out=high)
            present = np.isfinite(scores)
            scores[~present] = 0.0
            counts = model_count[models] = present.sum(axis=1)
            # `models` is a slice, so that this fills the part of `mean`, where there are scores.
            np.divide(scores.sum(axis=1), counts, out=mean[models], where=counts > 0)
            total += scores.sum(axis=0)
            count += present.sum(axis=0)
        return cls(
            model_mean=mean,
            model_count=model_count,
            item_sum=total,
            item_count=count,
            item_low=low,
            item_high=high,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ScoreTable:
    """Observed scores of models on the items of one benchmark, by one metric.

    A row is one *configuration* of a model (a temperature, a prompt variant); most models have
    one. Columns are items in ascending ``doc_id``. Missing scores are NaN.

    Attributes
    ----------
    raw : ndarray of shape (n_rows, n_items)
        Scores on the metric's own scale.
    row_model, row_config : tuple of str
        The model and the configuration ("" if there is only one) of each row.
    doc_ids : tuple of int or tuple of str
        Items, ascending.
    scale : Scale
        Range and direction of `raw`.
    metric, task, filter : str or None
        The scored metric, task and filter, if known.
    doc_hashes : tuple of (str or None), or None
        Hash of each document, to verify that it has not changed. Not a key, because real data
        contain duplicate documents.
    prompts : Prompts or None
        Marks of the prompts that each row was asked; None if none is known.
    settings : dict
        Evaluation settings that the scores share (few-shot, template, ...), from harness logs.
    configurations : dict of str to dict
        What makes each model's configuration (revision, dtype, ...), from harness logs.
    warnings : tuple of str
        Warnings for a reader of the table, in plain words.
    sources : tuple of str
        The files or folders that the scores were read from.
    chosen : tuple of str
        How the items of each row were chosen: "first", "drawn" or "adaptive" (by the model's
        earlier scores), as in a bank's observations; "" is not stated: all, or the first if
        scores are missing. Empty if no row states it.
    guessed : bool
        Whether the scale was guessed from the scores, as nothing states it.
    tokens : dict or None
        Estimated mean tokens of an item, ``input`` and ``output``; None if no text tells.

    Examples
    --------
    >>> t = ScoreTable.from_arrays([[0.2, 0.9], [0.1, 0.4]], models=["a", "b"], doc_ids=[0, 1])
    >>> t.models, t.n_items
    (('a', 'b'), 2)
    """

    raw: Floats
    row_model: tuple[str, ...]
    row_config: tuple[str, ...]
    doc_ids: tuple[Any, ...]
    scale: Scale
    metric: str = "score"
    task: str | None = None
    filter: str | None = None
    doc_hashes: tuple[str | None, ...] | None = None
    prompts: Prompts | None = None
    settings: dict[str, object] = field(default_factory=dict)
    configurations: dict[str, dict[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    guessed: bool = False
    tokens: dict[str, int] | None = None

    def __repr__(self) -> str:
        subject = f"{self.task}, {self.metric}" if self.task else self.metric
        configs = len(self.row_model)
        several = f" in {configs} configs" if configs > len(self.models) else ""
        missing = int(np.isnan(self.raw).sum())
        return (
            f"<ScoreTable: {subject}, {len(self.models)} models{several}, {self.n_items} items, "
            f"{missing} scores missing>"
        )

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: str | Path,
        metric: str | None = None,
        task: str | None = None,
        filter: str | None = None,
        range: tuple[float, float] | None = None,
        lower_is_better: bool | None = None,
        *,
        scale: Scale | None = None,
        partial: bool = False,
        repeats: bool = False,
        on_progress: Progress = None,
    ) -> ScoreTable:
        """Read a score table (Parquet or CSV) or logs (of the harness, or of another tool).

        Parameters
        ----------
        path : path-like
            A long-form ``.parquet`` or ``.csv`` file with columns ``model``, ``doc_id``,
            ``metric``, ``score`` and optionally ``config``, ``repeat``, ``doc_hash``,
            ``prompt_hash``, ``scale_min``, ``scale_max``, ``higher_is_better``; a wide one with a
            column ``model`` and a column per item, whose empty cells are missing; a directory of
            harness outputs; or anything that another of the `lm_eval_ccat.scores.readers` can read.
        metric : str, optional
            Which metric; may be omitted if there is only one.
        task, filter : str, optional
            For harness logs: which task and filter, if there are several.
        range : (float, float), optional
            Lowest and highest possible raw score. For an unbounded metric such as ter the
            highest is the cap. Overrides what the file says.
        lower_is_better : bool, optional
            Direction of the raw score. Overrides what the file says.
        scale : Scale, optional
            Range, direction and cap in one, in place of `range` and `lower_is_better`.
        partial : bool, optional
            Also read adaptive runs, whose items were chosen by the model's earlier scores;
            `chosen` marks them. Only `update` can use them.
        repeats : bool, optional
            Read every run of a model that samples its answers as another repeat, to calibrate a
            bank that knows the noise within items; by default the latest run counts.
        on_progress : callable, optional
            Called with (bytes read, total bytes) by readers of large logs.

        Returns
        -------
        ScoreTable

        Raises
        ------
        ScoreTableError
            The file is missing, lacks a column, holds no such metric, or has two scores for one
            (model, config, repeat, doc_id).
        ScaleError
            The scale is not known, or a score lies outside it.

        Examples
        --------
        >>> ScoreTable.from_arrays([[0.2], [0.1]], ["a", "b"], metric="f1").write("f1.csv")
        >>> ScoreTable.read("f1.csv", metric="f1").models
        ('a', 'b')
        """
        if not isinstance(path, (str, PathLike)):
            raise ScoreTableError(
                f"{path!r:.60} is not a path; for scores in memory use ScoreTable.from_arrays or "
                "ScoreTable.from_dataframe"
            )
        path = Path(path)
        query = Query(
            metric=metric,
            task=task,
            filter=filter,
            range=range,
            lower_is_better=lower_is_better,
            partial=partial,
            scale=scale,
            repeats=repeats,
        )
        return reader_of(path).read(path, query, on_progress)

    @classmethod
    def read_many(
        cls,
        path: str | Path,
        outcomes: Sequence[Logged],
        query: Query = ANY,
    ) -> Iterator[ScoreTable | CcatError]:
        """Read several outcomes, in one pass over a table that holds them all.

        Parameters
        ----------
        path : path-like
        outcomes : sequence of Logged
            Outcomes that the path's reader reports.
        query : Query, optional
            What the user states about their scale.

        Yields
        ------
        ScoreTable or CcatError
            The table of each outcome, or the error that prevents reading it.

        Examples
        --------
        >>> from lm_eval_ccat.scores.reading import Logged
        >>> ScoreTable.from_arrays([[0.2], [0.1]], ["a", "b"], metric="f1").write("f1.csv")
        >>> list(ScoreTable.read_many("f1.csv", [Logged(None, "f1", None)]))
        [<ScoreTable: f1, 2 models, 1 items, 0 scores missing>]
        """
        path = Path(path)
        reader = reader_of(path)
        # A large table is read once for all; logs of the harness lie in a file per task anyway.
        if reader.read_many is not None:
            yield from reader.read_many(path, outcomes, query)
            return
        for outcome in outcomes:
            try:
                yield reader.read(path, outcome.query(query), None)
            except CcatError as error:
                yield error

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        metric: str | None = None,
        task: str | None = None,
        range: tuple[float, float] | None = None,
        lower_is_better: bool | None = None,
        *,
        scale: Scale | None = None,
    ) -> ScoreTable:
        """Make a table from a data frame of pandas, polars or Arrow.

        Parameters
        ----------
        frame : data frame
            In long form with the columns that `read` takes (``model``, ``doc_id``, ``score``,
            ``metric`` ...); or with a row per model (a column ``model``, or the index of pandas)
            and a column per item.
        metric, task, range, lower_is_better, scale : optional
            See `read`.

        Raises
        ------
        ScoreTableError
            The argument is no data frame, or lacks a column.
        ScaleError
            The scale is not known, or a score lies outside it.

        Examples
        --------
        >>> import pandas
        >>> wide = pandas.DataFrame([[0.2, 0.9], [0.1, 0.4]], index=["a", "b"], columns=[7, 8])
        >>> ScoreTable.from_dataframe(wide, metric="f1")
        <ScoreTable: f1, 2 models, 2 items, 0 scores missing>
        """
        query = Query(
            metric=metric, task=task, range=range, lower_is_better=lower_is_better, scale=scale
        )
        names = list(getattr(frame, "columns", ()))
        # A frame with a column that files have is read as a file is. Else all columns are items,
        # and the models' names stand in the index, which only frames of pandas have.
        is_of_pandas = hasattr(frame, "to_numpy") and hasattr(frame, "index")
        if {"doc_id", "id", "model"} & set(map(str, names)) or not is_of_pandas:
            return READERS.get("long_form").read(frame, query, None)
        raw, name = _matrix(frame.to_numpy()), metric or "score"
        scale, notes = query.scale_of(raw, name, "the data frame")
        models, warnings = [str(model) for model in frame.index], tuple(notes)
        return cls.from_arrays(
            raw,
            models,
            names,
            scale=scale,
            metric=name,
            task=task,
            warnings=warnings,
            guessed=query.guesses(name, scale),
        )

    @classmethod
    def of(cls, scores: Any) -> ScoreTable:
        """Return a table as it is, or make one from a data frame or a matrix of models by items.

        Raises
        ------
        ScoreTableError
            The argument is none of these.

        Examples
        --------
        >>> ScoreTable.of(np.array([[0.2, 0.9], [0.1, 0.4]])).models
        ('model-0', 'model-1')
        """
        if isinstance(scores, cls):
            return scores
        if hasattr(scores, "columns") or hasattr(scores, "column_names"):
            return cls.from_dataframe(scores)
        # A text has a length and items, too, of which NumPy would make a matrix of one cell.
        if isinstance(scores, (str, Path)):
            raise ScoreTableError(f"{scores!r} is a path: read it with ScoreTable.read(path)")
        if scores is None:
            raise ScoreTableError(
                "None is not a table of scores: give a ScoreTable, a data frame, or a matrix "
                "with a row per model and a column per item"
            )
        raw = _matrix(scores)
        scale, notes = ANY.scale_of(raw, "score", "the matrix")
        models = [f"model-{j}" for j in range(len(raw))]
        return cls.from_arrays(raw, models, scale=scale, warnings=tuple(notes))

    @classmethod
    def from_arrays(
        cls,
        raw: ArrayLike,
        models: Sequence[str],
        doc_ids: Sequence[DocId] | None = None,
        *,
        configs: Sequence[str] | None = None,
        scale: Scale | None = None,
        metric: str = "score",
        doc_hashes: Sequence[str | None] | None = None,
        prompts: Prompts | None = None,
        copy: bool = True,
        **known: Any,
    ) -> ScoreTable:
        """Make a table from a matrix of scores.

        Parameters
        ----------
        raw : array_like of shape (n_rows, n_items)
            Scores; NaN where missing.
        models : sequence of str
            The model of each row; a model may have several rows, distinguished by `configs`.
        doc_ids : sequence, optional
            The item of each column; default ``0 .. n_items - 1``. The table's columns are in
            ascending order of these.
        configs : sequence of str, optional
            The configuration of each row; default: "".
        scale : Scale, optional
            Default [0, 1], higher is better.
        metric : str, optional
        doc_hashes, prompts : optional
            Of the items in the order of `doc_ids`; see `ScoreTable`.
        copy : bool, optional
            If False, the table may keep `raw` itself, which then must not be changed.
        **known
            Other attributes of the table, such as ``task`` or ``settings``.

        Returns
        -------
        ScoreTable

        Raises
        ------
        ScoreTableError
            The numbers of rows and columns do not fit, or two rows have one model and config.
        OutsideScaleError
            A score lies outside the scale.

        Examples
        --------
        >>> ScoreTable.from_arrays([[0.2, 0.9], [0.1, 0.4]], ["a", "b"], metric="f1")
        <ScoreTable: f1, 2 models, 2 items, 0 scores missing>
        """
        matrix = _matrix(raw)
        # Else the table changes when the caller goes on to change `raw`.
        if copy and np.may_share_memory(matrix, raw):
            matrix = matrix.copy()
        column_ids = list(range(matrix.shape[1])) if doc_ids is None else list(doc_ids)
        if len(models) != matrix.shape[0] or len(column_ids) != matrix.shape[1]:
            raise ScoreTableError(
                f"scores of shape {matrix.shape} do not fit {len(models)} models "
                f"and {len(column_ids)} doc_ids: rows are models, columns are items"
            )
        ids, order = sorted_ids(column_ids)
        # Columns that are in order already are not copied, as a table may be large.
        is_sorted = order == list(range(len(order)))
        table = cls(
            raw=matrix if is_sorted else np.take(matrix, order, axis=1),
            row_model=tuple(models),
            row_config=tuple(configs) if configs is not None else ("",) * len(models),
            doc_ids=ids,
            scale=scale or Scale(),
            metric=metric,
            doc_hashes=None if doc_hashes is None else tuple(doc_hashes[i] for i in order),
            prompts=prompts and prompts.take(items=order),
            **known,
        )
        rows = list(zip(table.row_model, table.row_config))
        if len(set(rows)) < len(rows):
            model, config = next(row for row in rows if rows.count(row) > 1)
            raise ScoreTableError(
                f"two rows for model {model!r} config {config!r}: name their configs apart"
            )
        # A score outside the scale is refused now, not after minutes of calibration.
        table.scale.check(table.raw)
        return table

    # -- looking at it ------------------------------------------------------------------------

    @cached_property
    def scores(self) -> Floats:
        """Scores on [0, 1], higher is better; shape (n_rows, n_items), NaN where missing."""
        return self.scale.normalise(self.raw)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Model names in order of first appearance."""
        return tuple(dict.fromkeys(self.row_model))

    @cached_property
    def models_with_repeats(self) -> frozenset[str]:
        """Models of which several rows are answers to the same items, numbered from 1."""
        return frozenset(
            model for model, config in zip(self.row_model, self.row_config) if _is_repeat(config)
        )

    @property
    def has_repeats(self) -> bool:
        """Whether some model has several answers to an item; see `models_with_repeats`."""
        return bool(self.models_with_repeats)

    @property
    def n_items(self) -> int:
        """Number of items (columns)."""
        return len(self.doc_ids)

    @cached_property
    def rows_of(self) -> dict[str, NDArray[np.intp]]:
        """Row positions of each model."""
        rows_of = grouped((model, row) for row, model in enumerate(self.row_model))
        return {model: np.array(rows, dtype=np.intp) for model, rows in rows_of.items()}

    def model_scores(
        self, unit: bool = True, models: Positions = slice(None), items: Positions = slice(None)
    ) -> Floats:
        """Return each model's score on each item: the mean over the configs that have one.

        Parameters
        ----------
        unit : bool, optional
            Whether scores are on [0, 1] (default) or on the metric's own scale.
        models, items : slice or ndarray of int, optional
            Positions to return; read a table of many millions of scores one part at a time.

        Returns
        -------
        ndarray of shape (n_models, n_items)
            NaN where no config of a model has a score; a copy, not a view of the table.

        Examples
        --------
        >>> table = ScoreTable.from_arrays(
        ...     [[0.2, 0.9], [0.4, 0.7]], ["a", "a"], configs=["cold", "warm"]
        ... )
        >>> table.model_scores().round(2).tolist()
        [[0.3, 0.8]]
        """
        # Most tables have a row per model, which is its score as it stands.
        if len(self.models) == len(self.row_model):
            rows = self.raw[models][:, items]
            return self.scale.normalise(rows) if unit else rows.copy()

        def mean_of(model: str) -> Floats:
            """Return a model's mean over its configs."""
            rows = self.raw[self.rows_of[model]][:, items]
            rows = self.scale.normalise(rows) if unit else rows
            present = np.isfinite(rows)
            count = present.sum(axis=0)
            mean: Floats = np.full(rows.shape[1], np.nan)
            np.divide(np.where(present, rows, 0.0).sum(axis=0), count, out=mean, where=count > 0)
            return mean

        return np.stack([mean_of(model) for model in np.array(self.models, dtype=object)[models]])

    def parts(self) -> Iterator[tuple[slice, Floats]]:
        """Iterate over scores on [0, 1], a few models at a time.

        Yields
        ------
        slice, ndarray of shape (n, n_items)
            Positions in `models`, and the scores as `model_scores` returns them.

        Examples
        --------
        >>> table = ScoreTable.from_arrays([[0.2, 0.9], [0.1, 0.4]], ["a", "b"])
        >>> [scores.shape for _, scores in table.parts()]
        [(2, 2)]
        """
        step = max(_SCORES_AT_A_TIME // max(self.n_items, 1), 1)
        for start in range(0, len(self.models), step):
            models = slice(start, min(start + step, len(self.models)))
            yield models, self.model_scores(models=models)

    @cached_property
    def overview(self) -> Overview:
        """Sums, counts and extremes by model and by item."""
        return Overview.of(self.parts(), len(self.models), self.n_items)

    # -- cutting it ---------------------------------------------------------------------------

    def select(self, models: Iterable[str]) -> ScoreTable:
        """Return the table of the named models only, in the order in which they are named.

        Raises
        ------
        UnknownScoresError
            A name is not in the table.

        Examples
        --------
        >>> table = ScoreTable.from_arrays([[0.2, 0.9], [0.1, 0.4]], ["a", "b"])
        >>> table.select(["b"]).models
        ('b',)
        """
        names = [models] if isinstance(models, str) else list(dict.fromkeys(models))
        unknown = [model for model in names if model not in self.rows_of]
        if unknown:
            raise UnknownScoresError(
                f"no scores of model {unknown[0]!r}; the table has {some(self.models, 8)}"
            )
        rows = [int(row) for model in names for row in self.rows_of[model]]
        return replace(
            self,
            raw=self.raw[rows],
            row_model=tuple(self.row_model[row] for row in rows),
            row_config=tuple(self.row_config[row] for row in rows),
            prompts=self.prompts and self.prompts.take(rows),
            chosen=tuple(self.chosen[row] for row in rows) if self.chosen else (),
            configurations={
                model: configuration
                for model, configuration in self.configurations.items()
                if model in names
            },
        )

    def without(self, models: Iterable[str]) -> ScoreTable:
        """Return the table without the named models.

        Examples
        --------
        >>> table = ScoreTable.from_arrays([[0.2, 0.9], [0.1, 0.4]], ["a", "b"])
        >>> table.without(["b"]).models
        ('a',)
        """
        left_out = {models} if isinstance(models, str) else set(models)
        return self.select(model for model in self.models if model not in left_out)

    def renamed(self, names: Mapping[str, str]) -> ScoreTable:
        """Return the table with other names of some models.

        Examples
        --------
        >>> ScoreTable.from_arrays([[0.2, 0.9]], ["a"]).renamed({"a": "b"}).models
        ('b',)
        """
        return replace(
            self,
            row_model=tuple(names.get(model, model) for model in self.row_model),
            configurations={
                names.get(model, model): configuration
                for model, configuration in self.configurations.items()
            },
        )

    def as_first_repeats(self, models: Collection[str]) -> ScoreTable:
        """Return the table with the rows of some models marked as the first of several answers.

        They then count as sampled answers, also for those who read the written table again. A row
        that has a number already keeps it.

        Examples
        --------
        >>> table = ScoreTable.from_arrays([[0.2, 0.9], [0.1, 0.4]], ["a", "b"])
        >>> table.as_first_repeats(["b"]).row_config
        ('', 'repeat 1')
        """
        rows = zip(self.row_model, self.row_config)
        return replace(
            self,
            row_config=tuple(
                ", ".join(filter(None, (config, f"{REPEAT_CONFIG}1")))
                if model in models and not _is_repeat(config)
                else config
                for model, config in rows
            ),
        )

    def prompt_marks(self, model: str) -> dict[Any, str | None]:
        """Return the mark, a short hash, of the prompt of each item, by doc_id; {} if unknown.

        Of several configs that were asked in different ways, the prompts that most of them share.

        Examples
        --------
        >>> marks = Prompts(("70b499c5",), np.array([[0, -1]]))
        >>> ScoreTable.from_arrays([[0.2, 0.9]], ["a"], prompts=marks).prompt_marks("a")
        {0: '70b499c5', 1: None}
        """
        rows = self.rows_of[model]
        return dict(zip(self.doc_ids, self.prompts.take(rows).common)) if self.prompts else {}

    def rescaled(self, low: float, high: float) -> ScoreTable:
        """Return the same scores on another range: the ends of the table's scale become its ends.

        Examples
        --------
        >>> percent = ScoreTable.from_arrays([[20.0, 90.0]], ["a"], scale=Scale(0, 100))
        >>> percent.rescaled(0, 1).raw.tolist()
        [[0.2, 0.9]]
        """
        scale = Scale(low, high, higher_is_better=self.scale.higher_is_better)
        return replace(self, raw=scale.restore(self.scores), scale=scale)

    def take(self, items: NDArray[np.intp]) -> ScoreTable:
        """Return the table of some items, by their positions.

        Examples
        --------
        >>> ScoreTable.from_arrays([[0.2, 0.9, 0.1]], ["a"]).take(np.array([0, 2])).doc_ids
        (0, 2)
        """
        positions = items.tolist()
        return replace(
            self,
            raw=np.ascontiguousarray(self.raw[:, items]),
            doc_ids=tuple(self.doc_ids[i] for i in positions),
            doc_hashes=self.doc_hashes and tuple(self.doc_hashes[i] for i in positions),
            prompts=self.prompts and self.prompts.take(items=items),
        )

    def numbered_as(
        self, doc_ids: Sequence[DocId], hashes: Sequence[str | None] | None
    ) -> ScoreTable:
        """Return the table with a benchmark's doc_ids, if it has its documents in another order.

        The table is returned as it is where the order is the same, or where the hashes do not show
        that only the order differs.

        Examples
        --------
        >>> table = ScoreTable.from_arrays([[0.2, 0.9]], ["a"], doc_hashes=["x", "y"])
        >>> table.numbered_as([0, 1], ["y", "x"]).raw.tolist()
        [[0.9, 0.2]]
        """
        # Without hashes nothing tells the documents apart, and the numbers stay.
        ours = dict(zip(self.doc_ids, self.doc_hashes or ()))
        new_ids = renumbered(ours, dict(zip(doc_ids, hashes or ())))
        if not new_ids:
            return self
        ids, order = sorted_ids([new_ids[doc_id] for doc_id in self.doc_ids])
        moved = sum(doc_id != new_id for doc_id, new_id in new_ids.items())
        note = f"{OTHER_ORDER}: {moved:,} of {self.n_items:,} are joined by their hashes"
        # Items stay ascending by their new numbers.
        table = self.take(np.array(order, dtype=np.intp))
        return replace(table, doc_ids=ids, warnings=(*self.warnings, note))

    def write(self, path: str | Path) -> None:
        """Write the table in long form, as Parquet or CSV by the ending of `path`.

        The file holds scores, hashes of documents and prompts, and the scale. It does not hold
        `settings`, `configurations`, `tokens`, nor how items were `chosen`: of an adaptive run, the
        items that were not asked would be read as if they were missing by accident.

        Raises
        ------
        ScoreTableError
            The ending is another.

        Examples
        --------
        >>> ScoreTable.from_arrays([[0.2, 0.9]], ["a"], metric="f1").write("one.parquet")
        """
        path = Path(path)
        columns = self._columns(arrow(path))
        if path.suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(columns, path)
        elif path.suffix == ".parquet":
            from pyarrow import parquet

            parquet.write_table(columns, path)
        else:
            raise ScoreTableError(f"{path}: a score table is a .parquet or a .csv file")

    def _columns(self, pa: Any) -> Any:
        """Return the columns of the long form as a table of `pa`, which is pyarrow."""
        written = np.isfinite(self.raw)
        # A row without any score is written with a NaN, so that readers say that it is left out. Of
        # a table's only row all NaN are written, as no other row says which items there are.
        written[~written.any(axis=1), 0] = True
        written |= len(written) == 1
        rows, items = np.nonzero(written)
        # Columns are made by look-ups, as a million texts in a list take much memory.
        columns: dict[str, object] = {
            "model": pa.array(self.row_model).take(pa.array(rows)),
            "config": pa.array(self.row_config).take(pa.array(rows)),
            "doc_id": pa.array(self.doc_ids).take(pa.array(items)),
            "metric": pa.repeat(self.metric, len(rows)),
            "score": pa.array(self.raw[rows, items]),
        }
        constants = self._stated_scale() | {"task": self.task, "filter": self.filter}
        columns |= {
            name: pa.repeat(value, len(rows))
            for name, value in constants.items()
            if value is not None
        }
        if self.doc_hashes is not None:
            columns["doc_hash"] = pa.array(self.doc_hashes, type=pa.string()).take(pa.array(items))
        if self.prompts is not None:
            codes = self.prompts.codes[rows, items]
            marks = pa.array([*self.prompts.marks, None], type=pa.string())
            columns["prompt_hash"] = marks.take(
                pa.array(np.where(codes < 0, len(marks) - 1, codes))
            )
        return pa.table(columns)

    def _stated_scale(self) -> dict[str, Any]:
        """Return what a file states of the scale."""
        scale, columns = self.scale, dict[str, Any]()
        # A guess is made anew by whoever reads the file; that less is better is never guessed.
        if not self.guessed:
            columns |= {"scale_min": scale.low, "scale_max": scale.high}
        if not (self.guessed and scale.higher_is_better):
            columns["higher_is_better"] = scale.higher_is_better
        return {**columns, "scale_cap": scale.cap}


def _is_repeat(config: str) -> bool:
    """Whether the name of a row's configuration ends with the number of an answer."""
    return config.split(", ")[-1].startswith(REPEAT_CONFIG)


def arrow(file: Path) -> Any:
    """Import pyarrow, with a remedy in the error if that fails."""
    try:
        import pyarrow as pa
    except ImportError as e:
        # New releases of pyarrow refuse numpy 1.26 at import, which installers do not know.
        raise ScoreTableError(
            f"{file}: pyarrow cannot be used ({e}); with numpy 1.26 install 'pyarrow<25'"
        ) from e
    return pa


def _matrix(scores: Any) -> Floats:
    """Return scores as a matrix of models by items."""
    try:
        matrix = np.asarray(scores, dtype=np.float64, order="C")
    except (TypeError, ValueError) as e:
        raise ScoreTableError(
            f"scores must be numbers, a row per model and a column per item ({e})"
        ) from None
    matrix = np.atleast_2d(matrix)
    if matrix.ndim != 2 or not matrix.size:
        raise ScoreTableError(
            f"scores of shape {matrix.shape}: a table has a row per model and a column per item"
        )
    if np.isinf(matrix).any():
        raise ScoreTableError("a score is infinite; give NaN where one is missing")
    return matrix


def sorted_ids(ids: Sequence[DocId]) -> tuple[tuple[Any, ...], list[int]]:
    """Return doc_ids of one type, ascending, and the position in `ids` of each.

    Raises
    ------
    ScoreTableError
        Integers and strings are mixed, or an id appears twice.
    """
    # Numbers of NumPy would be written to JSON, and compared, in their own way.
    plain: list[Any] = [
        doc_id.item() if isinstance(doc_id, np.generic) else doc_id for doc_id in ids
    ]
    kinds = {type(doc_id) for doc_id in plain}
    if not kinds <= {int} and not kinds <= {str}:
        raise ScoreTableError(
            "doc_ids must be all integers or all strings, found "
            + " and ".join(sorted(kind.__name__ for kind in kinds))
        )
    order = sorted(range(len(plain)), key=plain.__getitem__)
    for earlier, later in pairwise(order):
        if plain[earlier] == plain[later]:
            raise ScoreTableError(
                f"doc_id {plain[earlier]!r} appears twice: items need distinct ids"
            )
    return tuple(plain[i] for i in order), order


def read_beside(
    path: str | Path,
    outcome: Logged,
    owner: str,
    scale: Scale,
    *,
    partial: bool = False,
    on_progress: Progress = None,
) -> ScoreTable:
    """Read scores that are put beside those of a bank, a run or a form.

    Parameters
    ----------
    path : path-like
    outcome : Logged
    owner : str
        The name, for messages, of what has the scale.
    scale : Scale
    partial, on_progress : optional
        As for `ScoreTable.read`.

    Raises
    ------
    ScoreTableError
        The path has no such scores.
    ScaleError
        They state another scale or direction, or a score lies outside the scale.

    Examples
    --------
    >>> ScoreTable.from_arrays([[0.2], [0.1]], ["a", "b"], metric="f1").write("f1.csv")
    >>> read_beside("f1.csv", Logged(None, "f1"), "the bank", Scale(0, 100))
    Traceback (most recent call last):
        ...
    lm_eval_ccat.errors.ScaleError: different scales of f1: the bank 0 to 100, higher is better;
    f1.csv 0 to 1, higher is better. If f1.csv states a wrong one, ...
    """
    path = Path(path)
    reader = reader_of(path)
    query = outcome.query(Query(partial=partial, beside=OwnScale(owner, scale)))
    try:
        return reader.read(path, query, on_progress)
    except OutsideScaleError as error:
        if scale.cap is not None:
            raise
        # The error names the range that would hold all scores, so they are read once more without
        # a scale.
        unbounded = replace(query, beside=None, range=_ANYTHING)
        ends = range_holding(reader.read(path, unbounded, on_progress).raw)
        remedy = rescaling(str(path), outcome, Scale(*ends), scale)
        source = "" if str(path) in error.args[0] else f"{path}: "
        raise OutsideScaleError(f"{source}{error.args[0]}. {remedy}") from None


#: Ends of a range that every score lies in.
_ANYTHING = (-1e300, 1e300)


@dataclass(frozen=True)
class Reader:
    """Reads one kind of log; `reader_of_rows` of ``readers.frameworks`` makes one of single rows.

    Attributes
    ----------
    name : str
        Name of the kind in commands and error messages.
    summary : str
        One line that says what it reads.
    can_read : callable
        ``(path) -> bool``: whether an existing file or directory is of this kind, by names and the
        first bytes. Must not raise.
    read : callable
        ``(path, query, on_progress=None) -> ScoreTable``. It raises `ScoreTableError`,
        `MetricError` or `ScaleError`, each naming file and remedy.
    outcomes : callable
        ``(path) -> list of Logged``: the outcomes that can be read.
    groups : callable
        ``(path) -> mapping``: the groups of tasks that the logs record, each with the names of its
        tasks and subgroups; default none.
    read_many : callable, optional
        ``(path, outcomes, query) -> iterator of (ScoreTable or CcatError)``: several outcomes in
        one pass, in their order; default one `read` after the other.
    """

    name: str
    summary: str
    can_read: Callable[[Path], bool]
    read: Callable[[Path, Query, Progress], ScoreTable]
    outcomes: Callable[[Path], list[Logged]]
    groups: Callable[[Path], Mapping[str, Sequence[str]]] = field(default=lambda path: {})
    read_many: (
        Callable[[Path, Sequence[Logged], Query], Iterator[ScoreTable | CcatError]] | None
    ) = None


#: The package's own readers, in the order in which they are tried.
_BUILTIN = {
    "mixed": "mixed:READER",
    "journal": "run_journal:READER",
    "lm_eval": "lm_eval:READER",
    "lighteval": "frameworks:LIGHTEVAL",
    "long_form": "long_form:READER",
    "inspect_ai": "frameworks:INSPECT",
    "helm": "frameworks:HELM",
    "every_eval_ever": "frameworks:EVERY_EVAL_EVER",
}

READERS: Plugins[Reader] = Plugins(
    "reader",
    Reader,
    lambda: {key: f"{__package__}.readers.{value}" for key, value in _BUILTIN.items()},
)

#: Registers a reader in this process, for programs and tests.
register = READERS.register


def reader_of(path: Path) -> Reader:
    """Return the reader of a file or directory.

    Raises
    ------
    UsageError
        There is no such path.
    ScoreTableError
        No reader can read it.
    """
    # A board's tables (exposure.csv, models.csv) are no scores.
    if of_board := board_in_words(existing(path)):
        raise UsageError(of_board)
    for reader in READERS:
        if reader.can_read(path):
            return reader
    remedy = (
        "no samples_<task>_<date>.jsonl found; run the harness with --log_samples"
        if path.is_dir()
        else "a score table is a .parquet or a .csv file, harness logs are a directory"
    )
    # Who ranks by a configuration may hand the same file to `compare`.
    if path.suffix in YAML:
        remedy = "a configuration, and not scores: give logs (--log_samples) or a score table"
        raise ScoreTableError(f"{path}: {remedy}")
    if path.is_file() and (what_to_do := remedy_of(path)):
        raise ScoreTableError(f"{path}: {what_to_do}")
    # No reader takes an archive that cannot be opened, so that the reason is looked for here.
    if broken := [file for file in files_at(path, "*.eval") if file.suffix == ".eval"]:
        raise ScoreTableError(f"{broken[0]}: a log of Inspect that is cut off; copy it again")
    kinds = "; ".join(reader.summary for reader in READERS)
    raise NoScoresFoundError(path, remedy, kinds)
