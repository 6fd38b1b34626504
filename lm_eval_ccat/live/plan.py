"""`Plan`: all a ranking needs to start: outcomes, weights, prices, known results, identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..bank import ItemBank
from ..bank.file import located, public_banks
from ..bank.outcome import Outcome
from ..bank.settings import SAMPLED, check_prompts, sampling
from ..bank.suite import SuiteBank
from ..errors import BankError, CcatError, UsageError
from ..harness import TaskSession, internals
from ..harness.task_metrics import blank_outcome, leading, outcome_of, script_note
from ..methods.belief import POPULATION, RUN
from ..methods.method import method_of
from ..metrics.scale import Scale
from ..money import UNKNOWN, Tokens, estimate_tokens
from ..plugins import did_you_mean
from ..ranker import Ranker, StoppingRule
from ..ranker.contents import scale_of
from ..ranker.headline import WEIGHTED_MEAN
from ..ranker.references import KnownMean
from ..ranker.turns import first_items
from ..records import Header, Item
from ..runs.book import PROMPTS, Tally
from ..runs.directory import make_ranker
from ..scores import ScoreTable
from ..scores.reading import Query
from ..upkeep.borrow import borrow_from
from ..upkeep.update import of_others
from .earlier import known_means
from .fields import Donors, Weighting
from .models import Measured, check_session
from .spec import Spec
from .tasks import open_plain

Bank = ItemBank | str | Path | Mapping[str, Any]
#: Key of a run's identity that shows whether the same code scores the answers.
SCORING = "scoring_code_sha256"


@dataclass(frozen=True)
class Forecast:
    """Expected cost of one model's documents.

    ``mean`` is the cost of a document whose answer is as long as the reference, ``largest`` that of
    the dearest one with an answer at the token limit, both in the budget's currency; ``known`` is
    False if the model has no price.
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
        Outcomes of every answer to the task.
    sessions : dict of task to TaskSession
        Sessions for reading documents and prompts; they may lack a model.
    prices : dict of model to float
        Price of one unit, in `currency`.
    units : dict of item to float, or None
        Relative size of each item.
    forecasts : dict of model to Forecast
    currency : {"items", "usd"}
    known : dict of model to KnownMean, or None
    weights : dict of task to float
        Weights of several tasks in the score that ranks the models.
    groups : dict of name to (dict of task to float)
        Groups of tasks whose scores are also reported, with their own weights.
    warnings : tuple of str
        Warnings about the banks.
    accepted : tuple of str
        Differences from the banks that the user accepts.
    of_harness : dict of name to Group
        Groups of the tasks, as the harness defines them.
    rule : StoppingRule or None
        Stopping rule that replaces the one of ``stop:``.
    """

    spec: Spec
    measured: dict[str, dict[str, Outcome]]
    sessions: dict[str, TaskSession]
    prices: dict[str, float] = field(default_factory=dict)
    units: dict[Item, float] | None = None
    forecasts: dict[str, Forecast] = field(default_factory=dict)
    currency: str = "items"
    known: dict[str, KnownMean] | None = None
    weights: dict[str, float] = field(default_factory=dict)
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    of_harness: dict[str, Any] = field(default_factory=dict)
    rule: StoppingRule | None = None

    @property
    def sampled(self) -> bool:
        """Whether a second answer to a document may differ from the first; see `is_sampled`."""
        return is_sampled(self.spec, self.sessions.values())

    @property
    def title(self) -> str:
        """The task's name, or "all tasks"."""
        return self.outcome.task if len(self.measured) == 1 else "all tasks"

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome that counts most, by task."""
        return {task: leading(outcomes) for task, outcomes in self.measured.items()}

    @property
    def outcome(self) -> Outcome:
        """The leading outcome of the first task, the only one unless several are ranked."""
        return next(iter(self.outcomes.values()))

    @property
    def every(self) -> list[Outcome]:
        """All outcomes of all tasks."""
        return [outcome for outcomes in self.measured.values() for outcome in outcomes.values()]

    @property
    def alone(self) -> Outcome | None:
        """The only outcome, or None if there are several."""
        return self.every[0] if len(self.every) == 1 else None

    @property
    def banks(self) -> ItemBank | dict[str, dict[str, ItemBank]]:
        """The banks that the Ranker ranks on."""
        if only := self.alone:
            return only.bank
        return {
            t: {k: o.bank for k, o in outcomes.items()} for t, outcomes in self.measured.items()
        }

    @property
    def scale(self) -> Scale:
        """Scale of the ranking: the one that all steering outcomes share, else [0, 1]."""
        return scale_of(self._steering)

    @property
    def label(self) -> str:
        """The metric of the ranking, in a few words."""
        labels = list(dict.fromkeys(o.metric.label for o in self._steering))
        return labels[0] if len(labels) == 1 else f"{WEIGHTED_MEAN} of {', '.join(labels)}"

    @property
    def key(self) -> str:
        """The key of the ranked score in results: of one outcome, or of a weighted mean."""
        keys = list(dict.fromkeys(o.results_key for o in self._steering))
        return keys[0] if len(keys) == 1 else f"{WEIGHTED_MEAN} of {' and '.join(keys)}"

    @property
    def _steering(self) -> list[Outcome]:
        return [outcome for outcome in self.every if outcome.weight > 0.0]

    @property
    def budget(self) -> float | None:
        """The Ranker's budget, in `currency`; a budget in seconds is not among its arguments."""
        return self.spec.budget.get("usd", self.spec.budget.get("items"))

    @property
    def warmup(self) -> int:
        """Items of every task that each model gets first; fewer with several tasks."""
        return first_items(len(self.measured), self.spec.warmup)

    @property
    def first(self) -> int:
        """Items of all tasks that each model gets first, whatever its limits."""
        return sum(min(self.warmup, o.bank.n_items) for o in self.outcomes.values())

    @property
    def seconds(self) -> float | None:
        """The budget in seconds, or None."""
        return self.spec.budget.get("seconds")

    def usd_of_lost(self, model: str, item: Item, column: str, tally: Tally) -> float | None:
        """Return what to count for an attempt without an answer; None if no price is known.

        The model's answers tell (`Costs.of_lost`); before the first one, its price at the token
        limit does.
        """
        if (usd := tally.costs[model].of_lost(column)) is not None:
            return usd
        forecast = self.forecasts[model]
        if not forecast.known:
            return None
        assumed = forecast.mean * (1.0 if self.units is None else self.units[item])
        return forecast.largest if column == UNKNOWN else assumed

    def charge(
        self, model: str, tokens: Tokens | None, seconds: float, judged: float, prior: bool = False
    ) -> tuple[float, float | None]:
        """Return (cost in `currency`, dollars or None) of one answer, including its judging.

        An answer that was paid for before (`prior`) costs only what judging it costs now.
        """
        price, judge = self.spec.model(model).price, self.spec.judge.item
        usd = None
        if price.known or (tokens is not None and tokens.usd is not None):
            usd = judged if judge is None else judge
            usd += 0.0 if prior else price.cost(tokens, seconds)
        if self.currency == "usd" and usd is not None:
            return usd, usd
        return 0.0 if prior else 1.0, usd

    def ranker_arguments(self) -> dict[str, Any]:
        """Return the Ranker's arguments, as JSON values for the journal's header."""
        spec, several, units = self.spec, not self.alone, None
        if self.units is not None:  # in bank order
            by_task = {
                task: [self.units[task, d] for d in o.bank.doc_ids]
                for task, o in self.outcomes.items()
            }
            units = by_task if several else by_task[self.outcome.task]
        return {
            "models": self.prices,
            "units": units,
            "warmup": self.warmup,
            "budget": self.budget,
            "stop": spec.stop,
            "known": self.known,
            "options": dict(spec.options),
            **spec.for_the_ranker(),
            **({"sampled": True} if self.sampled else {}),
            **({"weights": self.shares()} if several else {}),
            **({"groups": self.groups} if self.groups else {}),
        }

    def shares(self) -> dict[str, dict[str, float]]:
        """Return the weight of each outcome: the task's weight, divided by the outcomes' own."""
        sizes = {task: float(o.bank.n_items) for task, o in self.outcomes.items()}
        weights = {}
        for task, outcomes in self.measured.items():
            share = (self.weights or sizes)[task] / sum(o.weight for o in outcomes.values())
            weights[task] = {name: share * o.weight for name, o in outcomes.items()}
        return weights

    def items(self) -> list[Item]:
        """Return all items, in bank order."""
        return [(task, d) for task, o in self.outcomes.items() for d in o.bank.doc_ids]

    def documents(self) -> list[Item]:
        """Return all documents of the tasks, including those that no bank has."""
        return [(task, d) for task, s in self.sessions.items() for d in s.doc_ids]

    @property
    def offered(self) -> list[Item]:
        """Items that the Ranker may ask: those that the bank of a weighted outcome keeps."""
        offered = [
            np.logical_or.reduce([o.bank.kept for o in outcomes.values() if o.weight > 0.0])
            for outcomes in self.measured.values()
        ]
        return [item for item, k in zip(self.items(), np.concatenate(offered)) if k]

    def new_ranker(self, header: Header | None = None) -> Ranker:
        """Return a Ranker in its initial state, of a run with this `header` if there is one."""
        if header is None:
            header = Header(task={"name": self.outcome.task}, ranker=self.ranker_arguments())
        rule = {} if self.rule is None else {"stop": self.rule}
        return make_ranker(self.banks, replace(header, ranker={**header.ranker, **rule}))

    def facts(self) -> Header:
        """Return what a reader of the run needs to know about it."""
        of_each = {
            t: {k: facts_of_outcome(o) for k, o in outcomes.items()}
            for t, outcomes in self.measured.items()
        }
        return Header(
            bank_sha256="+".join(o.bank.sha256 for o in self.every),
            task={
                "name": "+".join(self.outcomes),
                "metric": self.outcome.metric.name,
                "filter": self.outcome.filter,
            },
            versions={"lm_eval_ccat": __version__, "lm_eval": internals.harness_version()},
            report={
                "metric": self.label,
                "key": self.key,
                "scale": self.scale.to_dict(),
                "estimand": self.estimand,
                "currency": self.currency,
                **({"accepted": list(self.accepted)} if self.accepted else {}),
                **({} if self.alone else {"outcomes": of_each}),
            },
        )

    def identity(self) -> Header:
        """Return the journal's header: `facts`, and what must be unchanged to resume the run."""
        facts, sessions = self.facts(), self.sessions
        hashes = [hash for session in sessions.values() for hash in session.doc_hashes]
        settings: dict[str, Any] = {
            task: dict(session.settings) for task, session in sessions.items()
        }
        if len(sessions) == 1:
            [settings] = settings.values()
        task = {
            **facts.task,
            "documents": len(self.documents()),
            "documents_sha256": _sha("".join(map(str, hashes))),
            "prompts": {task: list(s.marks.values()) for task, s in sessions.items()},
            SCORING: _sha("".join(internals.scoring_code(s.task) for s in sessions.values())),
            **{k: v for k, v in facts.report.items() if k == "outcomes"},
            "settings": json.loads(json.dumps(settings, default=str)),
        }
        config, arguments = self.spec.public(), self.ranker_arguments()
        return replace(facts, config=config, task=task, ranker=arguments)

    @property
    def estimand(self) -> str:
        """Say in words what the estimates estimate."""
        n = sum(o.bank.n_items for o in self.outcomes.values())
        what = " and the ".join(dict.fromkeys(o.metric.in_words for o in self._steering))
        if " and the " in what:
            what = f"weighted mean of the {what}, each on [0, 1],"
        population = self.spec.question == POPULATION
        which = f"documents like these {n}" if population else f"all {n} documents"
        tasks = ", ".join(self.outcomes)
        if self.sampled and self.spec.question != RUN:
            return f"Estimates are of the expected {what} as configured, over {which} of {tasks}"
        return f"Estimates are of the {what} over {which} of {tasks}"


