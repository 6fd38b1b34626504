"""What a ranking needs before it starts: bank, metric, prices, units, and what it will cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import BankMismatchError, UsageError
from ..harness.prices import Tokens, estimate_tokens
from .config import ModelConfig, RankConfig
from .models import probe_session

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..harness import TaskSession
    from ..metrics.registry import Metric
    from ..ranker import Ranker


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
    """A checked ranking, ready to run."""

    config: RankConfig
    bank: ItemBank
    metric: Metric
    filter: str
    probe: TaskSession
    prices: dict[str, float]
    units: dict[Any, float] | None
    forecasts: dict[str, Forecast]
    currency: str
    known: dict[str, float] | None = None

    @property
    def budget(self) -> float | None:
        """The Ranker's budget, in :attr:`currency`; a time budget is kept by the clock."""
        if "usd" in self.config.budget:
            return self.config.budget["usd"]
        return self.config.budget.get("items")

    def ranker_arguments(self) -> dict[str, Any]:
        """What the Ranker is made with, as JSON values for the journal's header."""
        config = self.config
        options: dict[str, Any] = dict(config.options)
        if config.information != "first":
            options["information"] = config.information
        if config.familywise:
            options["familywise"] = True
        units = self.units
        return {
            "models": self.prices,
            "units": None if units is None else [units[d] for d in self.bank.doc_ids],
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

    def new_ranker(self) -> Ranker:
        """A Ranker in its initial state."""
        from ..runs.rebuild import make_ranker

        return make_ranker(self.bank, self.ranker_arguments())

    def cost_of(self, entry: ModelConfig) -> Callable[[Tokens | None, float], float]:
        """The function by which one model's documents are charged."""
        if self.currency == "items":
            return lambda tokens, seconds: 1.0
        from ..harness.judge import take_cost

        stated = self.config.judge.item

        def cost(tokens: Tokens | None, seconds: float) -> float:
            measured = take_cost()  # by the judge's own price, in the thread that asked it
            return entry.price.cost(tokens, seconds) + (measured if stated is None else stated)

        return cost

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        from ..harness import internals

        config = self.config.public_dict()
        config.pop("bank")  # named by its content, not by where it lies
        docs = "".join(str(h) for h in self.probe.doc_hashes)
        prompts = "\x1e".join(p for d in self.probe.doc_ids for p in self.probe.prompts(d))
        return {
            "config": config,
            "bank_sha256": self.bank.sha256,
            "task": {
                "name": self.probe.name,
                "documents": len(self.probe.doc_ids),
                "documents_sha256": _sha(docs),
                "prompts_sha256": _sha(prompts),
                "metric": self.metric.name,
                "filter": self.filter,
                "settings": json.loads(json.dumps(self.probe.settings, default=str)),
            },
            "versions": {"lm_eval_ccat": __version__, "lm_eval": internals.harness_version()},
            "ranker": self.ranker_arguments(),
            "report": {
                "metric": self.metric.label,
                "key": self.metric.key(self.filter),
                "scale": self.metric.scale.to_dict(),
                "estimand": self.estimand,
                "currency": self.currency,
            },
        }

    @property
    def estimand(self) -> str:
        """What the estimates are estimates of, in words."""
        metric = self.metric
        what = f"mean {metric.name}"
        if metric.label.startswith("sentence_"):
            what = f"mean sentence-level {metric.name} (not the corpus {metric.name})"
        if metric.scale.cap is not None:
            what += f", each document's score capped at {metric.scale.cap:g},"
        n = self.bank.n_items
        return f"Estimates are of the {what} over all {n} documents of {self.probe.name}"


def make_plan(config: RankConfig) -> Plan:
    """Load and check everything that a ranking needs, without loading a model.

    Raises
    ------
    UsageError
        A money budget with a model whose price is unknown, for instance.
    CcatError
        The bank, the task or their metric cannot be used together.
    """
    from ..bank import ItemBank

    _require_prices(config)
    bank = ItemBank.load(config.bank)
    from .loop import metric_of

    probe = probe_session(config)
    metric = metric_of(bank, probe)
    if bank.filter is not None and bank.filter not in probe.filters:
        raise UsageError(
            f"the bank is of filter {bank.filter!r}; task {probe.name} has: "
            f"{', '.join(probe.filters)}"
        )
    filter = bank.filter or probe.filters[0]
    _check_probe(bank, probe)
    currency = _currency(config)
    expected = expected_tokens(probe, bank.doc_ids)
    forecasts = {m.name: _forecast(m, config, expected) for m in config.models}
    if currency == "items":
        prices, units = dict.fromkeys(forecasts, 1.0), None
    else:
        prices = {name: forecast.mean for name, forecast in forecasts.items()}
        units = _units(config, expected)
    known = None if config.known is None else _known_means(config, bank)
    return Plan(config, bank, metric, filter, probe, prices, units, forecasts, currency, known)


def _known_means(config: RankConfig, bank: ItemBank) -> dict[str, float]:
    """Full-benchmark means, on [0, 1], of the models whose results are known."""
    import numpy as np

    from ..scores import ScoreTable

    scale = bank.scale
    table = ScoreTable.read(
        str(config.known),
        metric=bank.metric,
        task=bank.task,
        filter=bank.filter,
        range=(scale.low, scale.high) if scale.cap is None else None,
        lower_is_better=not scale.higher_is_better,
    )
    there = {doc: i for i, doc in enumerate(table.doc_ids)}
    lacking = [doc for doc in bank.doc_ids if doc not in there]
    if lacking:
        raise UsageError(
            f"`known:` {config.known} has no scores on {len(lacking)} of the bank's "
            f"{bank.n_items} documents; known models need full results"
        )
    scores = table.model_scores()[:, [there[doc] for doc in bank.doc_ids]]
    new = {m.name for m in config.models}
    means = {}
    for name, row in zip(table.models, scores):
        if np.isnan(row).any():
            raise UsageError(
                f"`known:` model {name} lacks scores on {int(np.isnan(row).sum())} documents; "
                "known models need full results"
            )
        if name not in new:  # a model that is ranked is not known, whatever the table says
            means[name] = float(row.mean())
    return means


def _check_probe(bank: ItemBank, probe: TaskSession) -> None:
    """Refuse a bank of other documents before any model is loaded."""
    there = set(probe.doc_ids)
    lacking = [d for d in bank.doc_ids if d not in there]
    if lacking:
        raise BankMismatchError(
            f"task {probe.name} lacks {len(lacking)} of the bank's {bank.n_items} documents "
            f"(the first is doc_id {lacking[0]!r}); calibrate a bank on this task's logs"
        )


def check_session(bank: ItemBank, session: TaskSession) -> list[str]:
    """Compare the bank with the task as one model is asked it; warnings, or a refusal."""
    from ..bank.settings import check_bank

    return check_bank(
        bank,
        task=session.name,
        filters=session.filters,
        settings=session.settings,
        doc_ids=session.doc_ids,
        doc_hashes=session.doc_hashes,
    )


def _require_prices(config: RankConfig) -> None:
    if "usd" not in config.budget:
        return
    for model in config.models:
        if not model.price.known:
            raise UsageError(
                f"the budget is in money and the price of model {model.name} is unknown; add "
                "price: {input: .., output: ..} ($ per million tokens), {item: ..} or {hour: ..}"
            )


def _currency(config: RankConfig) -> str:
    if "items" in config.budget:
        return "items"
    return "usd" if all(m.price.known for m in config.models) else "items"


def expected_tokens(probe: TaskSession, docs: Sequence[Any]) -> dict[Any, Tokens]:
    """What each document is expected to take, from the lengths of its prompt and its reference."""
    documents = probe.task.eval_docs
    generates = probe.task.OUTPUT_TYPE == "generate_until"
    expected = {}
    for doc in docs:
        prompts = probe.prompts(doc)
        repeats = probe.n_requests(doc) / len(prompts)
        written = 0.0
        if generates:
            target = probe.task.doc_to_target(documents[doc])
            text = target[0] if isinstance(target, list) and target else target
            written = max(1.0, estimate_tokens(str(text))) * probe.n_requests(doc)
        read = sum(map(estimate_tokens, prompts)) * repeats
        expected[doc] = Tokens(read, written, "estimate")
    return expected


def _forecast(model: ModelConfig, config: RankConfig, expected: Mapping[Any, Tokens]) -> Forecast:
    if not model.price.known:
        return Forecast(1.0, 1.0, False)
    judge = config.judge.item or 0.0
    # One second for a document stands for a time not measured yet; costs told correct it.
    costs = [model.price.cost(tokens, 1.0) + judge for tokens in expected.values()]
    return Forecast(sum(costs) / len(costs), max(costs), True)


def _units(config: RankConfig, expected: Mapping[Any, Tokens]) -> dict[Any, float] | None:
    """Relative size of each document where every model is paid by the token; mean 1."""
    if not all(m.price.by_tokens for m in config.models):
        return None
    read = sum(m.price.input or 0.0 for m in config.models)
    written = sum(m.price.output or 0.0 for m in config.models)
    sizes = {doc: read * t.input + written * t.output for doc, t in expected.items()}
    mean = sum(sizes.values()) / len(sizes)
    if mean <= 0.0:
        return None
    return {doc: max(size / mean, 1e-3) for doc, size in sizes.items()}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
