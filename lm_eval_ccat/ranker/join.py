"""The running test of a bank's join: whether it says anything about the documents that are asked.

A bank's item curves say what score is expected on each item of a model of any ability. A bank that
was joined to the wrong items (another order of the documents, say) converges as well as a right
one, and ranks noise. The test needs no hashes: by what the bank expects of models that are as able
as these, items are easy or hard, and the scores seen must show it. Over the ``n`` distinct
items seen, ``r`` is the correlation of an item's expected score with its score, both as ranks among
the items of one model, in the mean over the models that have the item. Fisher's ``z = atanh(r)
sqrt(n - 3)`` has mean 0 for a bank that says nothing, and ``e = atanh(c p) sqrt(n - 3)`` for one
that says what it claims: ``p`` is the correlation that its expectations and their noise promise,
``c`` (`PROMISE`) allows for models unlike those that calibrated it. The bank is set aside once the
scores are ``odds`` (`ODDS`) times likelier if it says nothing,

    e^2 / 2 - z e > log(odds),

and trusted, with no further test, once they are as much likelier with it. A likelihood ratio may be
looked at after every answer: a bank that keeps its promise is set aside in at most one ranking of
``odds``, whatever the number of looks. One model alone may be the odd one, so it only gets a
finding; two or more set a bank aside.

Full results whose documents no hash verifies are compared likewise, once (`fault_of`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ..bank import ItemBank
from ..methods.curves import Curves, fit_abilities
from ..methods.method import method_of
from ..methods.policy import Mask
from ..metrics.scale import Floats
from ..shown import first_of
from .contents import Contents, Task

#: The correlation that is asked of a bank, as a share of the one that it promises.
PROMISE = 0.7
#: How much likelier the scores must be without the bank before it is set aside.
ODDS = 100.0
#: From this z on, scores do go with what is expected of them, be it less than promised.
RELATED = 4.0
#: `RELATED` for one of many models that are tested one by one, of which some are weak by chance.
HARDLY_RELATED = 2.0
#: What settles a doubt about which documents scores are of.
VERIFIED = "results with hashes of documents (doc_hash), as the harness logs them, are not doubted"
#: Items before the first test. After so many items testing ends, and an undecided bank stays.
FEWEST, MOST = 20, 400
_STEP = 5  # distinct items between two tests
_NARROW = 1e-9  # a spread that says nothing

Call = TypeVar("Call", bound=Callable[..., Any])


class Join(NamedTuple):
    """What scores say about a bank.

    Attributes
    ----------
    n, models : int
        Numbers of items and of models.
    correlation : float
        Correlation of scores with expected ones, as ranks among the items of each model.
    promised : float
        The correlation that the bank promises.
    """

    n: int
    models: int
    correlation: float
    promised: float

    @property
    def evidence(self) -> float:
        """Logarithm of how much likelier the scores are if the bank says nothing."""
        if self.n <= 3:
            return 0.0
        z, e = self._z(self.correlation), self._z(PROMISE * self.promised)
        return e * e / 2.0 - z * e

    def unrelated(self, related: float) -> bool:
        """Whether full results say that the bank is of other documents.

        They do not if z is at least `related`: the scores of an unusual model then go with what is
        expected, though less than promised.
        """
        return self.evidence > math.log(ODDS) and self._z(self.correlation) < related

    def _z(self, correlation: float) -> float:
        return math.atanh(min(max(correlation, -0.99), 0.99)) * math.sqrt(self.n - 3)

    def __str__(self) -> str:
        return (
            f"over {self.n} items scores correlate with what it expects at {self.correlation:.2f}, "
            f"where it promises {self.promised:.2f}"
        )


def join_of(curves: Curves, scores: Floats) -> Join:
    """Compare scores with what a bank expects of models that are as able as these.

    Parameters
    ----------
    curves : Curves
        The bank's item curves.
    scores : ndarray of shape (n_models, n_items)
        On [0, 1]; NaN where missing.

    Examples
    --------
    >>> from lm_eval_ccat.methods.curves import STRAIGHT
    >>> ease = np.column_stack([np.linspace(-2.0, 2.0, 40), np.ones(40)])
    >>> curves = Curves(ease, np.full(40, 0.1), STRAIGHT, centre=0.0)
    >>> scores = curves.expected(np.array([-0.5, 0.5]))
    >>> right, wrong = map(join_of, [curves] * 2, (scores, scores[:, ::-1]))
    >>> round(right.correlation, 2), right.evidence < 0.0 < wrong.evidence
    (1.0, True)
    """
    known = np.isfinite(scores)
    models, items = known.any(axis=1), known.any(axis=0)
    known, scores = known[np.ix_(models, items)], scores[np.ix_(models, items)]
    n = int(items.sum())
    # Fisher's z takes more than three items.
    if n <= 3:
        return Join(n, len(known), 0.0, 0.0)
    shared_curves = replace(
        curves, coefficients=curves.coefficients[items], noise=curves.noise[items]
    )
    mu = shared_curves.expected(fit_abilities(shared_curves, scores))
    answers = known.sum(axis=0)
    # Ranks are among one model's items. Ranks among all scores would show which model had an item.
    ease, ranks_of_ease, ranks_of_scores = (
        _by_item(values, known) for values in (mu, _ranks(mu, known), _ranks(scores, known))
    )
    # Where all items are alike in one of these, there is no correlation.
    if min(map(np.ptp, (ease, ranks_of_ease, ranks_of_scores))) < _NARROW:
        return Join(n, len(known), 0.0, 0.0)
    correlation = float(np.corrcoef(ranks_of_ease, ranks_of_scores)[0, 1])
    # Noise of the mean over models makes the promised correlation smaller than 1.
    noise = np.where(known, shared_curves.noise * mu * (1.0 - mu), 0.0).sum(axis=0) / answers**2
    spread = float(ease.var())
    return Join(n, len(known), correlation, math.sqrt(spread / (spread + float(noise.mean()))))


class Fault(NamedTuple):
    """Why scores are not of a bank's items, in words ("" if nothing says so), and by what."""

    words: str
    join: Join