def is_sampled(spec: Spec, sessions: Iterable[TaskSession]) -> bool:
    """Return whether some answers are sampled: by a task's settings, or by what a model type sends.

    The harness sends temperature 0 where a task sets none.
    """
    generating = [
        session for session in sessions if internals.output_type(session.task) == "generate_until"
    ]
    drawn = any(
        sampling(session.config.get("generation_kwargs") or {})[0] == SAMPLED
        for session in generating
    )
    always = any(internals.always_samples(m.model or "", m.model_args) for m in spec.models)
    return bool(generating) and (drawn or always)


def make_plan(spec: Spec) -> Plan:
    """Load and check everything that a ranking needs, without loading a model.

    Raises
    ------
    UsageError
        Options conflict, such as a budget in dollars with a model whose price is unknown.
    CcatError
        The bank, the task and the metric do not fit together.
    """
    currency_of(spec)  # refuse what has no price before loading the task
    bank: Bank = spec.bank
    if isinstance(bank, str | Path) and bank and not located(bank).is_dir():
        bank = ItemBank.load(bank)  # refuse a missing file before loading the task
    sessions, groups = open_plain(spec)
    if isinstance(bank, Donors):
        bank = _borrowed(bank, spec, list(sessions))
    if spec.weights and len(sessions) == 1:
        raise UsageError("`weights:` is for several tasks; put weights of metrics into `metrics:`")
    names = [m.name for m in spec.models]
    measured: dict[str, dict[str, Outcome]] = {}
    warnings: list[str] = []
    accepted: list[str] = []
    noise: dict[str, None] = {}
    for task, session in sessions.items():
        measured[task], warned = measure(bank, spec.metrics, session, names, len(sessions) == 1)
        if bank:  # a model repeats it with its own template; a bank that fits none loads no weights
            check_session(measured[task], session, PROMPTS in spec.accept_change)
        measured[task], agreed, doubts = as_prompted(measured[task], session, spec.accept_change)
        accepted += agreed
        warnings += warned
        noise |= dict.fromkeys(doubts)
        scored = measured[task].values()
        noise |= dict.fromkeys(script_note(session.task, o.metric.name) for o in scored)
    if len(warnings) > 1:  # one per task of a group would hide all other warnings
        warnings[1:] = [f"the same holds for {len(warnings) - 1} more banks"]
    warnings += [*filter(None, noise), *accepted]
    weights: dict[str, float] = {}
    reported: dict[str, dict[str, float]] = {}
    if len(sessions) > 1:
        sizes = {task: float(leading(outcomes).bank.n_items) for task, outcomes in measured.items()}
        inner = {name: _own_weights(group, measured) for name, group in groups.items()}
        weights = task_weights(spec.weights, sizes, inner)
        reported = {
            name: task_weights_of
            for name, task_weights_of in inner.items()
            if 1 < len(task_weights_of) < len(measured)
        }
    sampled = is_sampled(spec, sessions.values())
    known = known_means(spec, measured, names, weights, sampled=sampled)
    return plan_of(
        spec, measured, sessions, known, weights,
        groups=reported, warnings=tuple(warnings), accepted=tuple(accepted),
        of_harness=dict(groups),
    )  # fmt: skip


