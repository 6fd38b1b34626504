"""What a ranking needs before it starts: outcomes, prices, known results, its identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import __version__
from ..bank import ItemBank
from ..bank.settings import check_bank
from ..harness import TaskSession, internals
from ..harness.outcome import Outcome
from ..harness.prices import Tokens
from ..ranker import Ranker
from ..runs.rebuild import make_ranker
from .config import ModelConfig, RankConfig
from .known import KnownMean, known_means, read_known
from .money import (
    Forecast,
    Till,
    currency_of,
    expected_tokens,
    forecast_of,
    sizes_of,
    till_of,
)
from .tasks import probe_session
from .worker import Item


@dataclass(frozen=True)
class Plan:
    """A checked ranking, ready to run.

    Attributes
    ----------
    config : RankConfig
    outcomes : dict of task to Outcome
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
    """

    config: RankConfig
    outcomes: dict[str, Outcome]
    sessions: dict[str, TaskSession]
    prices: dict[str, float]
    units: dict[Item, float] | None
    forecasts: dict[str, Forecast]
    currency: str
    known: dict[str, KnownMean] | None = None
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """The first task's, the only one unless several tasks are ranked together."""
        return next(iter(self.outcomes.values()))

    @property
    def bank(self) -> ItemBank:
        """Of `outcome`."""
        return self.outcome.bank

    @property
    def session(self) -> TaskSession:
        """Of `outcome`."""
        return self.sessions[self.outcome.task]

    @property
    def budget(self) -> float | None:
        """The Ranker's budget, in `currency`; a time budget is kept by the clock."""
        return self.config.budget.get("usd", self.config.budget.get("items"))

    @property
    def seconds(self) -> float | None:
        """The time budget."""
        return self.config.budget.get("seconds")

    def expected_cost(self, model: str, item: Item) -> float:
        """What an attempt counts of which nobody knows whether it was billed.

        Nothing where the budget counts documents: one without an answer is none.
        """
        if self.currency == "items":
            return 0.0
        return self.prices[model] * (1.0 if self.units is None else self.units[item])

    def till(self, entry: ModelConfig) -> Till:
        """What charges one model's documents."""
        return till_of(entry, self.config, self.currency)

    def ranker_arguments(self) -> dict[str, Any]:
        """What the Ranker is made with, as JSON values for the journal's header."""
        config, units = self.config, self.units
        options: dict[str, Any] = dict(config.options)
        if config.information != "first":
            options["information"] = config.information
        if config.familywise:
            options["familywise"] = True
        found = {
            "models": self.prices,
            "units": None if units is None else [units[item] for item in self.items()],
            "confidence": config.confidence,
            "warmup": config.warmup,
            "budget": self.budget,
            "max_items": config.max_items,
            "seed": config.seed,
            "target_se": config.target_se,
            "stop_when_decided": config.stop_when_decided,
            "audit": config.audit,
            "exposure": config.exposure,
            "known": self.known,
            "options": options,
        }
        # As before they were there, where nobody asks for them.
        goals = {"rank_width": config.rank_width, "percentile": config.percentile}
        return {**found, **{name: goal for name, goal in goals.items() if goal is not None}}

    def items(self) -> list[Item]:
        """Every item, in bank order."""
        if len(self.outcomes) == 1:
            return list(self.bank.doc_ids)
        return [(task, d) for task, o in self.outcomes.items() for d in o.bank.doc_ids]

    @property
    def offered(self) -> list[Item]:
        """Items that the bank lets be asked."""
        kept = [k for outcome in self.outcomes.values() for k in outcome.bank.kept]
        return [item for item, k in zip(self.items(), kept) if k]

    def new_ranker(self) -> Ranker:
        """A Ranker in its initial state."""
        arguments = self.ranker_arguments()
        if len(self.outcomes) == 1:
            return make_ranker(self.bank, arguments)
        banks = {task: outcome.bank for task, outcome in self.outcomes.items()}
        by_task = None
        if self.units is not None:
            by_task = {t: {d: self.units[t, d] for d in b.doc_ids} for t, b in banks.items()}
        return make_ranker(banks, {**arguments, "units": by_task, "weights": self.weights})

    def facts(self) -> dict[str, Any]:
        """What a reader of the run needs to know of it, as JSON values."""
        outcome = self.outcome
        return {
            "bank_sha256": "+".join(o.bank.sha256 for o in self.outcomes.values()),
            "task": {"name": "+".join(self.outcomes)},
            "versions": {"lm_eval_ccat": __version__, "lm_eval": internals.harness_version()},
            "report": {
                "metric": outcome.metric.label,
                "key": outcome.key,
                "scale": outcome.metric.scale.to_dict(),
                "estimand": self.estimand,
                "currency": self.currency,
            },
        }

    def identity(self) -> dict[str, Any]:
        """The journal's header: `facts`, and what must be the same for a run to be resumed."""
        config = self.config.public_dict()
        config.pop("bank")  # named by its content, not by where it lies
        outcome, sessions, facts = self.outcome, self.sessions.values(), self.facts()
        docs = "".join(str(h) for s in sessions for h in s.doc_hashes)
        prompts = "\x1e".join(p for s in sessions for d in s.doc_ids for p in s.prompts(d))
        task = {
            **facts["task"],
            "documents": sum(len(s.doc_ids) for s in sessions),
            "documents_sha256": _sha(docs),
            "prompts_sha256": _sha(prompts),
            "metric": outcome.metric.name,
            "filter": outcome.filter,
            "settings": json.loads(json.dumps(self.session.settings, default=str)),
        }
        return {**facts, "config": config, "task": task, "ranker": self.ranker_arguments()}

    @property
    def estimand(self) -> str:
        """What the estimates are estimates of, in words."""
        n, task = self.bank.n_items, self.outcome.task
        return f"Estimates are of the {self.outcome.in_words} over all {n} documents of {task}"


