"""What a ranking needs before it starts: outcomes, prices, known results, its identity.

Forecasts and tills, which turn tokens and seconds into money, stand here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import UsageError
from ..harness import TaskSession, internals
from ..harness.outcomes import leading, script_note
from ..harness.served import Price, Tokens, estimate_tokens
from ..methods.belief import POPULATION
from ..metrics.scale import Scale
from ..ranker import Ranker, StoppingRule
from ..ranker.references import KnownMean
from ..runs.directory import make_ranker
from ..runs.journal import Item, Record
from ..simulation.audit import WEIGHTED_MEAN
from .earlier import KnownResults
from .fields import Donors
from .outcomes import Bank, apart_from, measure, reported_groups, task_weights
from .spec import Spec
from .tasks import probe

#: What of a run's identity tells whether answers are scored by the same code.
SCORING = "scoring_code_sha256"
#: Items of all tasks together that each model of a ranking of several tasks gets first.
GROUP_WARMUP = 60


@dataclass(frozen=True)
class Till:
    """Charges one model's documents.

    Parameters
    ----------
    price : Price
    judge : float or None
        Dollars of judging one answer, where that is stated; else what the judge measured.
    currency : {"items", "usd"}
        What the Ranker's budget counts.
    """

    price: Price
    judge: float | None
    currency: str

    def charge(
        self, tokens: Tokens | None, seconds: float, judged: float = 0.0
    ) -> tuple[float, float | None]:
        """(cost in the currency, dollars or None) of one document, for whose judging was paid."""
        usd = None
        if self.price.known:
            judge = judged if self.judge is None else self.judge
            usd = self.price.cost(tokens, seconds) + judge
        return (1.0 if self.currency == "items" or usd is None else usd), usd

    def charge_judge(self, judged: float) -> tuple[float, float | None]:
        """As `charge`, of an answer that was paid for before: what judging it cost just now."""
        usd = judged if self.price.known else None
        return (usd or 0.0) if self.currency == "usd" else 0.0, usd


@dataclass(frozen=True)
class Forecast:
    """What one model's documents are expected to take.

    ``mean`` and ``largest`` are costs of one document in the budget's currency; ``known`` is
    False where the price is not stated.
    """

    mean: float
    largest: float
    known: bool


@dataclass(frozen=True)
class Plan:
    """A checked ranking, ready to run.

    Attributes
    ----------
    spec : Spec
    measured : dict of task to (dict of name to Outcome)
        Of every answer of the task.
    sessions : dict of task to TaskSession
        To look at documents and prompts; they need have no model.
    prices : dict of model to float
        Of one unit, in `currency`.
    units : dict of item to float, or None
        Relative size of each item.
    forecasts : dict of model to Forecast
    currency : {"items", "usd"}
    known : dict of model to KnownMean, or None
    weights : dict of task to float
        Of several tasks in the score that is ranked by.
    groups : dict of name to (dict of task to float)
        Groups of tasks whose scores are reported beside it, with their own weights.
    warnings : tuple of str
        Of the banks.
    of_harness : dict of name to Group
        Groups of the tasks, as the harness has them.
    rule : StoppingRule or None
        When to stop, where the words of ``stop:`` do not say it.
    """

    spec: Spec
    measured: dict[str, dict[str, Outcome]]
    sessions: dict[str, TaskSession]
    prices: dict[str, float]
    units: dict[Item, float] | None
    forecasts: dict[str, Forecast]
    currency: str
    known: dict[str, KnownMean] | None = None
    weights: dict[str, float] = field(default_factory=dict)
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    of_harness: dict[str, Any] = field(default_factory=dict)
    rule: StoppingRule | None = None

    @property
    def title(self) -> str:
        """The task, in a word."""
        return self.outcome.task if len(self.measured) == 1 else "all tasks"

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each task that counts most."""
        return {task: leading(of) for task, of in self.measured.items()}

    @property
    def outcome(self) -> Outcome:
        """The first task's, the only one unless several tasks are ranked together."""
        return next(iter(self.outcomes.values()))

    @property
    def banks(self) -> ItemBank | dict[str, dict[str, ItemBank]]:
        """The banks that the Ranker ranks on."""
        if only := _alone(self.measured):
            return only.bank
        return {t: {k: o.bank for k, o in of.items()} for t, of in self.measured.items()}

    @property
    def scale(self) -> Scale:
        """Scale of the ranking: the one that all steering outcomes share, else [0, 1]."""
        scales = [o.metric.scale for o in self._steering]
        return scales[0] if all(scale == scales[0] for scale in scales) else Scale()

    @property
    def label(self) -> str:
        """What the ranking is by, in a few words."""
        labels = list(dict.fromkeys(o.metric.label for o in self._steering))
        return labels[0] if len(labels) == 1 else f"{WEIGHTED_MEAN} of {', '.join(labels)}"

    @property
    def key(self) -> str:
        """The result's key of what is ranked by: of several, the weighted mean of theirs."""
        keys = list(dict.fromkeys(o.results_key for o in self._steering))
        return keys[0] if len(keys) == 1 else f"{WEIGHTED_MEAN} of {' and '.join(keys)}"

    @property
    def _steering(self) -> list[Outcome]:
        return [o for of in self.measured.values() for o in of.values() if o.weight > 0.0]

    @property
    def bank(self) -> ItemBank:
        """The bank of `outcome`."""
        return self.outcome.bank

    @property
    def session(self) -> TaskSession:
        """The session of the task of `outcome`."""
        return self.sessions[self.outcome.task]

    @property
    def budget(self) -> float | None:
        """The Ranker's budget, in `currency`; a time budget is kept by the clock."""
        return self.spec.budget.get("usd", self.spec.budget.get("items"))

    @property
    def warmup(self) -> int:
        """Items of every task that each model gets first; of many tasks not many."""
        n, stated = len(self.measured), self.spec.warmup
        return stated if n == 1 else min(stated, max(2, GROUP_WARMUP // n))

    @property
    def seconds(self) -> float | None:
        """The time budget."""
        return self.spec.budget.get("seconds")

    def expected_usd(self, model: str, item: Item) -> float | None:
        """Dollars that an attempt is expected to cost; None where the price is not known."""
        forecast = self.forecasts[model]
        if not forecast.known:
            return None
        return forecast.mean * (1.0 if self.units is None else self.units[item])

    @cached_property
    def tills(self) -> dict[str, Till]:
        """The till that charges each model's documents."""
        judge, currency = self.spec.judge.item, self.currency
        return {m.name: Till(m.price, judge, currency) for m in self.spec.models}

    def ranker_arguments(self) -> Record:
        """The Ranker's arguments, as JSON values for the journal's header."""
        spec, several, units = self.spec, not _alone(self.measured), None
        if self.units is not None:  # in bank order
            by_task = {
                task: [self.units[task, d] for d in o.bank.doc_ids]
                for task, o in self.outcomes.items()
            }
            units = by_task if several else by_task[self.outcome.task]
        strata = {"strata": self._strata(spec.strata)} if spec.strata else {}
        return {
            "models": self.prices,
            "units": units,
            "warmup": self.warmup,
            "budget": self.budget,
            "stop": spec.stop,
            "known": self.known,
            "options": {**spec.options, **strata},
            **spec.for_the_ranker(),
            **({"weights": self.shares()} if several else {}),
            **({"groups": self.groups} if self.groups else {}),
        }

    def _strata(self, field: str) -> list[str]:
        """A field of each document, in bank order.

        Raises
        ------
        UsageError
            Documents have no such field, or there are several tasks.
        """
        if len(self.measured) > 1:
            raise UsageError("`strata:` is for one task; several tasks are strata by themselves")
        documents = internals.documents(self.session.task)
        values = []
        for doc_id in self.bank.doc_ids:
            document = documents[doc_id]
            if not isinstance(document, Mapping) or field not in document:
                fields = ", ".join(map(str, document)) if isinstance(document, Mapping) else "none"
                raise UsageError(
                    f"`strata:` the documents have no field {field!r}; they have: {fields}"
                )
            values.append(str(document[field]))
        return values

    def shares(self) -> dict[str, dict[str, float]]:
        """Weights of all outcomes: those of their tasks, shared out by their own."""
        sizes = {task: float(o.bank.n_items) for task, o in self.outcomes.items()}
        weights = {}
        for task, of in self.measured.items():
            share = (self.weights or sizes)[task] / sum(o.weight for o in of.values())
            weights[task] = {name: share * o.weight for name, o in of.items()}
        return weights

    def items(self) -> list[Item]:
        """Every item, in bank order."""
        return [(task, d) for task, o in self.outcomes.items() for d in o.bank.doc_ids]

    def documents(self) -> list[Item]:
        """Every document of the tasks, those that no bank knows included."""
        return [(task, d) for task, s in self.sessions.items() for d in s.doc_ids]

    @property
    def offered(self) -> list[Item]:
        """Items that the bank lets be asked."""
        kept = [
            np.logical_or.reduce([o.bank.kept for o in of.values() if o.weight > 0.0])
            for of in self.measured.values()
        ]
        return [item for item, k in zip(self.items(), np.concatenate(kept)) if k]

    def new_ranker(self) -> Ranker:
        """A Ranker in its initial state."""
        rule = {} if self.rule is None else {"stop": self.rule}
        header = {"task": {"name": self.outcome.task}}
        return make_ranker(self.banks, {**header, "ranker": {**self.ranker_arguments(), **rule}})

    def facts(self) -> Record:
        """What a reader of the run needs to know of it, as JSON values."""
        every = [o for of in self.measured.values() for o in of.values()]
        of_each = {
            t: {k: facts_of_outcome(o) for k, o in of.items()} for t, of in self.measured.items()
        }
        return {
            "bank_sha256": "+".join(o.bank.sha256 for o in every),
            "task": {"name": "+".join(self.outcomes)},
            "versions": {"lm_eval_ccat": __version__, "lm_eval": internals.harness_version()},
            "report": {
                "metric": self.label,
                "key": self.key,
                "scale": self.scale.to_dict(),
                "estimand": self.estimand,
                "currency": self.currency,
                **({} if _alone(self.measured) else {"outcomes": of_each}),
            },
        }

    def identity(self) -> Record:
        """The journal's header: `facts`, and what must be the same for a run to be resumed."""
        facts, sessions = self.facts(), self.sessions
        prompts = "\x1e".join(p for s in sessions.values() for d in s.doc_ids for p in s.prompts(d))
        hashes = [hash for session in sessions.values() for hash in session.doc_hashes]
        settings: Record = {task: dict(session.settings) for task, session in sessions.items()}
        if len(sessions) == 1:
            [settings] = settings.values()
        task = {
            **facts["task"],
            "documents": len(self.documents()),
            "documents_sha256": _sha("".join(map(str, hashes))),
            "prompts_sha256": _sha(prompts),
            SCORING: _sha("".join(internals.scoring_code(s.task) for s in sessions.values())),
            "metric": self.outcome.metric.name,
            "filter": self.outcome.filter,
            **{k: v for k, v in facts["report"].items() if k == "outcomes"},
            "settings": json.loads(json.dumps(settings, default=str)),
        }
        config, arguments = self.spec.public(), self.ranker_arguments()
        return {**facts, "config": config, "task": task, "ranker": arguments}

    @property
    def estimand(self) -> str:
        """Say in words what the estimates estimate."""
        n = sum(o.bank.n_items for o in self.outcomes.values())
        what = " and the ".join(dict.fromkeys(o.metric.in_words for o in self._steering))
        if " and the " in what:
            what = f"weighted mean of the {what}, each on [0, 1],"
        return f"Estimates are of the {what} over all {n} documents of {', '.join(self.outcomes)}"


def make_plan(spec: Spec) -> Plan:
    """Load and check everything that a ranking needs, without loading a model.

    Raises
    ------
    UsageError
        A money budget with a model whose price is unknown, for instance.
    CcatError
        The bank, the task or their metric cannot be used together.
    """
    currency_of(spec)  # what cannot be paid is said before the task is loaded
    bank: Bank = spec.bank
    if isinstance(bank, str | Path) and bank and not Path(bank).is_dir():
        bank = ItemBank.load(bank)  # what is not there is said before the task is loaded
    sessions, groups = probe(spec)
    if isinstance(bank, Donors):
        bank = _borrowed(bank, spec, list(sessions))
    if spec.weights and len(sessions) == 1:
        raise UsageError("`weights:` is of several tasks; weights of metrics stand in `metrics:`")
    names = [m.name for m in spec.models]
    measured: dict[str, dict[str, Outcome]] = {}
    warnings: list[str] = []
    noise: dict[str, None] = {}
    for task, session in sessions.items():
        outcomes = measure(bank, spec.metrics, session, len(sessions) == 1)
        # A model that the bank has answers of does not calibrate its own test.
        measured[task], warned = apart_from(outcomes, names)
        warnings += warned
        noise |= dict.fromkeys(script_note(session.task, o.metric.name) for o in outcomes.values())
    if len(warnings) > 1:  # one for each task of a group would hide what else is said
        warnings[1:] = [f"the same holds for {len(warnings) - 1} more banks"]
    warnings += filter(None, noise)
    weights, reported = None, {}
    if len(sessions) > 1:
        weights = task_weights(spec.weights, measured, groups)
        reported = reported_groups(measured, groups)
    known = None
    if spec.known is not None:
        sampled = spec.question == POPULATION
        known = KnownResults(spec.known).means(measured, names, weights or {}, sampled)
    plan = plan_of(spec, measured, sessions, known, weights)
    return replace(plan, groups=reported, warnings=tuple(warnings), of_harness=dict(groups))


def _borrowed(donors: Donors, spec: Spec, tasks: list[str]) -> ItemBank:
    if len(tasks) > 1 or len(spec.metrics) > 1:
        raise UsageError(
            "`bank:` with `borrow:` is of one task and one metric: make a bank of each with "
            "`lm-eval-ccat calibrate --borrow`"
        )
    from ..scores import ScoreTable
    from ..scores.wanted import Wanted
    from ..upkeep.borrow import lent

    name, _, filtered = next(iter(spec.metrics), "").partition(",")
    metric, filter = name or None, filtered or None
    own_scores = donors.own and ScoreTable.read(donors.own, metric, tasks[0], filter)
    _, bank = lent(donors.paths, own_scores or None, Wanted(metric, tasks[0], filter))
    # Of the same scores the same bank, whatever the day: a run is known by its bank.
    return replace(bank, made=None)


def plan_of(
    spec: Spec,
    measured: Mapping[str, dict[str, Outcome]],
    sessions: Mapping[str, TaskSession],
    known: dict[str, KnownMean] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Plan:
    """The plan of a ranking whose tasks are loaded.

    Raises
    ------
    UsageError
        A money budget with a model whose price is unknown.
    """
    currency = currency_of(spec)
    expected: dict[Item, Tokens] = {}
    if any(m.price.known for m in spec.models):  # it takes the prompt of every document
        for task, of in measured.items():
            for doc, tokens in _expected(sessions[task], leading(of).bank.doc_ids).items():
                expected[task, doc] = tokens
    forecasts = {}
    for model in spec.models:
        costs = [1.0]
        if model.price.known:
            judged = spec.judge.item or 0.0
            # A second for a document stands for a time not measured yet; costs told correct it.
            costs = [model.price.cost(tokens, 1.0) + judged for tokens in expected.values()]
        mean, largest = sum(costs) / len(costs), max(costs)
        forecasts[model.name] = Forecast(mean, largest, model.price.known)
    prices, units = dict.fromkeys(forecasts, 1.0), None
    if currency == "usd":
        prices = {name: one.mean for name, one in forecasts.items()}
        if all(m.price.by_tokens for m in spec.models):
            units = _sizes(spec, expected)
    return Plan(
        spec, dict(measured), dict(sessions), prices, units, forecasts, currency, known,
        dict(weights or {}),
    )  # fmt: skip


def currency_of(spec: Spec) -> str:
    """Dollars where every price is known and the budget is not one of items.

    Raises
    ------
    UsageError
        A budget in money, and a model without a price.
    """
    if "items" in spec.budget:
        return "items"
    for model in spec.models:
        if not model.price.known:
            if "usd" not in spec.budget:
                return "items"
            raise UsageError(
                f"the budget is in money and the price of model {model.name} is unknown; add "
                "price: {input: .., output: ..} ($ per million tokens), {item: ..} or {hour: ..}"
            )
    return "usd"


def _expected(session: TaskSession, docs: Sequence[Any]) -> dict[Any, Tokens]:
    """What each document is expected to take, from the lengths of its prompt and its reference."""
    documents = internals.documents(session.task)
    generates = internals.output_type(session.task) == "generate_until"
    expected = {}
    for doc in docs:
        prompts = session.prompts(doc)
        repeats = session.n_requests(doc) / len(prompts)
        written = 0.0
        if generates:
            target = internals.target(session.task, documents[doc])
            text = target[0] if isinstance(target, list) and target else target
            written = max(1.0, estimate_tokens(str(text))) * session.n_requests(doc)
        read = sum(map(estimate_tokens, prompts)) * repeats
        expected[doc] = Tokens(read, written, "estimate")
    return expected


def _sizes(spec: Spec, expected: Mapping[Item, Tokens]) -> dict[Item, float] | None:
    """Relative size of each document where every model is paid by the token; mean 1."""
    read = sum(m.price.input or 0.0 for m in spec.models)
    written = sum(m.price.output or 0.0 for m in spec.models)
    sizes = {item: read * t.input + written * t.output for item, t in expected.items()}
    mean = sum(sizes.values()) / len(sizes)
    return {item: max(s / mean, 1e-3) for item, s in sizes.items()} if mean > 0.0 else None


def _alone(measured: Mapping[str, Mapping[str, Outcome]]) -> Outcome | None:
    """Return the outcome if there is only one; files then name its items by doc_id."""
    outcomes = [outcome for of in measured.values() for outcome in of.values()]
    return outcomes[0] if len(outcomes) == 1 else None


def facts_of_outcome(outcome: Outcome) -> Record:
    """What a reader of a run needs to know of one outcome."""
    return {
        "metric": outcome.metric.name,
        "filter": outcome.filter,
        "label": outcome.metric.label,
        "key": outcome.results_key,
        "scale": outcome.metric.scale.to_dict(),
        "weight": outcome.weight,
    }


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