def _borrowed(donors: Donors, spec: Spec, tasks: list[str]) -> ItemBank:
    if len(tasks) > 1 or len(spec.metrics) > 1:
        raise UsageError(
            "`bank:` with `borrow:` takes one task and one metric: make a bank for each with "
            "`lm-eval-ccat calibrate --borrow`"
        )
    name, _, filtered = next(iter(spec.metrics), "").partition(",")
    query = Query(name or None, tasks[0], filtered or None)
    full = donors.full and ScoreTable.read(donors.full, query.metric, query.task, query.filter)
    _, bank = borrow_from(donors.paths, full or None, query)
    # Drop the date: a run is identified by its bank, so equal scores must give equal banks.
    return replace(bank, made=None)


def plan_of(
    spec: Spec,
    measured: Mapping[str, dict[str, Outcome]],
    sessions: Mapping[str, TaskSession],
    known: dict[str, KnownMean] | None = None,
    weights: Mapping[str, float] | None = None,
    **attributes: Any,
) -> Plan:
    """Make the plan of a ranking whose tasks are loaded, with further attributes of `Plan`.

    Raises
    ------
    UsageError
        A money budget with a model whose price is unknown.
    """
    currency = currency_of(spec)
    expected: dict[Item, tuple[Tokens, Tokens]] = {}
    if any(m.price.known for m in spec.models):  # this needs the prompt of every document
        for task, outcomes in measured.items():
            for doc, lengths in expected_tokens(
                sessions[task], leading(outcomes).bank.doc_ids
            ).items():
                expected[task, doc] = lengths
    forecasts = {}
    for model in spec.models:
        mean = largest = 1.0
        if model.price.known:
            judged = spec.judge.item or 0.0
            # Assume one second per document until it is measured; observed costs correct it.
            costs = [model.price.cost(tokens, 1.0) + judged for tokens, _ in expected.values()]
            largest = max(model.price.cost(tokens, 1.0) for _, tokens in expected.values())
            mean, largest = sum(costs) / len(costs), max(largest + judged, *costs)
        forecasts[model.name] = Forecast(mean, largest, model.price.known)
    prices, units = dict.fromkeys(forecasts, 1.0), None
    if currency == "usd":
        prices = {name: forecast.mean for name, forecast in forecasts.items()}
        if all(m.price.by_tokens for m in spec.models):
            units = _sizes(spec, expected)
    return Plan(
        spec, dict(measured), dict(sessions), prices, units, forecasts, currency, known,
        dict(weights or {}), **attributes,
    )  # fmt: skip


