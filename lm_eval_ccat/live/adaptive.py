"""Adaptive runs of one model that is already loaded, as rankings of that model alone.

Tasks of a group with a common score are ranked together: documents go where the group's score
needs them, until its standard error is reached or its budget is spent. Other tasks are run one
after the other, each with an equal part of what is left of the budget.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..bank.outcome import Outcome
from ..bank.suite import SuiteBank
from ..errors import UsageError
from ..files import safe_name
from ..harness import internals
from ..harness.assembly import TaskRun
from ..harness.outcomes import leading
from ..harness.session import TaskSession
from ..methods.belief import POPULATION
from ..ranker.references import KnownMean
from ..ranker.stopping import Percentile, RankWidth, TopDecided
from ..runs.directory import RunDirectory
from .earlier import KnownResults
from .entries import ModelSpec
from .fields import BUDGETS
from .forecast import target_in_words
from .keep import refuse_file
from .models import SessionModel, check_session
from .observer import Observer
from .outcomes import apart_from, measure, weights_in
from .plan import plan_of
from .run import Run
from .spec import Spec
from .task_runs import task_runs

log = logging.getLogger("lm_eval.ccat")  # under the harness's, so as its user set it


#: Options of rankings of several models.
OF_RANKINGS = ("tasks", "task", "models", "weights", "memory")
#: The name of the one model in its ranking.
MODEL = "model"
#: Standard error at which a run stops that is told of nothing else to stop by: an interval of
#: about 4 points of 100 to either side.
TARGET = "se 0.02"


@dataclass(frozen=True)
class Adaptive:
    """Options of an adaptive run of one model.

    Attributes
    ----------
    spec : Spec
        Of all its tasks; without tasks and models, which the harness loads.
    run_dir : path or None
        Where the journal is kept; None keeps it in memory.
    resume : bool
        Go on with what `run_dir` holds.
    known : KnownResults or None
        Full results of other models: each task is run until the model's place is decided.
    """

    spec: Spec = field(default_factory=Spec)
    run_dir: Any = None
    resume: bool = False
    known: KnownResults | None = None

    @classmethod
    def read(
        cls,
        values: Mapping[str, Any],
        folder: Path | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Adaptive:
        """Read options as ``--metadata '{"adaptive": {...}}'`` and ``adaptive=`` give them.

        Parameters
        ----------
        values : mapping
            Options of `Spec`, ``run_dir`` and ``resume``; ``budget_items`` and the like too.
        folder : Path, optional
            Beside which paths are looked for first.
        warn : callable, optional
            Is told of keys of earlier versions; default the log.

        Raises
        ------
        UsageError
            An unknown key, a value out of range, or options that do not go together.
        """
        options = dict(values)
        run_dir, resume = options.pop("run_dir", None), bool(options.pop("resume", False))
        for kind in BUDGETS:
            if (amount := options.pop(f"budget_{kind}", None)) is not None:
                options["budget"] = {**(options.get("budget") or {}), kind: amount}
        for key in OF_RANKINGS:
            if options.get(key) is not None:
                raise UsageError(f"`{key}` is for a ranking of several models, not for one")
        spec = Spec.read(options, folder=folder, warn=warn or log.warning)
        if spec.known is None:
            for rule in spec.rule.parts():
                if isinstance(rule, TopDecided | RankWidth | Percentile):
                    raise UsageError(
                        f"stop {spec.stop!r} ranks the model among others; give their full "
                        "results as leaderboard"
                    )
        if "usd" in spec.budget and not spec.price.known:
            raise UsageError(
                "a budget in usd needs the model's price: --price input=... output=..."
            )
        limits = (spec.budget or None, spec.max_items, spec.known)
        if options.get("stop") is None and spec.stop == "decided" and limits == (None, None, None):
            spec = replace(spec, stop=TARGET)
        elif spec.target_se is not None and spec.known is None:
            spec = replace(spec, stop=spec.stop.replace("decided and ", ""))
        known = None if spec.known is None else KnownResults(spec.known)
        return cls(spec, run_dir, resume, known)

    def require_files(self) -> None:
        """Refuse banks and full results that cannot be read, before a model is loaded.

        Raises
        ------
        BankError
            A bank is missing or damaged, or a folder holds none.
        ScoreTableError, ScaleError, UsageError
            See `KnownResults.of_task`.
        """
        of_tasks = self.spec.bank
        for task, bank in of_tasks.items() if isinstance(of_tasks, Mapping) else [("", of_tasks)]:
            if isinstance(bank, str | Path) and bank:
                banks = SuiteBank.load(bank)
                if self.known is not None and len(banks) == 1:
                    [(name, [only, *_])] = ((name, list(of.values())) for name, of in banks.items())
                    self.known.of_task(task or name, only)

    def of_tasks(self, names: Sequence[str], budget: Mapping[str, float]) -> Spec:
        """The options of a ranking of this one model on tasks that are ranked together.

        Parameters
        ----------
        names : sequence of str
        budget : mapping
            This ranking's part of the budget.
        """
        spec, n = self.spec, len(names)
        limits = [spec.warmup]
        if spec.max_items is not None:
            limits.append(spec.max_items)
        if "items" in budget:
            # A first look at every task, on at most half the budget where there are several.
            limits.append(int(budget["items"]) // (1 if n == 1 else 2 * n))
        elif "usd" in budget:
            limits.append(0)  # the paper's warm-up knows no budget
        return replace(
            spec,
            tasks=tuple(names),
            models=(ModelSpec(MODEL, price=spec.price),),
            bank="",
            known=None,
            budget=dict(budget),
            warmup=min(limits),
            max_items=None if spec.max_items is None else spec.max_items * n,
            stop="limits" if n > 1 and spec.stop == "decided" else spec.stop,
        )


@dataclass(frozen=True)
class AdaptiveTaskRun:
    """A task that is loaded and checked, with its bank and options, ready to run."""

    session: TaskSession
    measured: dict[str, Outcome]
    options: Adaptive
    warnings: tuple[str, ...]
    known: dict[str, KnownMean] | None

    @property
    def outcome(self) -> Outcome:
        """The one that counts most."""
        return leading(self.measured)

    @classmethod
    def prepare(cls, session: TaskSession, options: Adaptive, only: bool) -> AdaptiveTaskRun:
        """Check that bank, task, metric and settings fit; sends nothing to the model.

        Without a bank documents will be drawn at random; `only` says that there is no other task.

        Raises
        ------
        BankMismatchError, MetricError
            See `check_bank` and `outcome_of`.
        """
        bank, full = options.spec.bank, options.known
        measured = measure(bank, options.spec.metrics, session, only)
        warned = [check_session(measured, session)] if bank else []
        on_board = full and full.model
        names = [internals.model_name(session.lm), *([on_board] if on_board else [])]
        measured, shared = apart_from(measured, names)
        warned.append(shared)
        warnings = tuple(dict.fromkeys(text for texts in warned for text in texts))
        for warning in warnings:
            log.warning("%s: %s", session.name, warning)
        known = None
        if full is not None:
            sampled = options.spec.question == POPULATION
            known = full.means({session.name: measured}, [MODEL], {}, sampled)
        return cls(session, measured, options, warnings, known)


def run_tasks(
    runs: Mapping[str, AdaptiveTaskRun], groups: Mapping[str, Any], observer: Observer
) -> dict[str, TaskRun]:
    """Run tasks of one model, together or one after the other.

    Raises
    ------
    KeyboardInterrupt
        After an orderly end; with a run directory everything is kept.
    """
    finished: dict[str, TaskRun] = {}
    units, left = together(runs, groups), len(runs)
    for kept in {Path(file) for run in runs.values() if (file := run.options.spec.save_bank)}:
        if len(units) > 1:  # each adds its own bank to one folder
            refuse_file(kept)
            kept.mkdir(parents=True, exist_ok=True)
    for unit in units:
        options = unit.runs[0].options
        share = {
            kind: _part(kind, amount - _spent(finished, kind), len(unit.runs), left)
            for kind, amount in options.spec.budget.items()
        }
        folder = options.run_dir
        if folder is not None and len(units) > 1:
            folder = Path(folder) / safe_name(unit.name)
        finished.update(_run(list(unit.runs), share, unit.weights, folder, observer))
        left -= len(unit.runs)
    return {name: finished[name] for name in runs}


@dataclass(frozen=True)
class Unit:
    """Tasks that are ranked together by a group's score, or one task by itself."""

    name: str
    runs: tuple[AdaptiveTaskRun, ...]
    weights: Mapping[str, float]


