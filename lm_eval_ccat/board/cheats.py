"""What a board's operator should look at: models that answer alike, and items that were known.

*Copies.* Two models whose scores are equal on every item that both have may be one model. How
often chance does that follows from the bank: models of these abilities agree on an item of 0/1
scores with probability ``a b + (1 - a)(1 - b)``, ``a`` and ``b`` their expected scores; scores
between 0 and 1 are equal by chance at one item of ten. Only a product of these below 1e-6, over all
models compared, is said. Models that merely resemble one another differ somewhere. Of two placed
models the answers themselves are compared: who gives another's imperfect answers word for word, at
nine items of ten, is said to be it.

*Known items.* A model that learned the items which are shown most answers these better than its
ability on the others predicts. Of the items that a model was asked, those that were shown before
to more models than the median are compared with the rest: the ability is fitted to the rest, and
the mean score beyond it on the shown items is compared with that of every model with full results
on the very same items (Student's t), so that what the bank gets wrong is the same for all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr

from ..bank import ItemBank
from ..errors import CcatError
from ..journal import read_journal
from ..methods.curves import fit_abilities
from ..methods.method import method_of
from ..metrics.scale import Floats
from ..records import Tell
from ..scores import ScoreTable
from ..shown import first_of
from .checking import tasks_of
from .folder import Board, standing
from .ledger import BoardRow, shown_items

#: Chance below which equal scores, and a gain on shown items, are said.
COPY_CHANCE, KNOWN_CHANCE = 1e-6, 1e-3
_COINCIDENCE = 0.1  # chance that two scores between 0 and 1 are equal
_FEWEST = 8  # shown items, and others, from which a gain is tested
_MODELS = 12  # with full results, to compare a gain with


#: Letters of an answer that two models do not give by chance; answers to compare, and the share of
#: them that are the same.
_LONG, _ANSWERS, _SAME = 20, 8, 0.9


class PlacedAnswers(NamedTuple):
    """What a placed model answered.

    Attributes
    ----------
    scores : dict of task to ndarray of shape (n_items,)
        On [0, 1] in bank order; NaN where missing.
    texts : dict of (task, doc_id) to str
        Answers that are long and not perfect.
    """

    scores: dict[str, Floats]
    texts: dict[tuple[str, Any], str]


def equal_chance(bank: ItemBank, first: Floats, second: Floats) -> float:
    """Return the chance that two models score alike on all items that both have.

    Parameters
    ----------
    bank : ItemBank
    first, second : ndarray of shape (n_items,)
        Scores on [0, 1] in bank order; NaN where missing.

    Returns
    -------
    float
        1 where they differ on an item, or the bank's method has no item curves.
    """
    common = np.isfinite(first) & np.isfinite(second)
    if (
        not common.any()
        or (first[common] != second[common]).any()
        or not method_of(bank).has_curves
    ):
        return 1.0
    curves = method_of(bank).curves(bank)
    scores = np.where(common, np.stack([first, second]), np.nan)
    a, b = np.clip(curves.expected(fit_abilities(curves, scores))[:, common], 0.01, 0.99)
    binary = (first[common] == 0.0) | (first[common] == 1.0)
    alike = np.where(binary, a * b + (1.0 - a) * (1.0 - b), _COINCIDENCE)
    return float(np.exp(np.log(alike).sum()))


class Likeness(NamedTuple):
    """A model that scores like a new one on every common item: their number, and the chance."""

    model: str
    items: int
    chance: float


def all_alike(
    banks: Mapping[str, ItemBank],
    new: Mapping[str, Floats],
    known: Mapping[str, Mapping[str, Floats]],
) -> list[Likeness]:
    """Return the known models that score like a new one on every item, beyond chance.

    Parameters
    ----------
    banks : mapping of task to ItemBank
    new : mapping of task to ndarray of shape (n_items,)
        The new model's scores on [0, 1] in bank order; NaN where missing.
    known : mapping of model to (mapping of task to ndarray)
    """
    likenesses = []
    for model, scores in known.items():
        shared = [task for task in new if task in scores]
        if not shared or any(_differ(new[task], scores[task]) for task in shared):
            continue
        chance = math.prod(equal_chance(banks[task], new[task], scores[task]) for task in shared)
        if chance * len(known) < COPY_CHANCE:
            n_items = sum(int(np.isfinite(new[task] + scores[task]).sum()) for task in shared)
            likenesses.append(Likeness(model, n_items, chance * len(known)))
    return likenesses


def alike(
    banks: Mapping[str, ItemBank],
    new: Mapping[str, Floats],
    known: Mapping[str, Mapping[str, Floats]],
) -> str:
    """Say which models `all_alike` returns; "" if there are none."""
    likenesses = all_alike(banks, new, known)
    if not likenesses:
        return ""
    names, counts, chances = zip(*likenesses)
    return (
        f"its scores on all {min(counts):,} documents in common equal those of "
        f"{first_of(names, 3)} (chance {max(chances):.0e}): it may be the same model"
    )


def likely_copies(board: Board, rows: Sequence[BoardRow]) -> dict[str, tuple[str, ...]]:
    """Return the models whose scores a placed model's equal beyond chance, by placed model."""
    full, answers = _scores(board, rows)
    scores = {**full, **{model: placed.scores for model, placed in answers.items()}}
    return {
        model: tuple(likeness.model for likeness in likenesses)
        for model, placed in answers.items()
        if (
            likenesses := all_alike(
                board.banks,
                placed.scores,
                {name: by_task for name, by_task in scores.items() if name != model},
            )
        )
    }


