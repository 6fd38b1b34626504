"""Estimates of adaptive runs beside one another or scores: all are of the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.bank import DocumentComparison
from ..errors import UsageError
from ..scores import ScoreTable
from ..scores.numbering import OTHER_ORDER, renumbered
from ..scores.prompts import DIGITS
from ..shown import plural, some
from .shared_documents import differing_settings
from .sides import SIDES
from .stored import StoredRanking

_UNKNOWN = (
    "documents unknown: {} stands without its journal or samples, so only their number is verified"
)


def on_same_documents(
    first: ScoreTable | StoredRanking,
    second: ScoreTable | StoredRanking,
    names: tuple[str, str],
    warnings: list[str],
) -> tuple[ScoreTable | StoredRanking, ScoreTable | StoredRanking]:
    """Return the two sides of a comparison, about the same documents.

    If one side is a run and the other has scores, the scores of documents that the run is not about
    are left out. Two runs have to be about the same documents.

    Parameters
    ----------
    first, second : ScoreTable or StoredRanking
        Baseline and candidate.
    names : (str, str)
        The model of each side.
    warnings : list of str
        Gets what the reader of the scores said, and what was left out.

    Raises
    ------
    UsageError
        Scores are of other documents than the run's, or not of all of them.
    """
    if isinstance(first, StoredRanking) and isinstance(second, StoredRanking):
        if first.source_of(names[0]) != second.source_of(names[1]):
            _require_same(first, second, names, warnings)
    elif isinstance(first, ScoreTable) and isinstance(second, StoredRanking):
        first = _cut_to_run(first, second, names, SIDES, warnings)
    elif isinstance(first, StoredRanking) and isinstance(second, ScoreTable):
        second = _cut_to_run(second, first, names[::-1], SIDES[::-1], warnings)
    return first, second


def _require_same(
    first: StoredRanking, second: StoredRanking, names: tuple[str, str], warnings: list[str]
) -> None:
    """Refuse two runs of other documents; what is not known or differs goes to `warnings`."""
    size, second_size = (side.content["items_of_benchmark"] for side in (first, second))
    if size != second_size:
        raise UsageError(
            f"the {SIDES[0]} estimates the mean over {plural(size, 'document')}, the {SIDES[1]} "
            f"over {second_size:,}. Run both models on the same documents"
        )
    for task in first.tasks:
        warnings += differing_settings(
            first.settings_of(names[0], task),
            second.settings_of(names[1], task),
            first.outcome.metric,
        )
        baseline = first.documents_of(names[0], task)
        candidate = second.documents_of(names[1], task)
        if baseline is None or candidate is None:
            silent = first.source_of(names[0]) if baseline is None else second.source_of(names[1])
            warnings.append(_UNKNOWN.format(silent))
            continue
        compared = _require_unchanged(candidate, baseline, SIDES[::-1])
        # Samples of a run know only what was asked.
        if compared.missing and baseline.n_items == candidate.n_items == size:
            raise UsageError(
                f"{len(compared.missing)} of {plural(size, 'document')} of the {SIDES[0]} are none "
                f"of the {SIDES[1]} (doc_id {some(compared.missing, 3)}). Run both models on the "
                "same documents"
            )


def require_one_order(first: ScoreTable, second: ScoreTable) -> None:
    """Refuse two tables that number the same documents in another order.

    Raises
    ------
    UsageError
        Hashes differ, and those of one table stand at other doc_ids in the other.
    """
    hashes, second_hashes = (
        dict(zip(table.doc_ids, table.doc_hashes or ())) for table in (first, second)
    )
    changed = [doc_id for doc_id, sha in hashes.items() if second_hashes.get(doc_id, sha) != sha]
    # Texts that differ at a few places only may have been corrected; in another order all stand
    # elsewhere. Either table may hold a part of the other's documents: both ways are tried.
    if changed and (renumbered(second_hashes, hashes) or renumbered(hashes, second_hashes)):
        raise UsageError(
            f"the {SIDES[0]} and the {SIDES[1]} are of {OTHER_ORDER}: doc_id {some(changed, 3)} "
            f"({len(changed)} of {len(hashes)}) is another document in each (doc_hash). Run both "
            "models on the data set in one order (its revision, its shuffle)"
        )


def _require_unchanged(
    scored: ScoreTable | ItemBank, documents: ItemBank, sides: tuple[str, str]
) -> DocumentComparison:
    """Return how the documents of two sides compare, and refuse one that has another text.

    Parameters
    ----------
    scored, documents : ScoreTable or ItemBank
    sides : (str, str)
        What messages call the sides: that of `scored`, and that of `documents`.

    Raises
    ------
    UsageError
        One has another text.
    """
    compared = documents.compare(scored.doc_ids, scored.doc_hashes)
    if compared.changed:
        doc_id = compared.changed[0]
        doc_hashes = [
            str(dict(zip(side.doc_ids, side.doc_hashes or ()))[doc_id])[:DIGITS]
            for side in (scored, documents)
        ]
        count = len(compared.changed) + len(compared.same)
        differ = f"are {OTHER_ORDER}" if compared.renumbered else "differ"
        raise UsageError(
            f"document {doc_id!r} is {doc_hashes[0]} in the {sides[0]} and {doc_hashes[1]} in the "
            f"{sides[1]}; {len(compared.changed)} of {count} documents {differ} (doc_hash). Run "
            "both models on the same documents"
        )
    return compared


def _cut_to_run(
    table: ScoreTable,
    ranking: StoredRanking,
    names: tuple[str, str],
    sides: tuple[str, str],
    warnings: list[str],
) -> ScoreTable:
    """Return the scores of one model, cut to the documents that a run asked another.

    Parameters
    ----------
    table : ScoreTable
    ranking : StoredRanking
    names : (str, str)
        The model with the scores, and the model of the run.
    sides : (str, str)
        What the scores are called, and what the run is.
    warnings : list of str
        Gets what differs between the two, and what is left out or not known.
    """
    model, task, size = names[1], str(ranking.outcome.task), ranking.content["items_of_benchmark"]
    settings = dict(zip(sides, (table.settings, ranking.settings_of(model, task))))
    warnings += table.warnings
    baseline, candidate = (settings[side] for side in SIDES)
    warnings += differing_settings(baseline, candidate, ranking.outcome.metric)
    table = table.select([names[0]])
    table = table.take(np.flatnonzero(np.isfinite(table.model_scores()[0])))
    documents = ranking.documents_of(model, task)
    # The run's number of documents is all that can be compared.
    if documents is None:
        _require_all(table, size, (), sides)
        warnings.append(_UNKNOWN.format(ranking.source_of(model)))
        return table
    compared = _require_unchanged(table, documents, sides)
    # Samples of a run know only what was asked: documents that they lack prove nothing.
    if compared.new and documents.n_items == size:
        task_marks = ranking.prompt_marks(model, task)
        if foreign := [doc_id for doc_id in compared.new if doc_id not in task_marks]:
            raise UsageError(
                f"{len(foreign)} of {plural(table.n_items, 'document')} of the {sides[0]} are none "
                f"of {task} as the {sides[1]} has it (doc_id {some(foreign, 3)}). Give scores on "
                "that task's documents, under their doc_id in its logs"
            )
        warnings.append(
            f"{plural(len(compared.new), 'score')} left out: the bank of the {sides[1]} does not "
            "know these documents"
        )
        columns = [n for n, doc_id in enumerate(table.doc_ids) if doc_id in documents.index]
        table = table.take(np.array(columns, dtype=np.intp))
    _require_all(table, size, compared.missing, sides)
    return table


def _require_all(
    table: ScoreTable, size: int, missing: Sequence[Any], sides: tuple[str, str]
) -> None:
    """Refuse scores of fewer or more documents than a run's mean is over."""
    # A mean over other documents cannot be set beside the run's.
    if table.n_items == size and not missing:
        return
    lacking = f"; doc_id {some(missing, 3)} lack" if missing else ""
    raise UsageError(
        f"the {sides[0]} has scores on {plural(table.n_items, 'document')}, the {sides[1]} "
        f"estimates the mean over {size:,}{lacking}. Give scores on all of them (logs without "
        "--limit)"
    )