def together(runs: Mapping[str, AdaptiveTaskRun], groups: Mapping[str, Any]) -> list[Unit]:
    """Divide tasks into units: those of a group by its own weights, each other task alone.

    A group is run together where its tasks are run for the same metric, it aggregates that
    metric, and a budget or a standard error of its score is asked for. Of nested groups the outer
    one counts: its subgroups' scores come of the same documents.
    """
    units: dict[str, Unit] = {}
    taken: set[str] = set()
    for group in sorted(groups.values(), key=lambda g: -len(g.get_all_tasks())):
        names = list(dict.fromkeys(internals.task_name(task) for task in group.get_all_tasks()))
        if len(names) < 2 or taken & set(names) or not set(names) <= set(runs):
            continue
        members = {name: runs[name] for name in names}
        weights = _group_weights(members, group)
        if weights is not None:
            taken |= set(names)
            first = min(names, key=list(runs).index)
            units[first] = Unit(group.name, tuple(members.values()), weights)
    alone = {name: Unit(name, (run,), {}) for name, run in runs.items() if name not in taken}
    return [unit for name in runs if (unit := units.get(name) or alone.get(name))]


def _group_weights(runs: Mapping[str, AdaptiveTaskRun], group: Any) -> dict[str, float] | None:
    """Return a group's weights of its tasks; None if its tasks are run one by one."""
    options = next(iter(runs.values())).options
    spec = options.spec
    bounded = (spec.budget or spec.target_se is not None) and options.known is None
    if not bounded or any(run.options is not options for run in runs.values()):
        return None
    metrics = [run.outcome.metric for run in runs.values()]
    methods = {run.outcome.bank.method for run in runs.values()}
    what = {(m.name, m.scale, *runs[task].measured) for task, m in zip(runs, metrics)}
    if len(what) > 1 or len(methods) > 1:
        return None
    sizes = {name: float(len(run.session.doc_ids)) for name, run in runs.items()}
    return weights_in(group, [metrics[0].name], sizes)