def same_texts(
    new: Mapping[tuple[str, Any], str], placed: Mapping[str, Mapping[tuple[str, Any], str]]
) -> str:
    """Say which placed models gave a new one's imperfect answers word for word; else "".

    Parameters
    ----------
    new : mapping of (task, doc_id) to str
        As `PlacedAnswers` has them.
    placed : mapping of model to (mapping of (task, doc_id) to str)

    Examples
    --------
    >>> texts = {("t", n): f"the answer to question {n} is 7" for n in range(9)}
    >>> same_texts(texts, {"a": texts, "b": {key: text + "!" for key, text in texts.items()}})
    '9 of 9 imperfect answers are those of a, word for word: it may be the same model'
    """
    for model, texts in placed.items():
        common = new.keys() & texts.keys()
        same = sum(new[item] == texts[item] for item in common)
        if len(common) >= _ANSWERS and same >= _SAME * len(common):
            return (
                f"{same} of {len(common)} imperfect answers are those of {model}, word for word: "
                "it may be the same model"
            )
    return ""


def _differ(first: Floats, second: Floats) -> bool:
    common = np.isfinite(first) & np.isfinite(second)
    return not common.any() or bool((first[common] != second[common]).any())


def known_items(
    bank: ItemBank, scores: Floats, times: Floats, known: Floats
) -> tuple[float, float]:
    """Test whether a model answers items that were often shown better than the others.

    Parameters
    ----------
    bank : ItemBank
    scores : ndarray of shape (n_items,)
        The model's scores on [0, 1] in bank order; NaN where missing.
    times : ndarray of shape (n_items,)
        How many models each item was shown to before.
    known : ndarray of shape (n_models, n_items)
        Full results of models that nobody asked by the bank.

    Returns
    -------
    gain, p : float
        Mean score of the items shown more than the median beyond what the others predict, less that
        of the known models, and its one-sided p-value; (0, 1) where there are too few items or
        models.
    """
    asked = np.isfinite(scores)
    if asked.sum() < 2 * _FEWEST or len(known) < _MODELS or not method_of(bank).has_curves:
        return 0.0, 1.0
    often = asked & (times > np.median(times[asked]))
    seldom = asked & ~often
    if min(often.sum(), seldom.sum()) < _FEWEST:
        return 0.0, 1.0
    curves, together = method_of(bank).curves(bank), np.vstack([scores, known])
    mu = curves.expected(fit_abilities(curves, np.where(seldom, together, np.nan)))
    gain, *usual_gains = (together - mu)[:, often].mean(axis=1).tolist()
    beyond = gain - float(np.mean(usual_gains))
    spread = float(np.std(usual_gains, ddof=1)) * math.sqrt(1.0 + 1.0 / len(usual_gains))
    return beyond, float(stdtr(len(usual_gains) - 1, -beyond / max(spread, 1e-9)))