def make_plan(config: RankConfig) -> Plan:
    """Load and check everything that a ranking needs, without loading a model.

    Raises
    ------
    UsageError
        A money budget with a model whose price is unknown, for instance.
    CcatError
        The bank, the task or their metric cannot be used together.
    """
    currency_of(config)  # what cannot be paid is said before the task is loaded
    if config.bank:
        bank = ItemBank.load(config.bank)
        session = probe_session(config)
        outcome = Outcome.of(bank, session)
    else:
        session = probe_session(config)
        outcome = Outcome.without_bank(session, *config.metrics)
        bank = outcome.bank
    known = None
    if config.known is not None:
        known = known_means(
            read_known(config.known, bank),
            bank,
            [m.name for m in config.models],
            config.known_sampled,
        )
    return plan_of(config, {outcome.task: outcome}, {outcome.task: session}, known)


def plan_of(
    config: RankConfig,
    outcomes: Mapping[str, Outcome],
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
    currency = currency_of(config)
    several = len(outcomes) > 1
    expected: dict[Item, Tokens] = {}
    if any(m.price.known for m in config.models):  # it takes the prompt of every document
        expected = {
            ((task, doc) if several else doc): tokens
            for task, outcome in outcomes.items()
            for doc, tokens in expected_tokens(sessions[task], outcome.bank.doc_ids).items()
        }
    forecasts = {m.name: forecast_of(m, config, expected) for m in config.models}
    if currency == "items":
        prices, units = dict.fromkeys(forecasts, 1.0), None
    else:
        prices = {name: forecast.mean for name, forecast in forecasts.items()}
        units = sizes_of(config, expected)
    return Plan(
        config, dict(outcomes), dict(sessions), prices, units, forecasts, currency, known,
        dict(weights or {}),
    )  # fmt: skip


def check_session(bank: ItemBank, session: TaskSession) -> list[str]:
    """Compare a bank with the task as one model is asked it; warnings, or a refusal.

    Raises
    ------
    BankMismatchError
        See `check_bank`.
    """
    return check_bank(
        bank,
        task=session.name,
        filters=session.filters,
        settings=session.settings,
        doc_ids=session.doc_ids,
        doc_hashes=session.doc_hashes,
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