def fault_of(bank: ItemBank, scores: Floats, related: float = RELATED) -> Fault:
    """Say why full results are not of a bank's items in its direction; "" where nothing says so.

    Parameters
    ----------
    bank : ItemBank
        A blank bank expects no scores, so that no fault is found.
    scores : ndarray of shape (n_models, n_items)
        In bank order, on [0, 1]; NaN where missing.
    related : float, optional
        From this z on, scores do go with what is expected of them (`Join.unrelated`).

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, calibrate
    >>> ease, skill = np.linspace(-3.0, 3.0, 60), np.linspace(-1.0, 1.0, 9)
    >>> scores = 1.0 / (1.0 + np.exp(-skill[:, None] - ease))
    >>> bank = calibrate(ScoreTable.from_arrays(scores[:6], list("abcdef")), "paper")
    >>> permuted = scores[:, np.random.default_rng(0).permutation(60)]
    >>> [fault_of(bank, rows[6:]).words[:30] for rows in (scores, 1.0 - scores, permuted)]
    ['', 'the scores run in the other di', 'the bank says nothing about th']
    """
    method = method_of(bank)
    if not method.has_curves:
        return Fault("", Join(0, len(scores), 0.0, 0.0))
    curves, scores = method.curves(bank), np.where(bank.kept, scores, np.nan)
    join, trusted = join_of(curves, scores), -math.log(ODDS)
    # Neighbouring documents may be alike, so scores that are shifted by one document can pass the
    # test below: see first whether they fit better if they are shifted.
    for step, place in ((1, "after"), (-1, "before")):
        moved = join_of(curves, np.where(bank.kept, np.roll(scores, step, axis=1), np.nan))
        # The difference of two independent atanh(r) has the variance 2 / (n - 3).
        limit = RELATED * math.sqrt(2.0 / max(min(join.n, moved.n) - 3, 1))
        better, as_is = (math.atanh(np.clip(way.correlation, -0.99, 0.99)) for way in (moved, join))
        if better - as_is > limit and moved.evidence < trusted:
            return Fault(
                f"the scores are joined to the wrong documents: as scores of the documents {place} "
                f"theirs, {moved}, as they stand, at {join.correlation:.2f}",
                join,
            )
    if join.evidence < trusted:
        return Fault("", join)
    turned = join_of(curves, 1.0 - scores)
    if turned.evidence < trusted:
        ends = f"{sum(bank.scale.ends):g}"
        return Fault(
            f"the scores run in the other direction than the bank's (turned, {turned}): state "
            f"{ends} - score in their place",
            join,
        )
    if join.unrelated(related):
        return Fault(
            f"the bank says nothing about these documents: {join}; it or the scores are joined to "
            "other documents (another order, another split)",
            join,
        )
    return Fault("", join)


def _ranks(values: Floats, known: Mask) -> Floats:
    """Return the rank of each value among its model's, from 0 to 1; equal ones share theirs."""
    ranks = np.zeros_like(values)
    for row, of_model, mask in zip(ranks, values, known):
        _, place, counts = np.unique(of_model[mask], return_inverse=True, return_counts=True)
        row[mask] = ((np.cumsum(counts) - 0.5 * counts) / mask.sum())[place]
    return ranks