def with_public_bank(plan: Plan) -> Plan | None:
    """Return a plan without a bank with the public one that fits its tasks; None if none does.

    It fits if it has banks of all tasks by the same metrics and filters, and documents and
    settings agree.
    """
    spec, names = plan.spec, [model.name for model in plan.spec.models]
    for name, folder in public_banks().items():
        if not set(plan.sessions) <= set(SuiteBank.tasks(folder)):
            continue
        measured: dict[str, dict[str, Outcome]] = {}
        try:
            for task, session in plan.sessions.items():
                outcomes, _ = measure(name, spec.metrics, session, names, len(plan.sessions) == 1)
                check_session(outcomes, session)
                measured[task], _, _ = as_prompted(outcomes, session, spec.accept_change)
        except CcatError:
            continue
        keys = [leading(outcomes).results_key for outcomes in measured.values()]
        if keys == [outcome.results_key for outcome in plan.outcomes.values()]:
            return replace(plan, spec=replace(spec, bank=name), measured=measured)
    return None


def currency_of(spec: Spec) -> str:
    """Return "usd" if every price is known and the budget is not in items, else "items".

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


def expected_tokens(session: TaskSession, docs: Sequence[Any]) -> dict[Any, tuple[Tokens, Tokens]]:
    """Estimate the tokens of each document, from the lengths of its prompt and its reference.

    The second of each pair is for answers at the token limit.
    """
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
        limit = session.token_limit * session.n_requests(doc) if generates else 0.0
        expected[doc] = Tokens(read, written, "estimate"), Tokens(read, limit, "estimate")
    return expected


def _sizes(spec: Spec, expected: Mapping[Item, tuple[Tokens, Tokens]]) -> dict[Item, float] | None:
    """Return the relative cost of each document if every model is paid by the token; mean 1."""
    read = sum(m.price.input or 0.0 for m in spec.models)
    written = sum(m.price.output or 0.0 for m in spec.models)
    sizes = {item: read * t.input + written * t.output for item, (t, _) in expected.items()}
    mean = sum(sizes.values()) / len(sizes)
    return {item: max(s / mean, 1e-3) for item, s in sizes.items()} if mean > 0.0 else None


def facts_of_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return what a reader of a run needs to know about one outcome."""
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


