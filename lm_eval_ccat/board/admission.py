"""What keeps a model off a board: its documents, its prompts, and how it was run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..bank import ItemBank
from ..grouping import grouped
from ..live.scored import runs_by_model
from ..methods.method import method_of
from ..metrics.scale import ITEM_SCALED
from ..ranker.join import VERIFIED, fault_of
from ..scores import ScoreTable
from ..scores.prompts import compare_prompts
from ..scores.table import reader_of
from ..shown import first_of, one_line_per_kind, some
from ..upkeep.score_tables import scores_for
from .folder import Board
from .ledger import BoardRow

#: What to do with models that were asked in other ways than the board's.
OTHER_PROMPTS = (
    "ask as the board's models were asked, or begin a board of these prompts: "
    "`lm-eval-ccat board init NEW_DIR --from LOGS`"
)


class InLedger(str):
    """The reason of a model that needs no row, as its results have one."""

    def __new__(cls, results: str) -> InLedger:
        """Say it of results, such as "its full results"."""
        return super().__new__(cls, f"{results} in the ledger already")


@dataclass
class Added:
    """The rows added to a board, and the models left out.

    Attributes
    ----------
    rows : list of BoardRow
    left_out : dict of str to str
        The reason for each model; an `InLedger` if nothing of it is missing.
    notes : list of str
        What is not known of the results, or was passed over in them.
    """

    rows: list[BoardRow] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """A line on the models that were left out for each reason."""
        models = grouped((reason, model) for model, reason in self.left_out.items())
        return [f"{first_of(names, 10)}: left out: {reason}" for reason, names in models.items()]

    @property
    def partial(self) -> bool:
        """Whether a model was left out that is not in the ledger; the exit code tells it."""
        return any(not isinstance(reason, InLedger) for reason in self.left_out.values())


def tables_of(board: Board, source: Path, partial: bool = False) -> dict[str, ScoreTable]:
    """Read the scores of those tasks of the board that the source holds.

    With `partial`, models may lack documents; else only models with full results are read.

    Raises
    ------
    CcatError
        If the source cannot be read, or is on another scale.
    """
    outcomes = reader_of(source).outcomes(source)
    # A bank or a table that names no task is of the board's task. Of scores that a bank scales item
    # by item, logs have the metric itself.
    return {
        task: replace(scores_for(replace(bank, task=task), source, partial=partial), task=task)
        for task, bank in board.banks.items()
        if any(
            outcome.task in (task, None) and outcome.metric == bank.metric.removesuffix(ITEM_SCALED)
            for outcome in outcomes
        )
    }


def notes_of(tables: Mapping[str, ScoreTable]) -> list[str]:
    """Return what readers say of the scores of several tasks, a line for each kind of warning."""
    return one_line_per_kind({task: table.warnings for task, table in tables.items()})


def why_limited(source: Path, task: str, table: ScoreTable) -> dict[str, str]:
    """Return why no row is made of models that were run with ``--limit`` alone, by model.

    The first documents are often unlike the others, and no interval shows it.
    """
    reasons: dict[str, str] = {}
    # A model that was run in full, too, is taken by that run.
    for model, runs in runs_by_model(source, table.task).items():
        shortfalls = [run.why_not_full() for run in runs]
        # Usable rows of a run that is not full are those of its first documents.
        if shortfalls and all(reason and usable for reason, usable in shortfalls):
            reasons[model] = (
                f"{task}: {shortfalls[-1].reason}, and the first documents do not stand for the "
                "others: run all of them and `board add` it, or let `board place DIR MODELS.yaml` "
                "ask it, where `prior: LOGS` takes over the answers that there are"
            )
    return reasons


class Judgement(NamedTuple):
    """What `judge_documents` finds of a model's documents and prompts.

    Attributes
    ----------
    reason : str
        Why they are not the board's, so that the model gets no row; "" if they may be.
    doubt : str
        What is not known of them, which is told; "" if nothing.
    """

    reason: str = ""
    doubt: str = ""


def judge_documents(
    bank: ItemBank, task: str, asked: ScoreTable, model: str, *, verified: bool = False
) -> Judgement:
    """Compare the documents and prompts of a model's scores with the board's.

    Parameters
    ----------
    bank : ItemBank
    task : str
    asked : ScoreTable
        The items that the model has scores on.
    model : str
    verified : bool, optional
        Whether the scores are known to be of the board's documents, as its bank was calibrated on
        them or a row has them already.

    Examples
    --------
    >>> bank = ItemBank.blank([0, 1], task="t", doc_hashes=["a", "b"])
    >>> other = ScoreTable.from_arrays([[1.0, 0.0]], ["m"], [1, 2], doc_hashes=["b", "c"])
    >>> judge_documents(bank, "t", other, "m")
    Judgement(reason="1 of its 2 documents of t are not the board's (doc_id 2): run the board's
        documents", doubt='')
    """
    compared = bank.compare(asked.doc_ids, asked.doc_hashes)
    foreign = sorted([*compared.new, *compared.changed], key=asked.doc_ids.index)
    # Its mean is that of other documents, whatever their number.
    if foreign:
        return Judgement(
            f"{len(foreign)} of its {asked.n_items} documents of {task} are not the board's "
            f"(doc_id {some(foreign, 3)}): run the board's documents"
        )
    prompts = compare_prompts(bank.marks, asked.prompt_marks(model), ("the bank", "the source"))
    if prompts.difference:
        return Judgement(f"{task}: {prompts.difference}; {OTHER_PROMPTS}")
    doubts = [prompts.doubt] if prompts.doubt else []
    # Where hashes do not tell, the scores do: they must go with what the bank expects of its items.
    if len(compared.same) < asked.n_items and not verified:
        scores = bank.in_order(asked.doc_ids, asked.select([model]).model_scores())
        if fault := fault_of(bank, scores).words:
            return Judgement(f"{task}: {fault}; {VERIFIED}")
    # Documents are the same for certain only where the bank and the source have equal hashes.
    if bank.doc_hashes is not None and not compared.same:
        doubts.insert(0, "the source states no hashes of documents, so ids alone name them")
    # Item curves say which scores to expect, so that a bank with them has judged the scores above.
    # One without them, as `ItemBank.blank` makes it, knows no more than ids.
    elif not (compared.same or verified or method_of(bank).has_curves):
        doubts.insert(0, "the board has no hashes of documents and no bank, so ids alone name them")
    return Judgement(doubt="; ".join(doubts))


def leave_out_by_documents(
    board: Board,
    source: Path,
    tables: Mapping[str, ScoreTable],
    added: Added,
    *,
    in_full: bool,
    is_verified: Callable[[str, ScoreTable, str], bool] = lambda task, asked, model: False,
) -> None:
    """Leave out models by the documents that they have scores on, as `added` then says.

    Parameters
    ----------
    board : Board
    source : Path
        What the tables were read from.
    tables : mapping of task to ScoreTable
    added : Added
        Gets the models that are left out, with the first reason of each, and notes on what is not
        known of the documents of others.
    in_full : bool
        Whether models that lack documents are left out, however they were chosen.
    is_verified : callable, optional
        ``(task, asked, model) -> bool``: whether scores are known to be of the board's documents.
    """
    doubts: dict[str, list[str]] = {}
    for task, table in tables.items():
        bank, doubts[task] = board.banks[task], []
        limited = why_limited(source, task, table)
        for model, scores in zip(table.models, table.model_scores()):
            asked = table.take(np.flatnonzero(np.isfinite(scores)))
            verified = is_verified(task, asked, model)
            reason, doubt = judge_documents(bank, task, asked, model, verified=verified)
            doubts[task] += filter(None, [doubt])
            # Only of a model that lacks documents it matters how it came by those that it has.
            if not reason and asked.n_items < bank.n_items:
                reason = limited.get(model, "")
                if in_full and not reason:
                    reason = (
                        f"it has {asked.n_items} of {bank.n_items} documents of {task}; "
                        "`board place` estimates the rest"
                    )
            if reason:
                added.left_out.setdefault(model, reason)
    added.notes += one_line_per_kind(doubts)
