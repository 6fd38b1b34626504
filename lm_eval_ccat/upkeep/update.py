"""Updates of a bank: new models from scores or rankings, retired items, and new versions of a task.

An update calibrates on all scores, old and new; the old ones are kept in the bank or passed in.
Items can be retired. Changed documents, and items that the bank does not know, are added only with
a new version of the task.

A ranking without a bank leaves answers of its models on random items. They are kept in a bank of
the method "sample", whose later estimates account for how easy items were for the models seen. Once
`MODELS_TO_CALIBRATE` models have answered, and every item has `ANSWERS_TO_CALIBRATE` answers, each
addition calibrates the method "default" on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..bank import ItemBank, SuiteBank
from ..bank.bank import ORIGIN, Observation
from ..bank.settings import Fit, compare_settings
from ..errors import BankError, BankMismatchError, CcatError, ScoreTableError, UsageError
from ..methods.calibration import calibrate
from ..methods.method import method_of
from ..methods.sample.method import EASE
from ..metrics.scale import Floats
from ..scores.item_scaling import CONSTANT
from ..scores.prompts import Prompts, compare_prompts
from ..scores.table import ScoreTable, sorted_ids
from ..shown import first_of, plural, some
from .check import aligned_scores
from .score_tables import table_of

#: Least number of models from whose observations a response model is made.
MODELS_TO_CALIBRATE = 8
#: Least number of answers that every item must have for a response model.
ANSWERS_TO_CALIBRATE = 3
#: Least number of models with a score on a new document for the bank to include it.
MODELS_TO_LEARN = 5
#: Reason of retirement for items that a user named.
BY_HAND = "by hand"
#: Parts of a bank's provenance that no calibration knows of, so that a bank made anew keeps them.
_LASTING = {"retired", *ORIGIN}


def update(
    bank: ItemBank,
    new: ScoreTable,
    calibrated_on: ScoreTable | None = None,
    *,
    retired: Sequence[Any] = (),
    new_version: bool = False,
) -> ItemBank:
    """Add calibration models to a bank.

    Parameters
    ----------
    bank : ItemBank
    new : ScoreTable
        Results, same metric, filter and scale: full ones, or, for a method that accounts for how
        items were chosen, those of adaptive runs (`ScoreTable.read` with ``partial=True``). New
        scores replace those of a model that is already in the bank.
    calibrated_on : ScoreTable, optional
        The scores the bank was calibrated on (default: those that it keeps).
    retired : sequence of doc_id, optional
        Items to remove from the bank (because they leaked, say).
    new_version : bool, optional
        Whether the new scores are of another version of the task: missing or changed documents are
        retired, and new ones (or changed ones as they are now) learned from at least five models,
        new ones or the bank's own.

    Returns
    -------
    ItemBank
        Calibrated on all scores, with a warning on documents that are not in the bank and were left
        out. Its provenance names the models added and the bank before: as it was once items had
        been retired.

    Raises
    ------
    BankError
        The bank keeps no scores and none are stated; those stated are of other models than the
        bank's; or the new ones are of another metric, task, filter or scale, of no item of the
        bank, or of items that an adaptive run chose where the method cannot account for that.
    BankMismatchError
        The new scores were made under settings, or from prompts, that make another benchmark, or
        document hashes do not tell which documents of a new version are the same.
    ScoreTableError
        A document changed, and this is no new version of the task.
    UsageError
        The bank has no item that is to be retired.

    Examples
    --------
    >>> table = ScoreTable.from_arrays(
    ...     [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
    ... )
    >>> old = table.select(["a", "b"])
    >>> update(calibrate(old, "paper", keep_scores=True), table.select(["c"])).models
    ('a', 'b', 'c')
    """
    bank, notes = _next_version(bank, new) if new_version else (bank, [])
    bank = retire(bank, retired, BY_HAND)
    doubts = _require_fit(bank, new, new_version)
    if calibrated_on is None and not bank.observations:
        raise BankError(
            "an update calibrates the bank on all its scores, old and new, and the bank does not "
            "keep the old ones: name them with --calibrated_on, or calibrate the bank with "
            "--keep_scores"
        )
    aligned_scores(bank, new)  # refuses another metric, filter or scale
    if calibrated_on is None:
        calibrated_on = table_of(bank, bank.observations)
    # Scores of other models would make another bank, not this one with more models.
    elif lacking := sorted(set(bank.models) ^ set(calibrated_on.models)):
        raise BankError(
            "the scores of --calibrated_on are of other models than the bank's "
            f"({lacking[0]!r} is in only one of the two)"
        )
    # Only another version of the task can have documents that belong to the benchmark and that the
    # bank does not know.
    documents_to_add = _new_documents if new_version else _no_documents
    new_columns, document_notes = documents_to_add(bank, new)
    columns = np.union1d(_columns_of_bank(bank, new), new_columns)
    earlier = calibrated_on.take(_columns_of_bank(bank, calibrated_on))
    scores = union(earlier, new.take(columns))
    options = bank.provenance.get("options", {})
    # A bank that kept its scores goes on to keep them.
    updated = calibrate(scores, bank.method, keep_scores=bool(bank.observations), **options)
    warnings = (*updated.warnings, *notes, *doubts, *document_notes)
    return replace(_with_update(bank, updated), warnings=warnings)


def _with_update(bank: ItemBank, updated: ItemBank) -> ItemBank:
    """Return an updated bank whose provenance names the models added and the bank before."""
    this_update = {
        "previous": bank.sha256,
        "models": [model for model in updated.models if model not in bank.models],
        "package": __version__,
    }
    updates = [*bank.provenance.get("updates", []), this_update]
    # The new scores have sources of their own, which the calibration knows.
    provenance = {"sources": updated.provenance["sources"], "updates": updates}
    updated = _heir_of(bank, updated)
    return replace(updated, provenance={**updated.provenance, **provenance})


def _heir_of(bank: ItemBank, remade: ItemBank) -> ItemBank:
    """Return a bank that was made anew from scores, with what only the bank before it knows.

    These are the settings of its runs, the ends by which each item's scores were scaled, which
    scale those of later runs too, where scores come from, which items were retired, and how easy
    items are elsewhere: a new item counts as an average one.
    """
    lasting = {key: value for key, value in bank.provenance.items() if key in _LASTING}
    item_scaling = {key: value for key, value in bank.constants.items() if key == CONSTANT}
    parameters = dict(remade.parameters)
    if (ease := bank.parameters.get(EASE)) is not None:
        by_item = dict(zip(bank.doc_ids, ease.tolist()))
        average = float(ease.mean())
        parameters[EASE] = np.array([by_item.get(item, average) for item in remade.doc_ids])
    return replace(
        remade,
        settings=dict(bank.settings),
        parameters=parameters,
        constants={**remade.constants, **item_scaling},
        provenance={**remade.provenance, **lasting},
    )


def _columns_of_bank(bank: ItemBank, table: ScoreTable) -> NDArray[np.intp]:
    """Return the columns of a table's items that the bank has."""
    columns = [n for n, doc_id in enumerate(table.doc_ids) if doc_id in bank.index]
    return np.array(columns, dtype=np.intp)


def _no_documents(bank: ItemBank, table: ScoreTable) -> tuple[NDArray[np.intp], list[str]]:
    """Return no columns of new documents, unlike `_new_documents`, and a note on those left out."""
    # Whoever retired an item knows of it.
    retired = (item for part in bank.provenance.get("retired", ()) for item in part["items"])
    skipped = len({*table.doc_ids}.difference(bank.index, retired))
    notes = [f"{plural(skipped, 'document')} not in the bank left out"] if skipped else []
    return np.empty(0, dtype=np.intp), notes


def _require_fit(bank: ItemBank, new: ScoreTable, new_version: bool) -> list[str]:
    """Refuse scores that do not belong in a bank, and return what is doubtful.

    Raises
    ------
    BankMismatchError
        They were made under settings, or from prompts, that make another benchmark.
    BankError
        Their items were chosen by answers, and the bank's method cannot learn from such.
    """
    # Tables of scores state no settings.
    fit = compare_settings(bank.settings, new.settings) if new.settings else Fit([], [])
    refusals = list(fit.refusals)
    # A new version may ask otherwise; that is what is new about it.
    for model in new.models if not new_version else ():
        compared = compare_prompts(bank.marks, new.prompt_marks(model), ("the bank", model))
        refusals += [compared.difference] if compared.difference else []
    if refusals:
        raise BankMismatchError(
            f"the new scores do not fit the bank: {first_of(refusals, 3)}; leave these models out, "
            "or calibrate a bank of their own"
        )
    adaptive = [model for model, how in zip(new.row_model, new.chosen) if how == "adaptive"]
    if adaptive and not method_of(bank).learns_from_chosen:
        raise BankError(
            f"an adaptive run chose the items of {adaptive[0]!r} by its scores, and method "
            f"{bank.method!r} would take them for a random sample; give full results, or update a "
            "bank of method 'default'"
        )
    return fit.warnings


def union(old: ScoreTable, new: ScoreTable) -> ScoreTable:
    """Return one table with all models and all items of both tables.

    Of a model in both, the new rows count. Scores that a new row lacks come from the old row of the
    same configuration.

    Raises
    ------
    ScoreTableError
        The tables are of different metrics or scales, name items by different types, or a document
        changed between them.

    Examples
    --------
    >>> a = ScoreTable.from_arrays([[0.1, 0.2]], models=["a"], doc_ids=[0, 1])
    >>> b = ScoreTable.from_arrays([[0.3, 0.4]], models=["b"], doc_ids=[1, 2])
    >>> union(a, b).raw.tolist()
    [[0.1, 0.2, nan], [nan, 0.3, 0.4]]
    """
    if old.metric != new.metric or old.scale != new.scale:
        raise ScoreTableError(
            f"scores of {old.metric} ({old.scale.describe()}) and of {new.metric} "
            f"({new.scale.describe()}) are not of one benchmark"
        )
    hashes = _hashes_of_both(old, new)
    ids, _ = sorted_ids(list(hashes))
    rows: dict[_Label, _Row] = {}
    for table in (old, new):
        for label, row in _rows_of(table, ids):
            # The old row is taken out, so that the row's place is that in the new table.
            rows[label] = row.filled_by(rows.pop(label)) if label in rows else row
    # An old row of another configuration, of a model that was run anew, is out of date.
    new_labels = set(_labels(new))
    rows = {
        label: row
        for label, row in rows.items()
        if label in new_labels or label.model not in new.models
    }
    selections = tuple(row.selection for row in rows.values())
    return replace(
        old,
        raw=np.array([row.raw for row in rows.values()]).reshape(len(rows), len(ids)),
        prompts=Prompts.of_rows([row.marks for row in rows.values()]),
        chosen=selections if any(selections) else (),
        row_model=tuple(label.model for label in rows),
        row_config=tuple(label.config for label in rows),
        doc_ids=ids,
        doc_hashes=tuple(hashes[doc_id] for doc_id in ids) if any(hashes.values()) else None,
        warnings=tuple(dict.fromkeys((*old.warnings, *new.warnings))),
        sources=(*old.sources, *new.sources),
    )


class _Label(NamedTuple):
    """What tells the rows of a table apart."""

    model: str
    config: str


def _labels(table: ScoreTable) -> Iterator[_Label]:
    """Yield the label of each row."""
    return map(_Label, table.row_model, table.row_config)


class _Row(NamedTuple):
    """One row of a union, over the items of both tables.

    Attributes
    ----------
    selection : str
        How the row's items were chosen: "first", "drawn" or "adaptive"; "" is not stated.
    raw : ndarray
        Scores.
    marks : list of (str or None)
        Marks of the prompts.
    """

    selection: str
    raw: Floats
    marks: list[str | None]

    def filled_by(self, earlier: _Row) -> _Row:
        """Return this row, with an earlier row's scores and their marks where it has no score."""
        lacks = np.isnan(self.raw)
        raw = np.where(lacks, earlier.raw, self.raw)
        # A prompt that is not known is not the one of the score that was replaced.
        marks = [
            earlier_mark if is_lacking else mark
            for is_lacking, mark, earlier_mark in zip(lacks, self.marks, earlier.marks)
        ]
        selection = self.selection
        # Some of the items were chosen by scores, as in `grow`; of all items none were chosen.
        if earlier.selection == "adaptive" and np.isfinite(earlier.raw[lacks]).any():
            selection = "adaptive" if np.isnan(raw).any() else ""
        return _Row(selection, raw, marks)


def _rows_of(table: ScoreTable, ids: Sequence[Any]) -> Iterator[tuple[_Label, _Row]]:
    """Yield each row of a table, that is a configuration of a model, over all items `ids`.

    Where the table lacks an item, the score is NaN and the mark None.
    """
    column = {doc_id: i for i, doc_id in enumerate(ids)}
    columns = [column[doc_id] for doc_id in table.doc_ids]
    for number, label in enumerate(_labels(table)):
        raw, marks = np.full(len(ids), np.nan), list[str | None]([None] * len(ids))
        raw[columns] = table.raw[number]
        for position, mark in zip(columns, table.prompts.of_row(number) if table.prompts else ()):
            marks[position] = mark
        selection = table.chosen[number] if table.chosen else ""
        yield label, _Row(selection, raw, marks)


def _hashes_of_both(old: ScoreTable, new: ScoreTable) -> dict[Any, str | None]:
    """Return the hash of each document of two tables; refuse one that changed between them."""
    hashes = dict(zip(old.doc_ids, old.doc_hashes or [None] * old.n_items))
    for doc_id, hash_ in zip(new.doc_ids, new.doc_hashes or [None] * new.n_items):
        known = hashes.get(doc_id)
        if None not in (hash_, known) and hash_ != known:
            raise ScoreTableError(f"doc_id {doc_id!r} is a different document in the new scores")
        hashes[doc_id] = known if hash_ is None else hash_
    return hashes


def to_retire(suite: SuiteBank, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the items to remove from each task's banks, as ``--retire [TASK=]IDS`` names them.

    Parameters
    ----------
    suite : SuiteBank
    texts : sequence of str
        Such as ``"17,23"``, or with several tasks ``"mmlu_law=17,23"``.

    Raises
    ------
    UsageError
        There is no such task, several tasks but none is named, or a doc_id has the wrong type.

    Examples
    --------
    >>> to_retire(SuiteBank({"t": ItemBank.blank(range(4))}), ["1,2"])
    {'t': [1, 2]}
    """
    retired: dict[str, list[Any]] = {task: [] for task in suite}
    for text in texts:
        task, equals, ids = text.rpartition("=")
        if not equals and len(suite) > 1:
            raise UsageError(f"--retire {text}: name its task, too: TASK={text}")
        task = task if equals else next(iter(suite))
        if task not in suite:
            raise UsageError(f"--retire {text}: the suite has no task {task!r}; "
                             f"it has {', '.join(suite)}")  # fmt: skip
        # A flag is text; the bank says whether its documents have numbers or names.
        kind = type(next(iter(suite[task].values())).doc_ids[0])
        try:
            retired[task] += [kind(doc_id.strip()) for doc_id in ids.split(",") if doc_id.strip()]
        except ValueError:
            raise UsageError(f"--retire {text}: the bank's doc_ids are numbers") from None
    return retired


def retire(bank: ItemBank, doc_ids: Iterable[Any], why: str) -> ItemBank:
    """Return a bank without some of its items: it estimates the mean over the others.

    Parameters
    ----------
    bank : ItemBank
    doc_ids : iterable
    why : str
        Reason, for its provenance.

    Raises
    ------
    UsageError
        The bank has no such item.
    BankError
        No item would remain.

    Examples
    --------
    >>> retire(ItemBank.blank(range(4)), [1, 2], "leaked").doc_ids
    (0, 3)
    """
    retired = dict.fromkeys(doc_ids)
    unknown = [doc_id for doc_id in retired if doc_id not in bank.index]
    if unknown:
        raise UsageError(f"the bank has no item with doc_id {unknown[0]!r} to retire")
    if not retired:
        return bank
    stays = np.array([doc_id not in retired for doc_id in bank.doc_ids], dtype=bool)
    # Items that calibration removed stand in the bank, too, but are never asked.
    if not (stays & bank.kept).any():
        raise BankError("no item of the bank would be left; calibrate a new one")
    old_positions = np.flatnonzero(stays)
    retirement = {"items": list(retired), "why": why, "previous": bank.sha256}
    earlier_retirements = bank.provenance.get("retired", [])
    return replace(
        bank,
        doc_ids=tuple(bank.doc_ids[i] for i in old_positions),
        kept=bank.kept[stays],
        parameters={name: values[stays] for name, values in bank.parameters.items()},
        doc_hashes=bank.doc_hashes and tuple(bank.doc_hashes[i] for i in old_positions),
        prompts=bank.prompts and tuple(bank.prompts[i] for i in old_positions),
        observations=tuple(_shortened(observation, stays) for observation in bank.observations),
        provenance={**bank.provenance, "retired": [*earlier_retirements, retirement]},
    )


def _shortened(observation: Observation, stays: NDArray[np.bool_]) -> Observation:
    """Return an observation as a bank has it of whose items only those that stay are left."""
    asked, probabilities = stays[observation.items], observation.probabilities
    # An item's position in the new bank, by its position in the old one.
    new_position = np.cumsum(stays) - 1
    return replace(
        observation,
        items=new_position[observation.items[asked]],
        scores=observation.scores[asked],
        probabilities=None if probabilities is None else probabilities[asked],
    )


def _next_version(bank: ItemBank, table: ScoreTable) -> tuple[ItemBank, list[str]]:
    """Retire the documents that a new version of the task lacks or changes.

    Other differences in settings are not handled here.

    Returns
    -------
    bank : ItemBank
    notes : list of str
        A line on each kind of documents that were retired.
    """
    # By numbers alone a changed document would pass for the old one.
    if bank.doc_hashes is None or table.doc_hashes is None:
        raise BankMismatchError(
            "a new version of the task needs document hashes in the bank and in the new scores, to "
            "tell which documents are the same; calibrate a new bank"
        )
    differing = bank.compare(table.doc_ids, table.doc_hashes)
    # Runs of a part of the documents say nothing about those that they did not ask.
    has_full_run = any(how in ("", "all") for how in table.chosen or ("",))
    missing = differing.missing if has_full_run else ()
    notes = [
        f"{plural(len(items), 'document')} retired, which the new version {verb} "
        f"(doc_id {some(items)})"
        for verb, items in (("lacks", missing), ("changes", differing.changed))
        if items
    ]
    # A changed document has another difficulty under the same number.
    renewed = retire(bank, (*missing, *differing.changed), "a new version of the task")
    version = {key: value for key, value in table.settings.items() if key == "task_version"}
    return replace(renewed, settings={**renewed.settings, **version}), notes


def _new_documents(bank: ItemBank, table: ScoreTable) -> tuple[NDArray[np.intp], list[str]]:
    """Return the columns of documents that the bank lacks and enough models scored, and notes.

    Leave out documents that were retired by hand (because they leaked, say).
    """
    retired_by_hand = {
        doc_id
        for retirement in bank.provenance.get("retired", [])
        if retirement["why"] == BY_HAND
        for doc_id in retirement["items"]
    }
    is_new = np.array(
        [doc_id not in bank.index and doc_id not in retired_by_hand for doc_id in table.doc_ids],
        dtype=bool,
    )
    enough = is_new & (np.isfinite(table.model_scores()).sum(axis=0) >= MODELS_TO_LEARN)
    n_left_out, columns = int((is_new & ~enough).sum()), np.flatnonzero(enough)
    notes = []
    if n_left_out:
        notes.append(
            f"{plural(n_left_out, 'new document')} left out: fewer than {MODELS_TO_LEARN} models "
            "have a score on them"
        )
    if len(columns):
        notes.append(
            f"{plural(len(columns), 'new document')} learned from "
            f"{plural(len(table.models), 'model')}"
        )
    return columns, notes


# -- a bank that grows with rankings -------------------------------------------------------------


def grow(
    bank: ItemBank,
    new: Sequence[Observation],
    date: str | None = None,
    *,
    response_model: bool = True,
) -> ItemBank:
    """Add observations to a bank.

    Parameters
    ----------
    bank : ItemBank
        Blank, grown before, or calibrated on logs with ``keep_scores``.
    new : sequence of Observation
        Scores on the bank's items; they replace earlier scores of the same model and item.
    date : str, optional
        Date of the new bank, ISO 8601.
    response_model : bool, optional
        Whether to calibrate one once there are enough answers.

    Raises
    ------
    BankError
        The bank cannot take in observations.

    Examples
    --------
    >>> import numpy as np
    >>> observation = Observation("a", "drawn", np.array([2, 0]), np.array([1.0, 0.5]))
    >>> bank = grow(ItemBank.blank(range(3)), [observation])
    >>> bank.models, readiness(bank)[-37:]
    (('a',), '(now 1, and 0 for the least answered)')
    """
    require_growing(bank)
    observations = merged(bank.observations, new)
    return _made_of(bank, observations, date, response_model=response_model)


def require_growing(bank: ItemBank) -> None:
    """Refuse a bank that cannot take in what a ranking observes.

    Raises
    ------
    BankError
    """
    # A response model is made from all scores at once, so that they must be at hand.
    if bank.method != "sample" and not (bank.observations and bank.method == "default"):
        raise BankError(
            f"a bank of method {bank.method!r} without its scores cannot grow: save_bank needs one "
            "of method 'default' that keeps them (calibrate --keep_scores), or none"
        )


def merged(old: Iterable[Observation], new: Iterable[Observation]) -> list[Observation]:
    """Merge into one observation per model and configuration; later scores replace earlier ones."""
    by_label: dict[_Label, Observation] = {}
    for observation in [*old, *new]:
        label = _Label(observation.model, observation.config)
        earlier = by_label.get(label)
        by_label[label] = observation if earlier is None else _joined(earlier, observation)
    return list(by_label.values())


def _joined(earlier: Observation, later: Observation) -> Observation:
    """Return what a model was observed to score in two observations; the later score counts."""
    # Items that the later observation lacks.
    stays = ~np.isin(earlier.items, later.items)
    # NaN where one of the two does not state them.
    probabilities = None
    if earlier.probabilities is not None or later.probabilities is not None:
        of_earlier, of_later = (
            np.full(len(part.items), np.nan) if part.probabilities is None else part.probabilities
            for part in (earlier, later)
        )
        probabilities = np.concatenate([of_earlier[stays], of_later])
    # Items that were chosen in two ways count as if the scores had chosen them.
    chosen_alike = later.chosen == earlier.chosen or not stays.any()
    return Observation(
        later.model,
        chosen=later.chosen if chosen_alike else "adaptive",
        items=np.concatenate([earlier.items[stays], later.items]),
        scores=np.concatenate([earlier.scores[stays], later.scores]),
        probabilities=probabilities,
        config=later.config,
        date=later.date or earlier.date,
    )


def readiness(bank: ItemBank) -> str:
    """Say in words whether the response model takes part, or when it will."""
    if bank.method != "sample":
        return f"Adaptive selection uses {len(bank.models)} models"
    answered = _Answered.of(bank, bank.observations)
    return (
        f"Adaptive selection starts at {MODELS_TO_CALIBRATE} models and {ANSWERS_TO_CALIBRATE} "
        f"answers per item (now {answered.models}, and {answered.fewest} for the least answered)"
    )


class _Answered(NamedTuple):
    """Number of models that answered, and of answers to the least answered item."""

    models: int
    fewest: int

    @classmethod
    def of(cls, bank: ItemBank, observations: Sequence[Observation]) -> _Answered:
        """Count observations of a bank's items."""
        count = np.zeros(bank.n_items, dtype=np.intp)
        for observation in observations:
            count[observation.items] += 1
        return cls(len({observation.model for observation in observations}), int(count.min()))

    @property
    def suffice(self) -> bool:
        """Whether a response model can be made."""
        return self.models >= MODELS_TO_CALIBRATE and self.fewest >= ANSWERS_TO_CALIBRATE


def _made_of(
    bank: ItemBank, observations: Sequence[Observation], date: str | None, *, response_model: bool
) -> ItemBank:
    """Return a bank with the items of `bank` and nothing but these observations.

    It is calibrated, by the options of `bank`, if a response model is wanted and the observations
    suffice for one. Else it keeps the observations, and knows nothing of its items.
    """
    parts = ("task", "metric", "filter", "scale", "doc_hashes", "prompts")
    blank = ItemBank.blank(bank.doc_ids, **{part: getattr(bank, part) for part in parts})
    grown = blank
    if response_model and _Answered.of(bank, observations).suffice:
        options = bank.provenance.get("options", {})
        grown = calibrate(table_of(blank, observations), "default", **options)
        grown = replace(grown, provenance={**grown.provenance, "grown": True})
    return replace(
        _heir_of(bank, grown),
        models=tuple(dict.fromkeys(observation.model for observation in observations)),
        observations=tuple(observations),
        made=date,
    )


# -- a bank as if the models that it is to test had not calibrated it ----------------------


def without_models(bank: ItemBank, models: Collection[str]) -> tuple[ItemBank, str]:
    """Remove from a bank what it learned from models that are to be ranked with it.

    Parameters
    ----------
    bank : ItemBank
    models : collection of str

    Returns
    -------
    bank : ItemBank
        Made again from the others' scores if the bank holds scores (``keep_scores``) and these
        suffice, else unchanged. Blank or of random items: unchanged.
    warning : str
        What the user should know about it; empty if no such model calibrated the bank.

    Examples
    --------
    >>> without_models(ItemBank.blank(range(3)), ["a"])[1]
    ''
    """
    ranked = [model for model in bank.models if model in models]
    # A bank of random items only corrects for the ease of items drawn independently of its scores,
    # which is right for whatever scores these are.
    if not ranked or bank.method == "sample":
        return bank, ""
    name = f"the bank{f' of {bank.task}' if bank.task else ''}"
    warning = f"{name} was calibrated on {some(ranked, 3)} too"
    if bank.observations:
        try:
            peers = [entry for entry in bank.observations if entry.model not in ranked]
            return _remade(bank, peers), f"{warning}, whose scores are left out of this ranking"
        except CcatError as error:
            warning += f", and cannot do without them ({error})"
    return bank, (
        f"{warning}, so estimates of that are too certain; calibrate with --exclude, or with "
        "--keep_scores, which lets rankings leave them out"
    )


def _remade(bank: ItemBank, observations: Sequence[Observation]) -> ItemBank:
    """Make a bank again, as it was made, from some of its observations."""
    # A bank that grew may fall back to random items; a calibration would fail.
    if bank.provenance.get("grown"):
        return _made_of(bank, observations, bank.made, response_model=True)
    options = bank.provenance.get("options") or {}
    remade = calibrate(table_of(bank, observations), bank.method, keep_scores=True, **options)
    return replace(_heir_of(bank, remade), made=bank.made)
