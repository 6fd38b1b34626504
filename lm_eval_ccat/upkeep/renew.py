"""A benchmark changes: items are retired, documents corrected and added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank.bank import ItemBank
from ..bank.observations import Observation
from ..bank.suite import SuiteBank
from ..errors import BankError, BankMismatchError, UsageError
from ..scores.table import ScoreTable
from ..wording import plural, some

#: Models with a score on a new document from which on the bank takes it in.
FEWEST = 5
#: Why an item was retired that a person named.
BY_HAND = "by hand"


def to_retire(suite: SuiteBank, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Which items leave each task's banks, as ``--retire [TASK=]IDS`` names them.

    Parameters
    ----------
    suite : SuiteBank
    texts : sequence of str
        Such as ``"17,23"``, or ``"mmlu_law=17,23"`` where there are several tasks.

    Raises
    ------
    UsageError
        No such task, none is named where there are several, or a doc_id is not of the bank's type.

    Examples
    --------
    >>> to_retire(SuiteBank({"t": ItemBank.blank(range(4))}), ["1,2"])
    {'t': [1, 2]}
    """
    retired: dict[str, list[Any]] = {task: [] for task in suite}
    for text in texts:
        task, equals, ids = text.rpartition("=")
        if not equals and len(suite) > 1:
            raise UsageError(f"--retire {text}: say of which task, as TASK={text}")
        task = task if equals else next(iter(suite))
        if task not in suite:
            raise UsageError(f"--retire {text}: the suite has no task {task!r}; "
                             f"it has {', '.join(suite)}")  # fmt: skip
        kind = type(next(iter(suite[task].values())).doc_ids[0])
        try:
            retired[task] += [kind(d.strip()) for d in ids.split(",") if d.strip()]
        except ValueError:
            raise UsageError(f"--retire {text}: the bank's doc_ids are numbers") from None
    return retired


def retire(bank: ItemBank, doc_ids: Iterable[Any], why: str) -> ItemBank:
    """A bank without some of its items: its estimates are of the mean over the others.

    Parameters
    ----------
    bank : ItemBank
    doc_ids : iterable
    why : str
        For its provenance.

    Raises
    ------
    UsageError
        The bank has no such item.
    BankError
        Nothing would be left.

    Examples
    --------
    >>> retire(ItemBank.blank(range(4)), [1, 2], "leaked").doc_ids
    (0, 3)
    """
    gone = dict.fromkeys(doc_ids)
    unknown = [d for d in gone if d not in bank.index]
    if unknown:
        raise UsageError(f"the bank has no item with doc_id {unknown[0]!r} to retire")
    if not gone:
        return bank
    stay = np.array([d not in gone for d in bank.doc_ids], dtype=bool)
    if not (stay & bank.kept).any():
        raise BankError("no item of the bank would be left; calibrate a new one")
    at = np.cumsum(stay) - 1
    record = {"items": list(gone), "why": why, "previous": bank.sha256}
    hashes = bank.doc_hashes
    return replace(
        bank,
        doc_ids=tuple(d for d, s in zip(bank.doc_ids, stay) if s),
        kept=bank.kept[stay],
        parameters={name: values[stay] for name, values in bank.parameters.items()},
        doc_hashes=None if hashes is None else tuple(h for h, s in zip(hashes, stay) if s),
        observations=tuple(_remaining(o, stay, at) for o in bank.observations),
        provenance={
            **bank.provenance,
            "retired": [*bank.provenance.get("retired", []), record],
        },
    )


def next_version(bank: ItemBank, table: ScoreTable) -> tuple[ItemBank, list[str]]:
    """The bank for a new version of its task, as new results show its documents.

    Documents that are gone or changed are retired. What else differs in settings is none of this.

    Returns
    -------
    bank : ItemBank
    notes : list of str

    Raises
    ------
    BankMismatchError
        Without document hashes nobody knows which documents are the same.
    """
    if bank.doc_hashes is None or table.doc_hashes is None:
        raise BankMismatchError(
            "a new version of the task needs document hashes in the bank and in the new scores, to "
            "tell which documents are the same; calibrate a new bank"
        )
    differing = bank.compare(table.doc_ids, table.doc_hashes)
    # Runs of chosen items say nothing of documents that they did not ask.
    gone = () if set(table.chosen) == {"adaptive"} else differing.missing
    notes = [
        f"{plural(len(items), 'document')} {what} (doc_id {some(items)}), retired"
        for what, items in (("gone", gone), ("changed", differing.changed))
        if items
    ]
    renewed = retire(bank, (*gone, *differing.changed), "a new version of the task")
    settings = {**renewed.settings}
    if "task_version" in table.settings:
        settings["task_version"] = table.settings["task_version"]
    return replace(renewed, settings=settings), notes


def new_documents(bank: ItemBank, table: ScoreTable) -> tuple[NDArray[np.intp], list[str]]:
    """Documents that the bank lacks and enough models have a score on.

    What was retired by hand (because it leaked, say) is none of them.

    Returns
    -------
    taken : ndarray of int
        Positions in the table.
    notes : list of str
        How many they are, and how many others there are.
    """
    gone = {
        d for r in bank.provenance.get("retired", []) if r["why"] == BY_HAND for d in r["items"]
    }
    new = np.array([d not in bank.index and d not in gone for d in table.doc_ids], dtype=bool)
    enough = new & (np.isfinite(table.model_scores()).sum(axis=0) >= FEWEST)
    left, taken = int((new & ~enough).sum()), np.flatnonzero(enough)
    notes = []
    if left:
        notes.append(f"{plural(left, 'new document')} left out: fewer than {FEWEST} models have a "
                     "score on them")  # fmt: skip
    if len(taken):
        notes.append(f"{plural(len(taken), 'new document')} learned from "
                     f"{plural(len(table.models), 'model')}")  # fmt: skip
    return taken, notes


def _remaining(o: Observation, stay: NDArray[np.bool_], at: NDArray[np.intp]) -> Observation:
    seen = stay[o.items]
    whole = o.chosen == "all"
    return replace(
        o,
        items=np.arange(int(stay.sum())) if whole else at[o.items[seen]],
        scores=o.scores[seen],
        probabilities=None if o.probabilities is None else o.probabilities[seen],
    )