def knew(
    banks: Mapping[str, ItemBank],
    new: Mapping[str, Floats],
    known: Mapping[str, Mapping[str, Floats]],
    times: Mapping[str, Mapping[Any, int]],
) -> str:
    """Say that a model answers often-shown items better than the others; "" if it does not.

    Parameters
    ----------
    banks, new, known : mapping
        As `alike` takes them.
    times : mapping of task to (mapping of doc_id to int)
        How many models each item was shown to before.
    """
    for task, scores in new.items():
        times_shown = np.array(
            [times.get(task, {}).get(doc_id, 0) for doc_id in banks[task].doc_ids], dtype=float
        )
        full = [
            by_task[task]
            for by_task in known.values()
            if task in by_task and np.isfinite(by_task[task]).all()
        ]
        gain, chance = known_items(banks[task], scores, times_shown, np.array(full))
        if chance * len(new) < KNOWN_CHANCE:
            return (
                f"it scores {gain:.2g} more on the items of {task} that are shown most than the "
                f"others predict (p {chance:.0e}): it may have known them; its sample is safe from "
                "that"
            )
    return ""


def suspicions(board: Board, models: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return what should be looked at, by model.

    Parameters
    ----------
    board : Board
    models : collection of str, optional
        Only rows of these; default all that are placed.
    """
    standing_rows = [place.row for place in standing(board).placed]
    full, answers = _scores(board, standing_rows)
    scores = {**full, **{model: answered.scores for model, answered in answers.items()}}
    banks, rows, out = board.banks, board.ledger.rows(), dict[str, list[str]]()
    for row in standing_rows:
        if models is not None and row.model not in models:
            continue
        new = scores.get(row.model, {})
        compared = {model: theirs for model, theirs in scores.items() if model != row.model}
        warnings = [alike(banks, new, compared)]
        if row.estimated:
            texts = {model: placed.texts for model, placed in answers.items() if model != row.model}
            warnings.append(same_texts(answers[row.model].texts, texts))
            warnings.append(knew(banks, new, full, shown_items(rows[: rows.index(row)])))
        if any(warnings):
            out[row.model] = [text for text in warnings if text]
    return out


def _scores(
    board: Board, rows: Sequence[BoardRow]
) -> tuple[dict[str, dict[str, Floats]], dict[str, PlacedAnswers]]:
    """Return the scores of models with full results, and the answers of the others."""
    full = _full_results(board, [row for row in rows if not row.estimated])
    return full, {row.model: _answers(board, row) for row in rows if row.estimated}


def _full_results(board: Board, rows: Sequence[BoardRow]) -> dict[str, dict[str, Floats]]:
    """Return the scores of models with full results on [0, 1], in the order of the banks."""
    evidence = {
        (task, task_score.evidence) for row in rows for task, task_score in row.tasks.items()
    }
    current = {
        (row.model, task, task_score.evidence)
        for row in rows
        for task, task_score in row.tasks.items()
    }
    out: dict[str, dict[str, Floats]] = {}
    for task, file in sorted(evidence):
        bank = board.banks.get(task)
        try:
            table = ScoreTable.read(board.path / file, partial=True) if bank else None
        except CcatError:
            continue  # `check` names it
        if bank is None or table is None:
            continue
        for model, scores in zip(table.models, table.model_scores()):
            if (model, task, file) in current:
                out.setdefault(model, {})[task] = _in_bank_order(bank, table.doc_ids, scores)
    return out


def _answers(board: Board, row: BoardRow) -> PlacedAnswers:
    """Return what a placed model answered, by its journals; nothing where one cannot be read."""
    name, out = row.in_journal or row.model, PlacedAnswers({}, {})
    for file in row.evidence:
        try:
            journal, records = read_journal(board.path / file)
        except CcatError:
            continue
        only = next(iter(tasks_of(journal.header)))
        for record in records:
            if not isinstance(record, Tell) or record.model != name:
                continue
            (task, doc_id, *repeat), score = record.item, record.score
            if repeat:  # a model knew a document or not: its first answer says so
                continue
            task = task or only
            bank = board.banks.get(task)
            value = next(iter(score.values()), None) if isinstance(score, dict) else score
            if bank is not None and isinstance(value, (int, float)) and doc_id in bank.index:
                of_task = out.scores.setdefault(task, np.full(bank.n_items, np.nan))
                of_task[bank.index[doc_id]] = value
                text = json.dumps(record.responses)
                if value < 1.0 and len(text) >= _LONG:
                    out.texts[task, doc_id] = text
    return out


def _in_bank_order(bank: ItemBank, doc_ids: Sequence[Any], scores: Floats) -> Floats:
    """Return scores of some documents in the order of a bank's items; NaN where missing."""
    out = np.full(bank.n_items, np.nan)
    for doc_id, score in zip(doc_ids, scores):
        if (i := bank.index.get(doc_id)) is not None:
            out[i] = score
    return out
