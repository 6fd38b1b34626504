"""What a board's operator should look at: models that answer alike, and items that were known.

*Copies.* Two models whose scores are equal on nearly every item that both have may be one model, or
one made of the other. The bank says how often that happens by chance: a model that errs by itself
is right on an item with probability ``a``, the score that the bank expects of its ability, whatever
the other model scored there. A copy has the other model's score on all items but some; their share
is not known, and ``Beta(1, 19)`` is its prior (one in twenty, say). If the model errs by itself,
the ratio of the two likelihoods exceeds ``1 / p`` with chance ``p`` at most; a likeness is reported
where this chance, over all models compared, is below 1e-6. Models made from one base share errors,
too, and over a thousand items the test finds that. So two models are said to be alike only if they
differ on at most a quarter of the items on which models that err by themselves would. Of two placed
models the answers are compared as well: a model that gives another's answers word for word, on nine
of ten items that one of the two does not get fully right, is said to be that model.

*Known items.* A model that learned the items which are shown most answers these better than its
ability on the others predicts. Of the items that a model was asked, those that were shown before
to more models than the median are compared with the rest: the ability is fitted to the rest, and
the gain is the mean score on the shown items less the score expected at this ability. The gain is
compared with those of the models with full results on the very same items (Student's t), so that
what the bank gets wrong is the same for all.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, stdtr

from ..bank import ItemBank
from ..errors import CcatError
from ..journal import read_journal
from ..methods.curves import Curves, fit_abilities
from ..methods.method import method_of
from ..metrics.scale import Floats
from ..records import Tell
from ..scores import ScoreTable
from ..shown import first_of
from .checking import bank_hashes_of
from .folder import Board, standing
from .ledger import BoardRow, shown_items

#: Chances below which equal scores, and a gain on shown items, are reported.
COPY_CHANCE, KNOWN_CHANCE = 1e-6, 1e-3
#: Gap up to which two scores on [0, 1] are equal.
_EQUAL = 1e-6
#: Chance that a score equals another one by accident, if the other is neither 0 nor 1.
_COINCIDENCE = 0.1
#: A smaller chance is stated as this one: over thousands of items a float would say 0.
_LEAST_CHANCE = 1e-100
#: Least chance of a right and of a wrong answer.
_RARE = 0.02
#: Second parameter of Beta(1, 19), the prior of the share of answers that a copy changed.
_UNCHANGED = 19.0
#: A copy differs on at most this share of the items on which models that err by themselves do.
_MAX_UNEQUAL = 0.25
#: Least number of shown items, and of others, and of models with full results, to test a gain.
_MIN_ITEMS, _MIN_MODELS = 8, 12
#: Letters of an answer that two models do not give by chance.
_LONG = 20
#: Least number of long answers to compare, and least share of them that a copy has word for word.
_MIN_ANSWERS, _SAME_SHARE = 8, 0.9


class PlacedAnswers(NamedTuple):
    """What a placed model answered.

    Attributes
    ----------
    scores : dict of task to ndarray of shape (n_items,)
        On [0, 1] in bank order; NaN where missing.
    texts : dict of (task, doc_id) to str
        Long answers, and "" for those that are fully right.
    """

    scores: dict[str, Floats]
    texts: dict[tuple[str, Any], str]


class Likeness(NamedTuple):
    """A model that scores like a new one.

    Attributes
    ----------
    model : str
    same, items : int
        Number of items with equal scores, and of those that both have.
    expected : float
        Number of items with equal scores if the new model errs by itself.
    chance : float
        At most this, and at least 1e-100, is stated as the chance that a model which errs by itself
        scores as much like any of the models that were compared.
    """

    model: str
    same: int
    items: int
    expected: float
    chance: float

    def __str__(self) -> str:
        return f"{self.model} on {self.same:,} of {self.items:,}"


class PeerScores:
    """Scores of models among which those that score like another one are looked for.

    Parameters
    ----------
    banks : mapping of task to ItemBank
        A task whose method has no item curves (expected scores by ability) tells nothing.
    scores : mapping of model to (mapping of task to ndarray of shape (n_items,))
        On [0, 1] in bank order; NaN where missing.
    """

    def __init__(
        self, banks: Mapping[str, ItemBank], scores: Mapping[str, Mapping[str, Floats]]
    ) -> None:
        self.models = list(scores)
        self._tasks: dict[str, tuple[Curves, Floats]] = {}
        for task, bank in banks.items():
            if method_of(bank).has_curves:
                missing = np.full(bank.n_items, np.nan)
                rows = [scores[model].get(task, missing) for model in self.models]
                table = np.array(rows).reshape(-1, bank.n_items)
                self._tasks[task] = method_of(bank).curves(bank), table

    def like(self, new: Mapping[str, Floats], itself: str | None = None) -> list[Likeness]:
        """Return the models that score like a new one beyond chance, the least likely first.

        If a new model that errs by itself has the scores that it has with chance ``L``, and a copy
        of the peer with ``C = B(1 + u, 19 + e) / B(1, 19)`` (`B` the beta function, `u` and `e` the
        numbers of unequal and equal scores), then ``C / L`` is as large as it is with chance
        ``L / C`` at most (Markov's inequality); over `n` peers, with ``n L / C``.

        Parameters
        ----------
        new : mapping of task to ndarray of shape (n_items,)
            The new model's scores.
        itself : str, optional
            The new model's name, if its scores are among those of `models`.
        """
        # For each peer: the items in common; those with unequal scores; how many of these are
        # expected if the new model errs by itself; and log L.
        n_items, n_unequal, expected_unequal, log_alone = np.zeros((4, len(self.models)))
        for task, (curves, table) in self._tasks.items():
            if task not in new:
                continue
            asked = np.flatnonzero(np.isfinite(new[task]))
            scores, peer_scores = new[task][asked], table[:, asked]
            # As tables of one row, the new model's.
            [right] = curves.expected(fit_abilities(curves, new[task][None]))[:, asked]
            p_differ = _chance_to_differ(np.clip(right, _RARE, 1.0 - _RARE), peer_scores)
            is_unequal = np.abs(peer_scores - scores) > _EQUAL
            common = np.isfinite(peer_scores)
            n_items += common.sum(axis=1)
            n_unequal += is_unequal.sum(axis=1)
            expected_unequal += np.where(common, p_differ, 0.0).sum(axis=1)
            chances = np.where(is_unequal, p_differ, 1.0 - p_differ)
            log_alone += np.log(chances, where=common, out=np.zeros_like(chances)).sum(axis=1)
        peers = np.array([model != itself for model in self.models], dtype=bool)
        n_equal = n_items - n_unequal
        log_copy = betaln(1.0 + n_unequal, _UNCHANGED + n_equal) - betaln(1.0, _UNCHANGED)
        # As many models as are compared have a chance to be alike by accident.
        log_chance = np.log(max(peers.sum(), 1)) - log_copy + log_alone
        # Strong models agree on nearly all items; a copy agrees on those, too, where others err.
        may_be_copy = peers & (n_items > 0) & (n_unequal <= _MAX_UNEQUAL * expected_unequal)
        alike = np.flatnonzero(may_be_copy & (log_chance < math.log(COPY_CHANCE)))
        return [
            Likeness(
                self.models[n],
                same=int(n_equal[n]),
                items=int(n_items[n]),
                expected=float(n_items[n] - expected_unequal[n]),
                chance=max(math.exp(log_chance[n]), _LEAST_CHANCE),
            )
            for n in alike[np.argsort(log_chance[alike], kind="stable")]
        ]


def _chance_to_differ(right: Floats, peer_scores: Floats) -> Floats:
    """Return by peer and item the chance that an unrelated model's score is not the peer's.

    Parameters
    ----------
    right : ndarray of shape (n_items,)
        Expected scores of the unrelated model, taken as its chances to be right.
    peer_scores : ndarray of shape (n_models, n_items)
        Scores on [0, 1].
    """
    is_right, is_wrong = peer_scores >= 1.0 - _EQUAL, peer_scores <= _EQUAL
    return np.where(is_right, 1.0 - right, np.where(is_wrong, right, 1.0 - _COINCIDENCE))


def alike_in_words(likenesses: Sequence[Likeness]) -> str:
    """Say which models a model scores like; "" if there are none.

    Examples
    --------
    >>> alike_in_words([Likeness("a", 99, 100, 62.4, 3e-9), Likeness("b", 98, 100, 62.4, 2e-8)])
    'its scores equal those of a on 99 of 100, b on 98 of 100 documents in common, as an unrelated
    model does on about 62 (chance 3e-09): it may be the same model, or made of it'
    """
    if not likenesses:
        return ""
    closest = likenesses[0]
    return (
        f"its scores equal those of {first_of(likenesses, 3)} documents in common, as an unrelated "
        f"model does on about {closest.expected:,.0f} (chance {closest.chance:.0e}): it may be the "
        "same model, or made of it"
    )


def copies(board: Board, rows: Sequence[BoardRow]) -> dict[str, tuple[str, ...]]:
    """Return for each model of some rows the others that score like it; without those like none.

    A model with full results is a copy if all its scores are another's. A model that was placed has
    scores of some items only, so it is a copy if these are more alike than chance makes them.
    """
    board_scores = _BoardScores.of(board, rows)
    peers = PeerScores(board.banks, board_scores.by_model)
    likely = {
        model: tuple(likeness.model for likeness in likenesses)
        for model, placed in board_scores.answers.items()
        if (likenesses := peers.like(placed.scores, model))
    }
    return {**_equal(board_scores.full), **likely}


def _equal(full: Mapping[str, Mapping[str, Floats]]) -> dict[str, tuple[str, ...]]:
    """Return for each model with full results those whose scores equal its own on every item."""
    groups: dict[frozenset[tuple[str, bytes]], list[str]] = {}
    for model, by_task in full.items():
        # A digest of a thousand models' scores takes less memory than the scores.
        digests = {
            task: hashlib.blake2b(scores.tobytes(), digest_size=16).digest()
            for task, scores in by_task.items()
        }
        groups.setdefault(frozenset(digests.items()), []).append(model)
    return {
        model: tuple(peer for peer in group if peer != model)
        for group in groups.values()
        for model in group
        if len(group) > 1
    }


def same_texts(
    new: Mapping[tuple[str, Any], str], placed: Mapping[str, Mapping[tuple[str, Any], str]]
) -> str:
    """Say which placed model gave a new one's answers that are not fully right; "" if none did.

    Parameters
    ----------
    new : mapping of (task, doc_id) to str
        The new model's long answers, and "" for those that are fully right.
    placed : mapping of model to (mapping of (task, doc_id) to str)
        Those of the placed models.

    Examples
    --------
    >>> texts = {("t", n): f"the answer to question {n} is 7" for n in range(9)}
    >>> same_texts(texts, {"a": texts, "b": {key: text + "!" for key, text in texts.items()}})
    '9 of 9 answers that are not fully right are those of a, word for word: it may be the same
    model'
    """
    for model, texts in placed.items():
        # Where only two answers are likely, all wrong ones are the same text. So items that one of
        # the two models got right count, too: a copy errs on the same items.
        common = {item for item in new.keys() & texts.keys() if new[item] or texts[item]}
        same = sum(new[item] == texts[item] for item in common)
        if len(common) >= _MIN_ANSWERS and same >= _SAME_SHARE * len(common):
            return (
                f"{same} of {len(common)} answers that are not fully right are those of {model}, "
                "word for word: it may be the same model"
            )
    return ""


class Gain(NamedTuple):
    """By how much a model scores more on often-shown items than its other answers predict.

    Attributes
    ----------
    gain : float
        Mean over these items of score less expected score, less the mean of the same over the
        models with full results.
    chance : float
        One-sided p-value, or 1e-100 if that is larger.
    """

    gain: float
    chance: float


def gain_on_shown_items(
    bank: ItemBank, scores: Floats, times_shown: Floats, full_results: Floats
) -> Gain:
    """Test whether a model answers items that were often shown better than the others.

    Parameters
    ----------
    bank : ItemBank
    scores : ndarray of shape (n_items,)
        The model's scores on [0, 1] in bank order; NaN where missing.
    times_shown : ndarray of shape (n_items,)
        How many models each item was shown to before.
    full_results : ndarray of shape (n_models, n_items)
        Scores of models with full results, without gaps. No items were chosen for these models,
        so that none of them had a reason to learn the shown ones.

    Returns
    -------
    Gain
        No gain, with chance 1, where there are too few items or models.
    """
    nothing, asked = Gain(0.0, 1.0), np.isfinite(scores)
    n_models = len(full_results)
    if asked.sum() < 2 * _MIN_ITEMS or n_models < _MIN_MODELS or not method_of(bank).has_curves:
        return nothing
    often = asked & (times_shown > np.median(times_shown[asked]))
    seldom = asked & ~often
    # Early on a board all items were shown about as often, so that hardly any is above the median.
    if min(often.sum(), seldom.sum()) < _MIN_ITEMS:
        return nothing
    curves, table = method_of(bank).curves(bank), np.vstack([scores, full_results])
    # The seldom items say how able a model is; nobody had a reason to learn those.
    expected = curves.expected(fit_abilities(curves, np.where(seldom, table, np.nan)))
    gain, *usual_gains = (table - expected)[:, often].mean(axis=1).tolist()
    beyond = gain - float(np.mean(usual_gains))
    # The standard error of one more gain, less the mean of the usual ones.
    spread = float(np.std(usual_gains, ddof=1)) * math.sqrt(1.0 + 1.0 / n_models)
    chance = float(stdtr(n_models - 1, -beyond / max(spread, 1e-9)))
    return Gain(beyond, max(chance, _LEAST_CHANCE))


def knew_items(
    banks: Mapping[str, ItemBank],
    new: Mapping[str, Floats],
    full_results: Mapping[str, Mapping[str, Floats]],
    times_shown: Mapping[str, Mapping[Any, int]],
) -> str:
    """Say that a model answers often-shown items better than the others; "" if it does not.

    Parameters
    ----------
    banks : mapping of task to ItemBank
    new : mapping of task to ndarray of shape (n_items,)
        The model's scores on [0, 1] in bank order; NaN where missing.
    full_results : mapping of model to (mapping of task to ndarray of shape (n_items,))
    times_shown : mapping of task to (mapping of doc_id to int)
        How many models each item was shown to before.
    """
    for task, scores in new.items():
        times = [times_shown.get(task, {}).get(doc_id, 0) for doc_id in banks[task].doc_ids]
        # A model with gaps has no mean over the items that are shown most.
        complete = [
            by_task[task]
            for by_task in full_results.values()
            if task in by_task and np.isfinite(by_task[task]).all()
        ]
        gain, chance = gain_on_shown_items(
            banks[task], scores, np.array(times, dtype=float), np.array(complete)
        )
        # The more tasks are tested, the more often one looks odd by accident.
        if chance * len(new) < KNOWN_CHANCE:
            return (
                f"it scores {gain:.2g} more on the items of {task} that are shown most than the "
                f"others predict (p {chance:.0e}): it may have known them; its sample is safe from "
                "that"
            )
    return ""


def suspicions(board: Board, models: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return what the operator should look at, in sentences, by each model that it is about.

    Of two models that are alike, the one whose row is the later names the other.

    Parameters
    ----------
    board : Board
    models : collection of str, optional
        Only rows of these; default all that are placed.
    """
    standing_rows = [place.row for place in standing(board).placed]
    board_scores = _BoardScores.of(board, standing_rows)
    scores, answers = board_scores.by_model, board_scores.answers
    banks, rows, sentences = board.banks, board.ledger.rows(), dict[str, list[str]]()
    all_scores = PeerScores(banks, scores)
    # Numbers of their rows in the ledger, from 0.
    line_of = {row.model: rows.index(row) for row in standing_rows}
    for row in standing_rows:
        if models is not None and row.model not in models:
            continue
        new, line = scores.get(row.model, {}), line_of[row.model]
        peers = all_scores.like(new, row.model)
        warnings = [alike_in_words([peer for peer in peers if line_of[peer.model] < line])]
        # Only a placed model's journal has its answers, and it alone was asked chosen items.
        if row.estimated:
            texts = {
                model: placed.texts for model, placed in answers.items() if line_of[model] < line
            }
            warnings.append(same_texts(answers[row.model].texts, texts))
            warnings.append(knew_items(banks, new, board_scores.full, shown_items(rows[:line])))
        if any(warnings):
            sentences[row.model] = [text for text in warnings if text]
    return sentences


class _BoardScores(NamedTuple):
    """The scores of models with full results, and the answers of placed models.

    Attributes
    ----------
    full : dict of model to (dict of task to ndarray of shape (n_items,))
        On [0, 1] in bank order; NaN where missing.
    answers : dict of model to PlacedAnswers
    """

    full: dict[str, dict[str, Floats]]
    answers: dict[str, PlacedAnswers]

    @classmethod
    def of(cls, board: Board, rows: Sequence[BoardRow]) -> _BoardScores:
        """Read what the evidence of some rows holds."""
        full = _full_results(board, [row for row in rows if not row.estimated])
        return cls(full, {row.model: _answers(board, row) for row in rows if row.estimated})

    @property
    def by_model(self) -> dict[str, dict[str, Floats]]:
        """The scores of all models."""
        return {**self.full, **{model: placed.scores for model, placed in self.answers.items()}}


def _full_results(board: Board, rows: Sequence[BoardRow]) -> dict[str, dict[str, Floats]]:
    """Return the scores of models with full results on [0, 1], in the order of the banks."""
    models_of: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for task, task_score in row.tasks.items():
            models_of.setdefault((task, task_score.evidence), set()).add(row.model)
    full_results: dict[str, dict[str, Floats]] = {}
    for (task, file), models in sorted(models_of.items()):
        # The board has dropped the task since.
        if (bank := board.banks.get(task)) is None:
            continue
        try:
            table = ScoreTable.read(board.path / file, partial=True)
        except CcatError:
            continue  # `check` names it
        scores = bank.in_order(table.doc_ids, table.model_scores())
        for model, model_scores in zip(table.models, scores):
            # Files hold models, too, whose rows were replaced since.
            if model in models:
                full_results.setdefault(model, {})[task] = model_scores
    return full_results


def _answers(board: Board, row: BoardRow) -> PlacedAnswers:
    """Return what a placed model answered, by its journals; nothing where one cannot be read."""
    name, answers = row.in_journal or row.model, PlacedAnswers({}, {})
    for file in row.evidence:
        try:
            journal, records = read_journal(board.path / file)
        except CcatError:
            continue
        # Items of a run of one task do not name it.
        first_task = next(iter(bank_hashes_of(journal.header)))
        for record in records:
            if not isinstance(record, Tell) or record.model != name:
                continue
            item, score = record.item, record.score
            # A model knew a document or not: its first answer says so.
            if item.is_repeat:
                continue
            task, doc_id = item.task or first_task, item.doc_id
            bank = board.banks.get(task)
            value = next(iter(score.values()), None) if isinstance(score, dict) else score
            # Else the answer has no score, or the board has dropped its task or item since.
            if bank is not None and isinstance(value, (int, float)) and doc_id in bank.index:
                scores = answers.scores.setdefault(task, np.full(bank.n_items, np.nan))
                scores[bank.index[doc_id]] = value
                text = json.dumps(record.responses)
                # Short wrong answers, such as a letter, are alike without being copied.
                if value == 1.0 or len(text) >= _LONG:
                    answers.texts[task, doc_id] = "" if value == 1.0 else text
    return answers