# -- outcomes, banks and weights -------------------------------------------------------------------


def measure(
    bank: Bank,
    metrics: Mapping[str, float],
    session: TaskSession,
    models: Collection[str],
    only: bool,
) -> tuple[dict[str, Outcome], list[str]]:
    """Return the outcomes to measure on one task, by name, and warnings about their banks.

    Parameters
    ----------
    bank, only
        As `banks_of` takes them; "" means no bank: items are drawn at random.
    metrics : mapping of str to float
        Weights by metric (``"exact_match,strict-match"`` with its filter). Empty for the bank's
        metric, or else the task's first metric with a score per document.
    session : TaskSession
    models : collection of str
        Models to measure. Their scores are left out of a bank that was calibrated on them.

    Raises
    ------
    UsageError
        A bank is missing for one of the metrics, or for the task.
    CcatError
        A bank, the task and a metric do not fit together.
    """
    outcomes: dict[str, Outcome] = {}
    if not bank:
        for name, weight in (metrics or {"": 1.0}).items():
            metric, _, filter = name.partition(",")
            outcome = blank_outcome(session, metric or None, filter or None)
            outcomes[name or outcome.metric.name] = replace(outcome, weight=weight)
        return outcomes, []
    banks = banks_of(bank, session.name, only)
    if not banks:
        raise UsageError(
            f"there is no bank of task {session.name}; give one with --bank {session.name}=FILE, "
            "name a folder that holds one, or remove the task"
        )
    warnings: dict[str, None] = {}
    for name, weight in (metrics or dict.fromkeys(banks, 1.0)).items():
        for key, known in banks.items():
            if name in (key, known.metric, f"{known.metric},{known.filter or 'none'}"):
                break
        else:
            raise UsageError(
                f"there is no bank of metric {name} for task {session.name}, only of "
                f"{', '.join(banks)}; calibrate one for each metric, or rank without bank:"
            )
        outcome = outcome_of(known, session)
        bank_of_others, warning = of_others(known, models)
        outcomes[name] = replace(outcome, bank=bank_of_others, weight=weight)
        warnings |= {warning: None} if warning else {}
    return outcomes, list(warnings)


