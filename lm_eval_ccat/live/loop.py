"""One model's adaptive run of one task: a ranker with one model decides, a session administers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..bank import ItemBank
from ..bank.settings import check_bank
from ..errors import HarnessError, MetricError
from ..harness import internals
from ..harness.judge import take_cost
from ..harness.prices import Tokens, estimate_tokens
from ..harness.session import Administered, TaskSession
from ..harness.task_metrics import metric_of_task
from ..metrics import Metric
from ..ranker import Ranker, Ranking
from ..scores import ScoreTable
from .options import AdaptiveOptions

log = logging.getLogger("lm_eval.ccat")  # under the harness's, so as its user set it

MODEL = "model"
#: Items before the standard error is believed.
WARMUP = 10
#: Tokens of an answer that is not written yet, where the task states no limit.
_ANSWER_TOKENS = 256


class Teller(Protocol):
    """What takes in scores: a `Ranker`, or one task of a suite."""

    def tell(self, model: str, item: Any, score: float, cost: float | None = None) -> None: ...

    def fail(self, model: str, item: Any, reason: str, cost: float | None = None) -> None: ...


@dataclass
class AdaptiveRun:
    """A task with its bank, ready to run; afterwards with what was administered.

    Attributes
    ----------
    administered : dict of doc_id to Administered
        In the order of asking.
    units : dict of doc_id to float
        Scores on [0, 1], higher is better.
    ranking : Ranking or None
        What the ranker says; None before the run.
    known : ScoreTable or None
        Full results of other models, among which this one is placed.
    cost : float or None
        Dollars, where a price is known.
    """

    session: TaskSession
    bank: ItemBank
    options: AdaptiveOptions
    metric: Metric
    filter: str
    warnings: list[str]
    administered: dict[int, Administered] = field(default_factory=dict)
    units: dict[int, float] = field(default_factory=dict)
    ranking: Ranking | None = None
    cost: float | None = None
    seconds: float = 0.0
    known: ScoreTable | None = None

    @classmethod
    def prepare(cls, session: TaskSession, bank: ItemBank, options: AdaptiveOptions) -> AdaptiveRun:
        """Check that bank, task, metric and settings fit; sends nothing to the model.

        Raises
        ------
        BankMismatchError, MetricError
            See `check_bank` and `find_metric`.
        """
        warnings = check_bank(
            bank,
            task=session.name,
            filters=session.filters,
            settings=session.settings,
            doc_ids=session.doc_ids,
            doc_hashes=session.doc_hashes,
        )
        metric = metric_of(bank, session)
        for warning in warnings:
            log.warning("%s: %s", session.name, warning)
        filter = bank.filter or session.filters[0]
        known = None
        if options.leaderboard is not None:
            known = options.leaderboard.of_task(session.name, bank, metric.scale)
        return cls(session, bank, options, metric, filter, warnings, known=known)

    @property
    def complete(self) -> bool:
        """Whether every document of the task was run."""
        return len(self.administered) == len(self.session.doc_ids)

    @property
    def key(self) -> str:
        """Where the estimate stands among the task's results."""
        return self.metric.key(self.filter)

    def run(self, share: Mapping[str, float] | None = None) -> None:
        """Administer documents until the stopping rule holds.

        Parameters
        ----------
        share : mapping, optional
            This task's part of the budget; default the whole of it.
        """
        budget = dict(share if share is not None else self.options.budget or {})
        ranker = self._ranker(budget)
        batch = self.options.batch_size or internals.natural_batch(self.session.lm)
        started = time.monotonic()
        with progress_bar(self.session.name, len(self.session.doc_ids)) as bar:
            while not ranker.done:
                asked = [doc_id for _, doc_id in ranker.ask(batch)]
                self.take(asked, ranker)
                estimate, se = ranker.estimate(MODEL)
                scale = self.metric.scale
                bar.set_postfix_str(
                    f"{self.metric.label} {float(scale.restore(estimate)):.4g} "
                    f"± {float(scale.restore_error(se)):.2g}",
                    refresh=False,
                )
                bar.update(len(asked))
                self._stop_when_spent(ranker, budget, time.monotonic() - started)
            self._top_up(batch, budget, bar)
        self.ranking = ranker.result()
        self.seconds = time.monotonic() - started

    # -- the steps ----------------------------------------------------------------------------

    def take(self, doc_ids: list[int], ranker: Teller) -> None:
        """Administer documents and tell a ranker of them."""
        for answer in self._administer(doc_ids):
            unit, cost = self.units.get(answer.doc_id), self._charge(answer)
            if unit is None:
                reason = f"the task reports no {self.metric.name} for it"
                ranker.fail(MODEL, answer.doc_id, reason, cost)
            else:
                ranker.tell(MODEL, answer.doc_id, unit, cost)

    def expected_costs(self) -> dict[int, float]:
        """Dollars that each document may cost, by doc_id."""
        return {d: self._expected_cost(d) for d in self.bank.doc_ids}

    def _ranker(self, budget: Mapping[str, float]) -> Ranker:
        options, limits = self.options, [WARMUP]
        if options.max_items is not None:
            limits.append(options.max_items)
        units = None
        if "items" in budget:
            limits.append(int(budget["items"]))
        elif "usd" in budget:
            units = self.expected_costs()
            limits.append(0)  # the paper's warm-up knows no budget
        return Ranker(
            self.bank,
            {MODEL: 1.0},
            units=units,
            confidence=options.confidence,
            warmup=min(limits),
            budget=budget.get("items", budget.get("usd")),
            max_items=options.max_items,
            seed=options.seed,
            target_se=options.target_se,
            audit=options.audit,
            exposure=options.exposure,
            known=self.known,
        )

    def _administer(self, doc_ids: list[int]) -> list[Administered]:
        answers = self.session.administer(doc_ids)
        for answer in answers:
            self.administered[answer.doc_id] = answer
            # A task may leave a metric out for some documents; the harness then does as well.
            key = (self.metric.name, self.filter)
            if key in answer.values and not self.metric.is_missing(answer.values[key]):
                self.units[answer.doc_id] = self._unit(answer)
        declared = self.metric.name in internals.metric_names(self.session.task)
        if answers and not self.units and not (declared and len(self.administered) < WARMUP):
            there = sorted({name for name, flt in answers[0].values if flt == self.filter})
            raise MetricError(
                f"task {self.session.name} reports no {self.metric.name} for its documents; "
                f"it reports {', '.join(there)}"
            )
        return answers

    def _unit(self, answer: Administered) -> float:
        value = answer.values[self.metric.name, self.filter]
        filtered = answer.samples[self.filter]["filtered_resps"][0]
        raw = self.metric.score(
            value,
            task=self.session.name,
            prediction=filtered if isinstance(filtered, str) else None,
        )
        return float(self.metric.scale.normalise(raw))

    def _charge(self, answer: Administered) -> float | None:
        price = self.options.model_price
        if not price.known:
            return None
        read, written = answer.input_tokens, answer.output_tokens
        if read is None or written is None:
            tokens = Tokens(_guess(answer.prompts), _guess(answer.responses), "estimate")
        else:
            tokens = Tokens(read, written, "tokenizer")
        cost = price.cost(tokens, answer.seconds) + take_cost()  # a judge's cost is the document's
        self.cost = (self.cost or 0.0) + cost
        return cost if "usd" in (self.options.budget or {}) else None

    def _expected_cost(self, doc_id: int) -> float:
        """Dollars that a document may cost, with an answer of full length."""
        settings = self.session.settings["generation_kwargs"]
        answer = float(settings.get("max_gen_toks") or _ANSWER_TOKENS) if settings else 0.0
        written = answer * self.session.n_requests(doc_id)
        tokens = Tokens(_guess(self.session.prompts(doc_id)), written, "estimate")
        # Seconds are not known beforehand; the costs told correct the expectation.
        return max(self.options.model_price.cost(tokens, 0.0), 1e-9)

    def _stop_when_spent(self, ranker: Ranker, budget: Mapping[str, float], elapsed: float) -> None:
        if "seconds" in budget and elapsed >= budget["seconds"]:
            ranker.stop(f"the budget of {budget['seconds']:g} seconds is used up")
        elif "usd" in budget and ranker.spent >= budget["usd"]:
            ranker.stop(f"the budget of {budget['usd']:g} usd is used up")

    def _top_up(self, batch: int, budget: Mapping[str, float], bar: Any) -> None:
        """Run the documents that the bank does not offer, where all were asked for and needed.

        A bank may have removed documents, or not know some; a full run has them too.
        """
        wanted, total = self.options.max_items, len(self.session.doc_ids)
        offered = {d for d, kept in zip(self.bank.doc_ids, self.bank.kept) if kept}
        if wanted is None or wanted < total or budget or not offered <= set(self.administered):
            return
        left = [d for d in self.session.doc_ids if d not in self.administered]
        for start in range(0, len(left), batch):
            bar.update(len(self._administer(left[start : start + batch])))


