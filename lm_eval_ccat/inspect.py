"""Early stopping for evaluations in Inspect; needs the extra ``inspect``.

Inspect's ``EarlyStopping`` protocol lets a task skip samples that have not started, but not
reorder them. So `AdaptiveStopping.ordered` sets the order beforehand. While the task runs,
`AdaptiveStopping` follows the scores and skips the remaining samples once its stopping rule holds.
It does not choose the next sample by the scores so far. With a bank, the order is the one in which
an unknown model would be asked; without a bank, it is random. The interval holds for one look,
where the rule ends the evaluation; with known models it holds at every look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inspect_ai.scorer import value_to_float
from inspect_ai.util import EarlyStop

from .bank import ItemBank
from .errors import BankMismatchError, UsageError
from .ranker import Ranker, Ranking

__all__ = ["AdaptiveStopping"]
MODEL = "model"


class AdaptiveStopping:
    """Stop an Inspect task by a standard error, a place among known models, or a number of samples.

    Parameters
    ----------
    bank : ItemBank, optional
        Calibrated items whose ids are the samples' ids. Without a bank, samples come at random.
    target_se : float, optional
        Stop once the standard error of the estimated mean score, on [0, 1], is at most this.
    known : mapping of str to float, or ScoreTable, optional
        Models with full results; stop once this model's place among them is decided. Needs a bank.
    max_items : int, optional
        Largest number of samples.
    scorer : str, optional
        Scorer whose score counts; needed if a task has several.
    to_score : callable, optional
        Converts a scorer's value to a score in [0, 1]; by default Inspect's `value_to_float` (a
        correct answer is 1, a partial one 0.5).
    confidence : float, optional
        Confidence level of the interval and of decided places.
    seed : int, optional
        Seed of the random order.

    Raises
    ------
    UsageError
        If none of ``target_se``, ``known`` and ``max_items`` is given, or ``known`` without a bank.

    Examples
    --------
    >>> from inspect_ai import Task, eval
    >>> from inspect_ai.dataset import MemoryDataset, Sample
    >>> from inspect_ai.scorer import match
    >>> samples = [Sample(id=i, input=f"{i} + 1 =", target=str(i + 1)) for i in range(200)]
    >>> stopping = AdaptiveStopping(target_se=0.05)
    >>> task = Task(dataset=stopping.ordered(MemoryDataset(samples)), scorer=match(),
    ...             early_stopping=stopping)
    >>> [log] = eval(task, model="mockllm/model", display="none")      # doctest: +SKIP
    >>> stopping.result().estimates                                    # doctest: +SKIP
    {'model': 0.0}
    """

    def __init__(
        self,
        bank: ItemBank | None = None,
        *,
        target_se: float | None = None,
        known: Mapping[str, float] | Any = None,
        max_items: int | None = None,
        scorer: str | None = None,
        to_score: Callable[[Any], float] | None = None,
        confidence: float = 0.95,
        seed: int = 0,
    ) -> None:
        if target_se is None and known is None and max_items is None:
            raise UsageError("say when to stop: target_se, known or max_items")
        if known is not None and bank is None:
            raise UsageError(
                "known= needs a bank: calibrate one on the full results of these models"
            )
        self._bank = bank
        self._options = {
            "stop": "decided" if target_se is None else f"decided and se {target_se}",
            "known": known,
            "max_items": max_items,
            "confidence": confidence,
            "seed": seed,
        }
        self._scorer = scorer
        self._to_score = to_score or value_to_float()
        self._order: list[Any] = []
        self._ranker: Ranker | None = None
        self._epochs = 1
        self._asked: set[Any] = set()
        self._seen: dict[Any, list[float]] = defaultdict(list)
        self._ended: dict[Any, int] = defaultdict(int)
        self._why: str | None = None

    def ordered(self, dataset: Any) -> Any:
        """Return the dataset in the order in which to ask its samples.

        Parameters
        ----------
        dataset : inspect_ai.dataset.Dataset
            Samples without an id get their position, counted from 1, as Inspect numbers them.

        Returns
        -------
        MemoryDataset
            The same samples, reordered; samples that the bank lacks come last.
        """
        from inspect_ai.dataset import MemoryDataset

        samples = list(dataset)
        for position, sample in enumerate(samples, 1):
            if sample.id is None:
                sample.id = position
        planner = self._new_ranker([s.id for s in samples], order_only=True)
        self._order = [item for _, item in planner.ask(len(samples), model=MODEL)]
        rank = {item: i for i, item in enumerate(self._order)}
        samples.sort(key=lambda s: rank.get(s.id, len(rank)))
        return MemoryDataset(samples, name=dataset.name, location=dataset.location)

    def result(self) -> Ranking:
        """Return the result so far: an estimate of the model's mean over all samples."""
        return self._running().result()

    # -- Inspect's protocol ---------------------------------------------------------------------

    async def start_task(self, task: Any, samples: Sequence[Any], epochs: int) -> str:
        """Register the samples; refuse any order but that of `ordered`."""
        ids = [s.id for s in samples]
        if not self._order:
            raise UsageError("give the task `stopping.ordered(dataset)` in place of the dataset")
        known = [i for i in ids if i in set(self._order)]
        if known != [i for i in self._order if i in set(ids)]:
            raise UsageError(
                "the task's samples are not in the order of `stopping.ordered(dataset)`: stopping "
                "early would bias the result; do not shuffle or sort them again"
            )
        self._epochs = epochs
        self._ranker = self._new_ranker(ids)
        return "lm-eval-ccat"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        """Skip a sample that has not started once the stopping rule holds."""
        ranker = self._running()
        if id in self._asked:
            return None
        if self._why is None and not self._wants_more(ranker):
            self._why = ranker.result().stopped_because or "the stopping rule holds"
        if self._why is not None:
            return EarlyStop(id=id, epoch=epoch, reason=self._why)
        self._asked.add(id)
        if id in ranker.bank.index:
            place = self._order.index(id)
            drawn = 1.0 / (len(self._order) - place) if self._bank is None else None
            ranker.impose([(MODEL, id, drawn)])
        return None

    async def complete_sample(self, id: str | int, epoch: int, scores: dict[str, object]) -> None:
        """Record the scores of one epoch of a sample; its score is the mean over its epochs."""
        ranker = self._running()
        self._ended[id] += 1
        if scores:
            self._seen[id].append(float(self._to_score(self._value(scores))))
        if self._ended[id] < self._epochs or id not in ranker.bank.index:
            return
        values = self._seen.pop(id, [])
        if values:
            ranker.tell(MODEL, id, sum(values) / len(values))
        else:
            ranker.fail(MODEL, id, "no score")

    async def complete_task(self) -> dict[str, object]:
        """Return the estimate of the full mean, for the log."""
        ranking = self.result()
        low, high = ranking.interval(MODEL)
        return {
            "estimate": ranking.estimates[MODEL],
            "standard_error": ranking.standard_errors[MODEL],
            "interval": [low, high],
            "confidence": ranking.confidence,
            "items": len(ranking.items[MODEL]),
            "items_of_benchmark": ranking.n_items,
            "stopped_because": self._why or ranking.stopped_because,
            "signature": ranking.signature,
        }

    # -- inside ---------------------------------------------------------------------------------

    def _new_ranker(self, ids: Sequence[Any], order_only: bool = False) -> Ranker:
        bank = self._bank
        if bank is None:
            bank = ItemBank.blank(sorted(ids), metric=self._scorer or "score")
        elif not set(ids) & set(bank.doc_ids):
            raise BankMismatchError(
                f"the bank knows none of the {len(ids)} samples (the first is {ids[0]!r}, the "
                f"bank's first is {bank.doc_ids[0]!r}); their ids must be the bank's doc_ids"
            )
        options: dict[str, Any] = dict(self._options)
        if order_only:  # the whole order is wanted, so nothing may stop it
            options |= {"stop": "limits", "known": None, "max_items": None}
        return Ranker(bank, {MODEL: 1.0}, **options)

    def _running(self) -> Ranker:
        if self._ranker is None:
            raise UsageError("the task has not started")
        return self._ranker

    @staticmethod
    def _wants_more(ranker: Ranker) -> bool:
        asked = ranker.ask(1, model=MODEL)
        for model, item in asked:
            ranker.release(model, item)
        return bool(asked)

    def _value(self, scores: Mapping[str, Any]) -> Any:
        if self._scorer is None and len(scores) > 1:
            raise UsageError(f"the task has several scorers: name one of {', '.join(scores)}")
        name = self._scorer or next(iter(scores))
        if name not in scores:
            raise UsageError(f"the task has no scorer {name!r}; it has {', '.join(scores)}")
        return scores[name].score.value
