"""`Ranker`: several adaptive tests under one budget, by ask and tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import __version__
from ..bank import ItemBank
from ..errors import ScaleError, UsageError
from ..methods.policy import DECIDED, EQUIVALENT, Choice, Differences
from ..scores.table import ScoreTable
from .arguments import check_arguments, make_policy, units_array
from .audit import AuditResult, audit, scored
from .known import KnownModels
from .result import Ranking, separated_pairs, signature
from .seat import Seat
from .ties import tie_groups
from .turns import Turns


class Ranker(Turns):
    """Decide which model is better with few items, asking for what tells most.

    The ranker does no I/O and calls no model: a loop asks it for (model, item) pairs, gets them
    scored somehow, and tells it. Its state is a pure function of its arguments and the sequence
    of calls, so a journal of the calls rebuilds it.

    Parameters
    ----------
    bank : ItemBank
        Calibrated items; its method decides how the ranking works.
    models : mapping of str to float
        Price of one unit of each model, at least 0; only ratios matter for the allocation.
    units : mapping of doc_id to float, or array_like of shape (n_items,), optional
        Size of each item (tokens, say), in bank order if an array; default 1 each.
    confidence : float, optional
        Two-sided: a pair is decided when P(a better) leaves ``[(1-c)/2, 1-(1-c)/2]``.
    warmup : int, optional
        Items every model gets before anything is compared.
    budget : float, optional
        Most that may be spent, as the sum of price x units; default no limit. What is in flight
        counts as spent.
    max_items : int, optional
        Most items per model; the default is the method's.
    seed : int, optional
        Seed of a method that draws at random.
    target_se : float, optional
        Keep testing a model until the standard error of its estimate, on [0, 1], is at most
        this, also when its place is decided. With a single model this is the stopping rule.
    stop_when_decided : bool, optional
        If false, spend the whole budget (or all items) instead of stopping once all is decided.
    audit : float, optional
        Share of each model's items, in [0, 1), that is drawn at random instead of selected; from
        them `result` reports an estimate that holds whatever the response model gets wrong.
    exposure : int, optional
        Draw each item at random (by `seed`) among this many most informative ones, so that no
        few items are asked of everyone; default 1, always the most informative.
    known : mapping of str to float, or ScoreTable, optional
        Models with full results: their full-benchmark means on [0, 1], or their scores. They are
        fixed points of the ranking and are never asked; a new model is tested until it is
        separated from its neighbours among them, by default on at most half the items.
    min_difference : float, optional
        In the metric's own unit: models whose difference is surely smaller are called equivalent,
        and their pair holds nothing open. Default 0: no pair is.
    familywise : bool, optional
        Whether `confidence` is that of all pairs together instead of each by itself.
    **options
        Options of the method (``information="full"`` of "paper", for instance).

    Raises
    ------
    UsageError
        An argument is out of range, or units do not fit the bank.

    Examples
    --------
    >>> import numpy as np
    >>> from lm_eval_ccat import Ranker, ScoreTable, calibrate
    >>> rng = np.random.default_rng(0)
    >>> skill, ease = np.linspace(-1, 1, 8)[:, None], rng.normal(size=40)[None]
    >>> scores = 1 / (1 + np.exp(-skill - ease + 0.1 * rng.normal(size=(8, 40))))
    >>> table = ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(8)])
    >>> bank = calibrate(table.without(["m0", "m7"]), method="paper")
    >>> ranker = Ranker(bank, models={"m0": 1.0, "m7": 1.0})
    >>> while not ranker.done:
    ...     for model, item in ranker.ask():
    ...         ranker.tell(model, item, table.select([model]).unit[0, item])
    >>> ranker.result().in_words()
    'm7 > m0'
    """

    def __init__(
        self,
        bank: ItemBank,
        models: Mapping[str, float],
        units: Mapping[Any, float] | ArrayLike | None = None,
        confidence: float = 0.95,
        warmup: int = 10,
        budget: float | None = None,
        max_items: int | None = None,
        seed: int = 0,
        *,
        target_se: float | None = None,
        stop_when_decided: bool = True,
        audit: float = 0.0,
        exposure: int = 1,
        known: Mapping[str, float] | ScoreTable | None = None,
        min_difference: float = 0.0,
        familywise: bool = False,
        **options: Any,
    ) -> None:
        check_arguments(models, confidence, warmup, budget, max_items, target_se)
        self.bank = bank
        self.confidence = float(confidence)
        self.budget = math.inf if budget is None else float(budget)
        self.seed = int(seed)
        self._target_se = target_se
        self._stop_when_decided = stop_when_decided
        self._audit = float(audit)
        if not 0.0 <= self._audit < 1.0:
            raise UsageError(f"audit {audit!r} is not a share in [0, 1)")
        if not 0.0 <= min_difference < math.inf:
            raise UsageError(f"min_difference {min_difference!r} is not a number of at least 0")
        self._min_difference = float(min_difference) / bank.scale.span
        self._given_difference = min_difference
        self._familywise = bool(familywise)
        if exposure < 1:
            raise UsageError(f"exposure {exposure!r} is below 1")
        self._exposure = int(exposure)
        self._units = units_array(bank, units)
        self._seats = [Seat(n, float(p), bank.kept.copy()) for n, p in models.items()]
        self._position = {s.name: j for j, s in enumerate(self._seats)}
        n_kept = int(bank.kept.sum())
        self._warmup = min(int(warmup), n_kept)
        self._policy = make_policy(bank, len(self._seats), self.seed, options)
        self._known = (
            None if known is None else KnownModels.of(known, bank, self._policy, list(models))
        )
        cap = self._policy.item_cap(n_kept) if max_items is None else max_items
        if known is not None and max_items is None and target_se is None:
            cap = min(cap, max(n_kept // 2, 1))  # who is not told apart by then is called tied
        self._cap = min(cap, n_kept)
        self._max_items = max_items
        self._options = options
        self._stopped: str | None = None
        self._cached_candidates: list[int] | None = None

    # -- the loop -----------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is in flight and nothing more would be asked."""
        return not any(s.pending for s in self._seats) and not self._candidates()

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """Pairs asked for and not yet told, failed or released."""
        ids = self.bank.doc_ids
        return {(s.name, ids[i]) for s in self._seats for i in s.pending}

    def ask(self, n: int = 1, model: str | None = None) -> list[tuple[str, Any]]:
        """Ask which items to run next.

        Parameters
        ----------
        n : int, optional
            At most this many pairs.
        model : str, optional
            Only items of this model.

        Returns
        -------
        list of (str, doc_id)
            Empty while all that is left is in flight, and when the ranking is done.
        """
        only = None if model is None else self._seat(model)
        asked: list[tuple[str, Any]] = []
        while len(asked) < n:
            candidates = self._candidates() if only is None else self._candidate_alone(only)
            if not candidates:
                break
            j = self._choose(candidates)
            seat = self._seats[j]
            price = self._price(seat) * self._units
            choice = self._audited(j, price) or self._select(j, price)
            self._place(j, choice)
            asked.append((seat.name, self.bank.doc_ids[choice.item]))
        return asked

    def impose(self, pairs: Iterable[tuple[str, Any, float | None]]) -> None:
        """Take pairs as asked, in place of `ask`: what a journal recorded, whoever selected it.

        Parameters
        ----------
        pairs : iterable of (str, doc_id, float or None)
            Model, item, and the probability of the draw (None: the item was chosen).

        Raises
        ------
        UsageError
            Unknown model or item, or one that was asked before.
        """
        for model, item, probability in pairs:
            seat, i = self._seat(model), self._item(item)
            if not seat.available[i]:
                raise UsageError(f"model {model!r} cannot be asked doc_id {item!r} again")
            self._place(self._position[model], Choice(i, probability))

    def probability(self, model: str, item: Any) -> float | None:
        """Of the draw that asked `item` of `model`; None if it was chosen, or never asked."""
        return self._seat(model).probability.get(self._item(item))

    def audit_draw(self, model: str, item: Any) -> float | None:
        """Probability of `item` if it is what the audit draws for `model` now; else None.

        For journals of versions that did not record the probability of a draw.
        """
        seat = self._seat(model)
        choice = self._audited(self._position[model], self._price(seat) * self._units)
        return choice.probability if choice and choice.item == self._item(item) else None

    def tell(self, model: str, item: Any, score: float, cost: float | None = None) -> None:
        """Take in a score.

        Parameters
        ----------
        model : str
        item : doc_id
            Usually one asked for; a score that is at hand anyway may be told as well.
        score : float
            On [0, 1], higher is better.
        cost : float, optional
            What it really cost; default price x units. Costs told move the price of one unit
            that the allocation uses.

        Raises
        ------
        UsageError
            Unknown model or item, or a second score for it.
        ScaleError
            The score is not a number in [0, 1].
        """
        seat, i = self._seat(model), self._item(item)
        value = float(score)
        if not 0.0 <= value <= 1.0:
            raise ScaleError(
                f"score {score!r} of model {model!r} on doc_id {item!r} is not in [0, 1]; "
                "normalise it with the scale of the metric first"
            )
        if i in seat.told:
            raise UsageError(f"model {model!r} already has a score on doc_id {item!r}")
        if not self.bank.kept[i]:
            raise UsageError(f"doc_id {item!r} was removed from the bank by its calibration")
        self._charge(seat, i, cost)
        self._policy.update(self._position[model], i, value)
        seat.told.append(i)

    def fail(self, model: str, item: Any, reason: str, cost: float | None = None) -> None:
        """Record that a model cannot do an item; it is not scored and not asked again.

        Parameters
        ----------
        model, item
            As in `tell`.
        reason : str
        cost : float, optional
            What the attempt cost; default nothing.
        """
        seat, i = self._seat(model), self._item(item)
        if i in seat.told:
            raise UsageError(f"model {model!r} already has a score on doc_id {item!r}")
        self._charge(seat, i, 0.0 if cost is None else cost, measured=False)
        self._policy.skip(self._position[model], i)
        seat.failed[i] = str(reason)

    def release(self, model: str, item: Any) -> None:
        """Give back an item that was asked for and not run."""
        seat, i = self._seat(model), self._item(item)
        if seat.pending.pop(i, None) is None:
            raise UsageError(f"doc_id {item!r} of model {model!r} is not in flight")
        seat.available[i] = True
        seat.ahead = None
        seat.draws = [d for d in seat.draws if d.item != i]
        seat.probability.pop(i, None)
        self._policy.unplace(self._position[model], i)
        self._cached_candidates = None

    def drop(self, model: str, reason: str = "set aside") -> None:
        """Set a model aside: nothing more is asked of it and no pair waits for it."""
        seat = self._seat(model)
        for i in list(seat.pending):
            self.release(model, self.bank.doc_ids[i])
        seat.dropped = str(reason)
        self._cached_candidates = None

    def stop(self, reason: str) -> None:
        """Ask nothing more (a deadline has passed, a person pressed Ctrl-C)."""
        self._stopped = str(reason)
        self._cached_candidates = None

    # -- what is known ------------------------------------------------------------------------

    def estimate(self, model: str) -> tuple[float, float]:
        """Estimated full-benchmark mean of one model and its standard error, on [0, 1]."""
        return self._policy.estimate(self._position[self._seat(model).name])

    def expected(self, model: str) -> NDArray[np.float64]:
        """Expected score of one model on every item, on [0, 1]; shape (n_items,), bank order."""
        return self._policy.expected(self._position[self._seat(model).name])

    def differences(self) -> Differences:
        """Estimates of the full-benchmark means, and the variances of their differences."""
        return self._policy.differences()

    def result(self) -> Ranking:
        """The ranking as it stands; may be called at any time."""
        policy, names, ids = self._policy, [s.name for s in self._seats], self.bank.doc_ids
        active = self._order()
        matrix = policy.pairwise()
        undecided = self._undecided(active).tolist() if len(active) > 1 else []
        order = [names[j] for j in active]
        pairwise = {
            (names[a], names[b]): float(matrix[a, b]) for a in active for b in active if a != b
        }
        said = policy.decisions(self.confidence, self._min_difference, self._familywise)
        words = {DECIDED: "decided", EQUIVALENT: "equivalent"}
        ties = tie_groups(order, undecided)
        ranking = Ranking(
            order=order,
            estimates={n: policy.estimate(j)[0] for j, n in enumerate(names)},
            standard_errors={n: policy.estimate(j)[1] for j, n in enumerate(names)},
            abilities={n: policy.ability(j) for j, n in enumerate(names)},
            pairwise=pairwise,
            decisions={
                (names[a], names[b]): words.get(int(said[a, b]), "open")
                for a in active
                for b in active
                if a != b
            },
            ties=ties,
            separated_within_ties=separated_pairs(ties, pairwise, self.confidence),
            items={s.name: [ids[i] for i in s.told] for s in self._seats},
            failed={s.name: {ids[i]: r for i, r in s.failed.items()} for s in self._seats},
            cost={s.name: s.spent for s in self._seats},
            set_aside={s.name: s.dropped for s in self._seats if s.dropped is not None},
            stopped_because=self._why_stopped(),
            confidence=self.confidence,
            n_items=self.bank.n_items,
            scale=self.bank.scale,
            signature=self.signature,
            audits=self._audits(),
        )
        if self._known is None:
            return ranking
        return self._known.merged(ranking, policy, self._position)

    @property
    def signature(self) -> str:
        """What a reader needs to reproduce the ranking, in one line."""
        b = self.bank
        return signature(
            {
                "task": b.task,
                "metric": b.metric,
                "filter": b.filter,
                "bank": b.short_hash,
                "method": b.method,
                "confidence": f"{self.confidence:g}",
                "warmup": self._warmup,
                "min_difference": self._given_difference or None,
                "familywise": self._familywise or None,
                "audit": self._audit or None,
                "exposure": self._exposure if self._exposure > 1 else None,
                "known": None if self._known is None else len(self._known.names),
                "seed": self.seed,
                **{k: v for k, v in sorted(self._options.items()) if v is not None},
                "ccat": __version__,
            }
        )

    def _audits(self) -> dict[str, AuditResult]:
        if not self._audit:
            return {}
        found = {}
        for seat, test in zip(self._seats, self._policy.tests):
            population = int(self.bank.kept.sum()) - len(seat.failed)
            scores = dict(zip(test.items, test.scores))
            found[seat.name] = audit(
                seat.draws,
                scores,
                test.expected(),
                [test.predictive_variance(d.item) for d in scored(seat.draws, scores)],
                population,
                test.estimate,
                self.confidence,
            )
        return found

    # -- books --------------------------------------------------------------------------------

    def _charge(self, seat: Seat, item: int, cost: float | None, measured: bool = True) -> None:
        expected = seat.pending.pop(item, None)
        if expected is None:
            expected = self._price(seat) * float(self._units[item])
        if cost is not None:
            if not (math.isfinite(cost) and cost >= 0.0):
                raise UsageError(f"cost {cost!r} of model {seat.name!r} is not a positive number")
            if measured:
                c, u = seat.measured
                seat.measured = (c + cost, u + float(self._units[item]))
        seat.spent += expected if cost is None else float(cost)
        seat.available[item] = False
        seat.ahead = None
        self._cached_candidates = None

    def _seat(self, model: str) -> Seat:
        try:
            return self._seats[self._position[model]]
        except KeyError:
            known = ", ".join(self._position)
            raise UsageError(f"unknown model {model!r}; this ranking has {known}") from None

    def _item(self, doc_id: Any) -> int:
        try:
            return self.bank.index[doc_id]
        except KeyError:
            raise UsageError(f"the bank has no item with doc_id {doc_id!r}") from None

    def _why_stopped(self) -> str:
        if self._stopped is not None:
            return self._stopped
        if not self.done:
            return ""
        order = self._order()
        open_pairs = int(np.sum(self._undecided(order))) if len(order) > 1 else 0
        if not open_pairs and not self._unsettled():
            if self._known is not None:
                return "the place of every model is decided"
            return "every adjacent pair is decided" if len(order) > 1 else "the target is reached"
        seats = [self._seats[j] for j in (self._unsettled() or self._warming() or order)]
        left = self.budget - self.committed
        if left < 1e-9 * self.budget:
            left = 0.0  # what the rounding of a sum leaves
        if any(s.load < self._cap and s.available.any() for s in seats):
            return f"the budget is used up ({left:.4g} of {self.budget:.6g} left)"
        if all(not s.available.any() for s in seats):
            return "every item was administered"
        return f"the limit of {self._cap} items per model is reached"