def metric_of(bank: ItemBank, session: TaskSession) -> Metric:
    """The bank's metric as the task reports it, on the scale of what the harness reports.

    Raises
    ------
    MetricError
        The metric has no score per document, or the bank took it in the other direction.
    """
    name, scale = bank.metric, bank.scale
    try:
        metric = metric_of_task(session.task, name)
    except MetricError:
        # Its range was stated when the bank was calibrated, as it has to be for such a metric.
        ends, lower = (scale.low, scale.high), not scale.higher_is_better
        metric = metric_of_task(session.task, name, range=ends, lower_is_better=lower)
        return replace(metric, scale=scale)
    if metric.scale.higher_is_better != scale.higher_is_better:
        raise MetricError(
            f"metric {name} of task {session.name} is {metric.scale.describe()}, "
            f"the bank was calibrated on {scale.describe()}; calibrate again"
        )
    # Logs of the harness hold raw scores as it reports them, and a range or cap stated for them
    # holds here too. Another table may have them in other units (BLEU on 0 to 1, say).
    from_logs = bool(bank.settings) or bank.doc_hashes is not None
    return replace(metric, scale=scale) if from_logs else metric


def require_bank(bank: ItemBank | None, task: str) -> ItemBank:
    """The bank, or an error that says how to give one."""
    if bank is None:
        raise HarnessError(
            f"no bank for task {task}; give one with --bank {task}=FILE, or run the task without "
            "--adaptive"
        )
    return bank


def _guess(texts: Iterable[str]) -> float:
    return sum(map(estimate_tokens, texts))


def progress_bar(name: str, total: int) -> Any:
    """A bar that counts documents."""
    from tqdm import tqdm  # comes with the harness, which shows its own progress by it

    return tqdm(total=total, desc=f"{name} (adaptive)", unit="doc", leave=True)