def _run(
    runs: list[AdaptiveTaskRun],
    budget: dict[str, float],
    weights: Mapping[str, float],
    folder: str | Path | None,
    observer: Observer,
) -> dict[str, TaskRun]:
    """One ranking: of one task, or of several with a common score."""
    options = runs[0].options
    outcomes = {run.outcome.task: run.measured for run in runs}
    sessions = {run.outcome.task: run.session for run in runs}
    plan = plan_of(
        options.of_tasks(list(outcomes), budget),
        outcomes, sessions, runs[0].known, weights,
    )  # fmt: skip
    model = SessionModel(MODEL, options.spec.price, plan.measured, plan.sessions)
    resume = options.resume
    if folder is not None and resume:  # of several tasks some may not have begun
        resume = RunDirectory(folder).journal.exists()
    with Run(plan.spec, folder, observer, resume=resume, plan=plan, models=[model]) as run:
        if not resume and plan.spec.target_se is not None:
            by_default = options.spec.stop == TARGET
            say = log.warning if by_default else log.info
            say("%s: %s", "+".join(outcomes), target_in_words(plan, by_default))
        if run.ask() and _all_are_wanted(run, options.spec):
            had = {item for _, item in run.book.answers}
            run.ask_beyond(MODEL, [item for item in plan.documents() if item not in had])
        result = run.finish({MODEL: internals.model_name(runs[0].session.lm)})
        if not run.ended:
            if folder is not None:
                log.warning("interrupted; everything is kept in %s; continue with resume", folder)
            raise KeyboardInterrupt
        by_task = task_runs(plan, run.book, model)
    warnings_of = {run.outcome.task: (*run.warnings, *result.warnings) for run in runs}
    return {
        task: replace(by_task[task], warnings=warnings) for task, warnings in warnings_of.items()
    }


def _all_are_wanted(run: Run, spec: Spec) -> bool:
    """Whether all documents were requested and every one that the bank offers is answered.

    A bank may have removed documents, or not know some; a full run has them too.
    """
    plan, had = run.plan, {item for _, item in run.book.answers}
    alone = len(plan.sessions) == 1 and spec.max_items is not None and not plan.spec.budget
    return alone and (spec.max_items or 0) >= len(plan.documents()) and had >= set(plan.offered)


def _spent(finished: Mapping[str, TaskRun], kind: str) -> float:
    if kind == "items":
        return float(sum(len(run.administered) for run in finished.values()))
    if kind == "usd":
        return sum(run.usd or 0.0 for run in finished.values())
    return sum(run.seconds for run in finished.values())


def _part(kind: str, amount: float, tasks: int, left: int) -> float:
    """Return the share of `tasks`, out of the `left` tasks, in the rest of a budget."""
    if kind == "items":
        if amount < left:
            raise UsageError(
                f"the budget leaves {max(amount, 0):g} items for {left} tasks; raise --budget_items"
            )
        return amount if tasks == left else amount // left * tasks
    return max(amount * tasks / left, 1e-9)