def as_prompted(
    outcomes: Mapping[str, Outcome], session: TaskSession, accepted: Collection[str]
) -> tuple[dict[str, Outcome], list[str], list[str]]:
    """Compare the prompts of a task's banks with those of its session.

    Returns
    -------
    outcomes : dict of str to Outcome
        With a wide prior where other prompts are accepted.
    accepted, doubts : list of str
        Differences that the user accepts, and what is not known of the prompts.

    Raises
    ------
    BankMismatchError
        See `check_prompts`.
    """
    prompted: dict[str, Outcome] = {}
    agreed: dict[str, None] = {}
    doubts: dict[str, None] = {}
    for name, outcome in outcomes.items():
        bank, agrees = outcome.bank, PROMPTS in accepted
        marks = session.marks_like(bank.marks) if bank.prompts else {}
        difference, doubt = check_prompts(bank, marks, agrees)
        if agrees and (difference or doubt):
            outcome = replace(outcome, bank=method_of(bank).doubted(bank))
            agreed[f"accepted: {difference or doubt}; the bank's prior is wide"] = None
        elif doubt:
            doubts[doubt] = None
        prompted[name] = outcome
    return prompted, list(agreed), list(doubts)


def banks_of(bank: Bank, task: str, only: bool = True) -> dict[str, ItemBank]:
    """Return one task's banks by metric; none if the banks are for other tasks.

    Parameters
    ----------
    bank : ItemBank, path, or mapping of task or metric to either
        As `Spec` has it.
    task : str
    only : bool
        Whether it is the only task; a single bank then counts as its bank, whatever task it
        names, and is checked against it later.

    Raises
    ------
    BankError
        A file is missing or damaged, or a folder holds no bank of the only task.
    """
    if isinstance(bank, Mapping) and task in bank:
        bank, only = bank[task], True
    if isinstance(bank, str | Path):
        if not bank:
            return {}
        if (place := located(bank)).is_dir():
            tasks = SuiteBank.tasks(place)
            if task not in tasks and only:
                raise BankError(f"{bank} has no bank of task {task}; it has: {', '.join(tasks)}")
            return dict(SuiteBank.load(place, [task])[task]) if task in tasks else {}
        bank = ItemBank.load(place)
    by_metric = {bank.metric: bank} if isinstance(bank, ItemBank) else bank
    loaded = {
        name: bank if isinstance(bank, ItemBank) else ItemBank.load(bank)
        for name, bank in by_metric.items()
        if isinstance(bank, ItemBank) or only
    }
    return {name: bank for name, bank in loaded.items() if only or bank.task == task}