def _by_item(values: Floats, known: Mask) -> Floats:
    """Return, by item, the mean of values less their model's mean; shape (n_items,)."""
    mean = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)
    centred = np.where(known, values - mean[:, None], 0.0)
    return np.asarray(centred.sum(axis=0) / known.sum(axis=0))


class _BankUnderTest:
    """One task's bank under test, by its leading outcome.

    Attributes
    ----------
    name : str
    undecided : bool
        Whether the bank is neither trusted yet, nor set aside.
    """

    def __init__(self, task: Task) -> None:
        self._state = task.leader
        bank = self._state.outcome.bank
        self.name = task.name or bank.task or "the task"
        method = method_of(bank)
        self.undecided, self._method, self._bank = method.has_curves, method, bank
        # Distinct items with a score at which the next test is due.
        self._next_test = FEWEST

    def failed_test(self) -> Join | None:
        """Take a test if one is due; return it if the bank is to be set aside by it, else None."""
        if len(self._state.scored) < self._next_test:
            return None
        size = self._bank.n_items
        # Of repeats, the first answer to an item.
        scores = np.full((len(self._state.scores), size), np.nan)
        for row, of_model in zip(scores, self._state.scores):
            first = [item for item in of_model if item < size]
            row[first] = [of_model[item] for item in first]
        n = int(np.isfinite(scores).any(axis=0).sum())
        if n < self._next_test:
            return None
        self._next_test = n + _STEP
        join = join_of(self._method.curves(self._bank), scores)
        self.undecided = join.evidence > -math.log(ODDS) and n < MOST
        return join if join.evidence > math.log(ODDS) else None


class JoinTests:
    """Tests the banks of a ranking while it runs, and can begin the ranking again without them.

    Banks of several methods cannot be mixed: if one proves wrong, the ranking goes on without any.

    Parameters
    ----------
    contents : Contents
    arguments : mapping
        Those with which the ranker began, without options of the method.

    Attributes
    ----------
    findings : list of str
        Why banks were set aside; each completes a sentence that begins with a model's name.
    """

    def __init__(self, contents: Contents, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._tested = [bank for bank in map(_BankUnderTest, contents.tasks) if bank.undecided]
        self.findings: list[str] = []

    def note(self, ranker: Any, call: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Record a call on the ranker; if a bank proves wrong by it, begin again without banks."""
        if not self._tested:
            return
        self._calls.append((call, args, named))
        # Only scores tell something about a bank.
        if call != "tell":
            return
        wrong = {bank.name: join for bank in self._tested if (join := bank.failed_test())}
        self._tested = [] if wrong else [bank for bank in self._tested if bank.undecided]
        if wrong:
            names, join = first_of(list(wrong), 3), next(iter(wrong.values()))
            # Several models set a bank aside. The caller keeps its ranker, whose state becomes that
            # of a ranker which began without banks.
            if join.models > 1:
                vars(ranker).update(vars(self._begun_again(type(ranker))))
                finding = f"is ranked without the bank of {names}, which says nothing about its"
                ranker.join.findings.append(f"{finding} documents: {join}")
            # A single model may be the odd one.
            else:
                finding = f"and the bank of {names} do not fit, or it is joined to other documents"
                self.findings.append(f"{finding}: {join}")
        if not self._tested:
            self._calls.clear()

    def _begun_again(self, ranker: Callable[..., Any]) -> Any:
        """Return a ranker of class `ranker` that began without banks and got the same calls.

        Items that were drawn by a wrong bank are no draws of a ranking without it. They count as
        chosen, and count for pairs once the new ranking's sequence reaches them.
        """
        fresh = ranker(**{**self._arguments, "bank": _blank(self._arguments["bank"])})
        for call, args, named in self._calls:
            getattr(fresh, call)(*args, **named)
        return fresh


def remembered(call: Call) -> Call:
    """Make a ranker's method note each call that succeeds, for `JoinTests`."""

    @wraps(call)
    def noted(ranker: Any, *args: Any, **named: Any) -> Any:
        answer = call(ranker, *args, **named)
        ranker.join.note(ranker, call.__name__, args, named)
        return answer

    return cast(Call, noted)


def _blank(banks: Any) -> Any:
    """Return blank banks of the same items, in the form in which a ranker takes them."""
    if isinstance(banks, Mapping):
        return {name: _blank(bank) for name, bank in banks.items()}
    if not isinstance(banks, ItemBank):
        return [replace(outcome, bank=_blank(outcome.bank)) for outcome in banks]
    return ItemBank.blank(
        banks.doc_ids,
        task=banks.task,
        metric=banks.metric,
        filter=banks.filter,
        scale=banks.scale,
        doc_hashes=banks.doc_hashes,
        settings=banks.settings,
    )