def task_weights(
    weighting: Weighting, sizes: Mapping[str, float], inner: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return the weight of each task.

    Parameters
    ----------
    weighting : "", "documents", "equal", or mapping of task or group to float
        "" takes the harness's weights if all tasks belong to a single group, else weighs by
        documents. A group divides its weight, or its equal share, by its own weights.
    sizes : mapping of task to float
        Numbers of documents.
    inner : mapping of group to (mapping of task to float)
        Each group's own weights of those tasks that belong to it.

    Raises
    ------
    UsageError
        A name is neither task nor group, or a task has no weight, or two.
    """
    covering = [name for name, members in inner.items() if set(members) == set(sizes)]
    if not weighting:
        return dict(inner[covering[0]] if covering else sizes)
    if weighting == "documents":
        return dict(sizes)
    if weighting == "equal" and covering:  # a single group: equal tasks, whatever its subgroups
        weighting = dict.fromkeys(sizes, 1.0)
    elif weighting == "equal":
        member_sets = [set(members) for members in inner.values()]
        outer = [
            n
            for n, members in inner.items()
            if members and not any(set(members) < larger for larger in member_sets)
        ]
        inside = set().union(*(inner[name] for name in outer))
        weighting = dict.fromkeys([*outer, *(task for task in sizes if task not in inside)], 1.0)
    assert not isinstance(weighting, str)
    shares: dict[str, float] = {}
    for name, weight in weighting.items():
        if name not in sizes and name not in inner:
            hint = did_you_mean(name, [*sizes, *inner])
            raise UsageError(f"`weights.{name}`: no such task or group{hint}")
        parts = {name: 1.0} if name in sizes else inner[name]
        for task, part in parts.items():
            if task in shares:
                raise UsageError(f"`weights:` gives task {task} a weight twice")
            shares[task] = weight * part / sum(parts.values())
    if missing := [task for task in sizes if task not in shares]:
        raise UsageError(f"`weights:` gives task {missing[0]} no weight")
    return {task: shares[task] for task in sizes}


def weights_in(
    group: Any, metrics: Collection[str], sizes: Mapping[str, float]
) -> dict[str, float] | None:
    """Return a group's weights of its tasks; None if it aggregates none of these metrics.

    Parameters
    ----------
    group : Group
        Group of the harness.
    metrics : collection of str
    sizes : mapping of task to float
        Numbers of documents by task.
    """
    for config in group.aggregate_metric_list or ():
        if config.metric in metrics:
            return {t: size if config.weight_by_size else 1.0 for t, size in sizes.items()}
    return None


def _own_weights(group: Any, measured: Measured) -> dict[str, float]:
    """Return a group's own weights of its tasks: by documents, unless it weighs all alike."""
    names = dict.fromkeys(internals.task_name(task) for task in group.get_all_tasks())
    leaders = {name: leading(measured[name]) for name in names if name in measured}
    sizes = {name: float(outcome.bank.n_items) for name, outcome in leaders.items()}
    return weights_in(group, {o.metric.name for o in leaders.values()}, sizes) or sizes
