"""Adaptive runs of one model that the harness loads, as rankings of that model alone.

`lm_eval.evaluator.simple_evaluate` loads the model and the tasks and then calls `evaluate`. A
wrapper that replaces `evaluate` runs the adaptive tasks as rankings of this one model and leaves
all others to the harness. Tasks are made adaptive in one of two ways: by `adaptive_evaluate`, for
the duration of one call, or by the task's own class, `AdaptiveTask`.

Tasks of a group with a common score are run together: documents go where the group's score needs
them, until its standard error is reached or its budget is spent. Other tasks are run one after the
other, each with an equal part of the remaining budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ..bank.suite import SuiteBank
from ..errors import RunError, UsageError
from ..files import safe_name
from ..harness import internals, open_sessions
from ..harness.estimates import TaskRun, in_words
from ..harness.evaluation import Evaluation, install
from ..harness.internals.bases import ConfigurableTask, stock_class
from ..harness.internals.names import log
from ..harness.opening import ignored_fewshot
from ..harness.scorers import record_scorers
from ..harness.session import TaskSession
from ..options import options_of
from ..plugins import did_you_mean
from ..ranker.stopping import RankGoal
from ..records import Item
from ..runs.directory import RunDirectory
from .charges import Charges
from .earlier import known_means, read_known
from .fields import BUDGETS, SESSION_KEYS
from .forecast import target_in_words
from .keep import refuse_file
from .models import HarnessModel, check_session
from .outcomes import compare_with_banks, measure, weights_in
from .plan import Plan, plan_of
from .result import Observer, ProgressBar, Result
from .run import Run
from .spec import ALIASES, TARGET, ModelSpec, Spec
from .surfaces import takes_options
from .tasks import is_sampled, session_options

#: Options that apply only to rankings of several models.
OF_RANKINGS = ("tasks", "task", "models", "weights", "memory")
#: The name of the one model in its ranking.
MODEL = "model"


@dataclass(frozen=True)
class Adaptive:
    """Options of an adaptive run of one model.

    Attributes
    ----------
    spec : Spec
        Options of all tasks, without `tasks` and `models`, which the harness loads.
    run_dir : path or None
        Directory of the journal; None keeps it in memory.
    resume : bool
        Continue the run in `run_dir`.
    model : str or None
        Name under which the results of other models (``known``) may hold this one, too; they are
        then read without it.
    by_default : bool
        Whether the stopping rule is `TARGET` because nobody named one.
    """

    spec: Spec = field(default_factory=Spec)
    run_dir: Any = None
    resume: bool = False
    model: str | None = None
    by_default: bool = False

    @classmethod
    def read(
        cls,
        values: Mapping[str, Any],
        folder: Path | None = None,
    ) -> Adaptive:
        """Read options from ``--metadata '{"adaptive": {...}}'`` or ``adaptive=``.

        Parameters
        ----------
        values : mapping
            Options of `Spec`, ``run_dir`` and ``resume``; also ``budget_items`` and the like.
        folder : Path, optional
            Folder in which paths are looked up first.

        Raises
        ------
        UsageError
            A key is unknown, a value is out of range, or options conflict.
        """
        if not isinstance(values, Mapping):
            example = {"bank": "my_task.bank.json", "max_items": 50}
            raise UsageError(f"adaptive must be a mapping such as {example}, not {values!r}")
        options = dict(values)
        run_dir, resume = options.pop("run_dir", None), bool(options.pop("resume", False))
        for kind in BUDGETS:
            if (amount := options.pop(f"budget_{kind}", None)) is not None:
                options["budget"] = {**(options.get("budget") or {}), kind: amount}
        for key in OF_RANKINGS:
            if options.get(key) is not None:
                raise UsageError(f"`{key}` is for a ranking of several models, not for one")
        spec = Spec.read(options, folder=folder)
        # Without other models' results there are no ranks.
        if spec.known is None and any(isinstance(rule, RankGoal) for rule in spec.rule.parts()):
            raise UsageError(
                f"stop {spec.stop!r} ranks the model among others; give their full results as "
                "leaderboard"
            )
        if "usd" in spec.budget and not spec.price.known:
            raise UsageError(
                "a budget in usd needs the model's price: --price input=... output=..."
            )
        is_limited = bool(spec.budget) or spec.max_items is not None or spec.known is not None
        # A single model has nothing to decide. Without any limit it would be asked every document,
        # so it stops at a standard error.
        if options.get("stop") is None and spec.stop == "decided" and not is_limited:
            return cls(replace(spec, stop=TARGET), run_dir, resume, by_default=True)
        # Without other models nothing is to be decided: of `decided and se 0.02` the error is left.
        if spec.target_se is not None and spec.known is None:
            stop = spec.stop.replace("decided and ", "").replace(" and decided", "")
            spec = replace(spec, stop=stop)
        return cls(spec, run_dir, resume)

    def require_files(self) -> None:
        """Raise for banks and full results that cannot be read, before loading a model.

        Raises
        ------
        BankError
            A bank is missing or damaged, or a folder holds none.
        ScoreTableError, ScaleError, UsageError
            See `read_known`.
        """
        known, bank_option = self.spec.known, self.spec.bank
        by_task = bank_option if isinstance(bank_option, Mapping) else {"": bank_option}
        for task, bank in by_task.items():
            # None is named, or it is in memory.
            if not (isinstance(bank, str | Path) and bank):
                continue
            banks = SuiteBank.load(bank)
            # Of a suite's tasks it is not known yet which ones the harness will run.
            if known is not None and len(banks) == 1:
                [(name, outcomes)] = banks.items()
                source = known.get(task or name) if isinstance(known, Mapping) else known
                if source is not None:
                    read_known(source, next(iter(outcomes.values())), self.model)

    def spec_for(self, names: Sequence[str], budget: Mapping[str, float], method: str) -> Spec:
        """Return the options for a ranking of this one model on tasks that run together.

        Parameters
        ----------
        names : sequence of str
            The tasks.
        budget : mapping
            What this ranking may spend, such as ``{"items": 60}``.
        method : str
            Method of their banks.

        Returns
        -------
        Spec
            Its ``warmup`` counts items of each task, its ``max_items`` those of all together. Bank
            and known results are left out, as a plan has them already.
        """
        spec, n = self.spec, len(names)
        warmup_limits = [spec.warmup]
        if spec.max_items is not None:
            warmup_limits.append(spec.max_items)
        if "items" in budget:
            items = int(budget["items"])
            # Of several tasks each gets an item; if it can be, half the budget is left after the
            # warm-up, to go where the common score needs it.
            warmup_limits.append(items if n == 1 else max(1, items // (2 * n)))
        # Nobody knows yet how many items such a budget pays for: each of several tasks gets one, a
        # single task none in advance. (`paper` asks its first items whatever the warm-up is.)
        elif "usd" in budget or "tokens" in budget:
            warmup_limits.append(0 if n == 1 or method == "paper" else 1)
        return replace(
            spec,
            tasks=tuple(names),
            models=(ModelSpec(MODEL, price=spec.price),),
            bank="",
            known=None,
            budget=dict(budget),
            warmup=min(warmup_limits),
            max_items=None if spec.max_items is None else spec.max_items * n,
            # Tasks run together by their budget, and a model alone has no pair to decide.
            stop="limits" if n > 1 and spec.stop == "decided" else spec.stop,
        )


class PreparedTask(NamedTuple):
    """A task that is loaded and checked."""

    options: Adaptive
    plan: Plan


class JointTasks(NamedTuple):
    """Tasks that run as one ranking: those of a group by its weights, or one alone.

    ``weights`` are those of the tasks in the group's score, {} of one alone.
    """

    name: str
    plans: list[Plan]
    weights: dict[str, float]

    def plan(self, spec: Spec) -> Plan:
        """Return the plan of the ranking, made of those of its tasks; warnings stay with each."""
        return plan_of(
            spec,
            dict(chain.from_iterable(plan.outcomes_by_task.items() for plan in self.plans)),
            dict(chain.from_iterable(plan.sessions.items() for plan in self.plans)),
            # Only a task alone has known models; see `_gain_by_one_ranking`.
            known=self.plans[0].known,
            weights=self.weights,
            accepted=tuple(chain.from_iterable(plan.accepted for plan in self.plans)),
        )


def prepare(
    session: TaskSession, options: Adaptive, only_task: bool, logged_warnings: Collection[str] = ()
) -> PreparedTask:
    """Return the plan of one task of a call of the harness; refuse what does not fit the task.

    The model is loaded, and not asked. Without a bank, documents will be drawn at random.

    Parameters
    ----------
    session : TaskSession
        The task, bound to the model.
    options : Adaptive
    only_task : bool
        Whether no other task of the call uses this bank; a single bank then counts as this task's,
        whatever task it names.
    logged_warnings : collection of str, optional
        Warnings that `refuse_early` has logged, each after the task's name and a colon.

    Raises
    ------
    CcatError
        A bank, a metric, settings or known results do not fit the task; see `measure`,
        `check_session`, `compare_with_banks` and `known_means`.
    """
    spec, name = options.spec, session.name
    # Under one of these names a bank may have been calibrated on this model.
    model_names = [internals.model_name(session.lm), *([options.model] if options.model else [])]
    outcomes, bank_warnings = measure(spec.bank, spec.metrics, session, model_names, only_task)
    # Without a bank there are blank ones, made of this very task.
    warnings = check_session(outcomes, session, spec.accept_change) if spec.bank else []
    asking_differences = compare_with_banks(outcomes, session, spec.accept_change)
    warnings += [*bank_warnings, *asking_differences.doubts]
    # `known_means` adds differences from known results.
    accepted = list(asking_differences.accepted)
    outcomes_by_task = {name: outcomes}
    # Repeats of a document are scored one by one, unless a filter or metric takes all of them.
    session.scores_each_answer = not internals.scores_answers_together(session.task)
    sampled = is_sampled(spec, [session])
    known = known_means(
        spec, outcomes_by_task, [MODEL], {}, options.model, sampled=sampled,
        sessions={name: session}, warn=warnings.append, accept=accepted.append,
    )  # fmt: skip
    warnings = list(dict.fromkeys([*warnings, *(difference.text for difference in accepted)]))
    for warning in warnings:
        if (text := f"{name}: {warning}") not in logged_warnings:
            log.warning(text)
    plan = Plan(
        spec, outcomes_by_task, {name: session}, Charges(spec), known=known,
        warnings=tuple(warnings), accepted=tuple(accepted),
    )  # fmt: skip
    return PreparedTask(options, plan)


def refuse_early(
    options: Adaptive, model: Any, tasks: Any, harness: Mapping[str, Any]
) -> frozenset[str]:
    """Refuse what does not fit the tasks whatever the model is, before its weights are loaded.

    `prepare` does the same, and more, with the model. `harness` holds settings of the harness.
    Returns the warnings that were logged, which `prepare` leaves out.

    Raises
    ------
    CcatError
        See `prepare`.
    """
    names = tasks if isinstance(tasks, list) else [tasks]
    # Nothing slow is loaded otherwise, and a task that is an object is loaded already.
    if not (internals.holds_weights(str(model)) and all(isinstance(name, str) for name in names)):
        return frozenset()
    names = [name for text in names for name in text.split(",") if name]
    settings = {key: value for key in SESSION_KEYS if (value := harness.get(key)) is not None}
    spec = Spec.read(options.spec, {"tasks": names, "harness": settings})
    folders = harness.get("include_path")
    folder_argument = {"include_path": folders} if folders else {}
    sessions, _ = open_sessions(
        names, internals.PlaceholderLM(), **{**session_options(spec), **folder_argument}
    )
    logged_warnings: dict[str, None] = {}
    for session in sessions.values():
        only_task = len(sessions) == 1
        outcomes = measure(spec.bank, spec.metrics, session, (), only_task).outcomes
        # Without a bank there are blank ones, made of this very task.
        if spec.bank:
            warnings = check_session(outcomes, session, spec.accept_change)
            warnings += compare_with_banks(outcomes, session, spec.accept_change).doubts
            logged_warnings |= {f"{session.name}: {warning}": None for warning in warnings}
    for text in logged_warnings:
        log.warning(text)
    return frozenset(logged_warnings)


def run_tasks(
    tasks: Mapping[str, PreparedTask], groups: Mapping[str, Any], observer: Observer
) -> dict[str, TaskRun]:
    """Ask a model some tasks, and return its results by task; tasks of a group may share a ranking.

    Each ranking may spend its tasks' equal shares of what earlier rankings have left of the budget.

    Raises
    ------
    KeyboardInterrupt
        The run was interrupted; with a run directory, it has kept everything.
    """
    finished: dict[str, TaskRun] = {}
    rankings, tasks_left = _joint_tasks(tasks, groups), len(tasks)
    # Several rankings save a bank each, so `save_bank` names a folder.
    if len(rankings) > 1:
        paths = [task.plan.spec.save_bank for task in tasks.values()]
        for bank_folder in {Path(path) for path in paths if path}:
            refuse_file(bank_folder)
            bank_folder.mkdir(parents=True, exist_ok=True)
    for joint_tasks in rankings:
        options = tasks[joint_tasks.plans[0].title].options
        n_tasks = len(joint_tasks.plans)
        share = {
            kind: _share(
                kind, amount - sum(_spent(kind, run) for run in finished.values()),
                n_tasks, tasks_left,
            )
            for kind, amount in options.spec.budget.items()
        }  # fmt: skip
        folder = options.run_dir
        # A run directory holds one run.
        if folder is not None and len(rankings) > 1:
            folder = Path(folder) / safe_name(joint_tasks.name)
        finished.update(_run(options, joint_tasks, share, folder, observer))
        tasks_left -= n_tasks
    return {name: finished[name] for name in tasks}


def _share(kind: str, amount: float, n_tasks: int, tasks_left: int) -> float:
    """Return what `n_tasks` of `tasks_left` tasks may spend of the `amount` that is left for all.

    Raises
    ------
    UsageError
        There are fewer items than tasks.
    """
    # Dollars and seconds can be divided at will. A budget that is spent leaves a billionth, as a
    # budget of 0 is refused.
    if kind != "items":
        return max(amount * n_tasks / tasks_left, 1e-9)
    # Items are whole, and every task needs one at least.
    if amount < tasks_left:
        raise UsageError(
            f"the budget leaves {max(amount, 0):g} items for {tasks_left} tasks; raise "
            "--budget_items"
        )
    return amount if n_tasks == tasks_left else amount // tasks_left * n_tasks


def _spent(kind: str, run: TaskRun) -> float:
    """Return how much of a kind of budget, such as "items" or "usd", a run has spent."""
    if kind == "items":
        return float(run.n_answers)
    if kind == "tokens":
        return run.tokens
    return run.seconds if kind == "seconds" else run.usd or 0.0


def _joint_tasks(tasks: Mapping[str, PreparedTask], groups: Mapping[str, Any]) -> list[JointTasks]:
    """Divide tasks into rankings, and return these in the order of their first tasks.

    The tasks of a group are one ranking if they use the same metric, the group aggregates that
    metric, and the options set a budget or a target standard error. Its score weighs them as the
    group does. Every other task is a ranking by itself. Of nested groups the outer one counts: the
    scores of its subgroups come from the same documents.

    Raises
    ------
    UsageError
        Results of other models are given for a task that is not run.
    """
    _require_tasks_of_known(tasks)
    rankings: dict[str, JointTasks] = {}
    taken: set[str] = set()
    for group in sorted(groups.values(), key=lambda group: -len(group.get_all_tasks())):
        names = list(dict.fromkeys(internals.task_name(task) for task in group.get_all_tasks()))
        # Larger groups come first, so a group whose tasks are taken is a subgroup. A group of which
        # not every task is run has no score.
        if len(names) < 2 or taken & set(names) or not set(names) <= set(tasks):
            continue
        plans = [tasks[name].plan for name in names]
        if not _gain_by_one_ranking(plans):
            continue
        sizes = {name: float(len(tasks[name].plan.documents())) for name in names}
        metric = plans[0].outcome.metric.name
        if (weights := weights_in(group, [metric], sizes)) is not None:
            taken |= set(names)
            rankings[min(names, key=list(tasks).index)] = JointTasks(group.name, plans, weights)
    rankings |= {
        name: JointTasks(name, [task.plan], {}) for name, task in tasks.items() if name not in taken
    }
    return [rankings[name] for name in tasks if name in rankings]


def _require_tasks_of_known(tasks: Mapping[str, PreparedTask]) -> None:
    """Refuse results of other models that are given for a task that is not run."""
    for task in tasks.values():
        known = task.options.spec.known
        for name in known if isinstance(known, Mapping) else ():
            if name not in tasks:
                suggestion = did_you_mean(name, list(tasks))
                raise UsageError(f"leaderboard: this run has no task {name!r}{suggestion}")


def _gain_by_one_ranking(plans: Sequence[Plan]) -> bool:
    """Whether tasks have a common score, and a common limit that one ranking spends better."""
    spec = plans[0].spec
    # Among known models a model is placed task by task.
    if not (spec.budget or spec.target_se is not None) or spec.known is not None:
        return False
    # Tasks whose classes set options of their own have no common limit; those that differ in a
    # metric, a filter, a scale or a method have no common score.
    what_is_measured = {
        (
            id(plan.spec),
            plan.outcome.metric.name,
            plan.outcome.metric.scale,
            plan.outcome.bank.method,
            *plan.outcomes_by_task[plan.outcome.task],
        )
        for plan in plans
    }
    return len(what_is_measured) == 1


def _run(
    options: Adaptive,
    joint_tasks: JointTasks,
    budget: dict[str, float],
    folder: str | Path | None,
    observer: Observer,
) -> dict[str, TaskRun]:
    """Ask a model one task, or several with a common score, and return its results by task.

    Parameters
    ----------
    options : Adaptive
    joint_tasks : JointTasks
    budget : dict of str to float
        The budget of this ranking, by unit.
    folder : path or None
        Its run directory.
    observer : Observer

    Raises
    ------
    CcatError
        The run cannot be made, or ended too early for a result.
    """
    tasks = [task for task_plan in joint_tasks.plans for task in task_plan.outcomes_by_task]
    bank_method = joint_tasks.plans[0].outcome.bank.method
    plan = joint_tasks.plan(options.spec_for(tasks, budget, bank_method))
    [entry] = plan.spec.models
    model = HarnessModel(entry, plan.spec, plan.outcomes_by_task, log.warning, plan.sessions)
    model.title = internals.model_name(plan.sessions[plan.outcome.task].lm)
    # Where each task has a run of its own, an interrupt may have come before this one began. A
    # resumed run asks its model again, even if that was set aside (`retry`).
    resume = options.resume and (folder is None or RunDirectory(folder).journal.exists())
    with Run(
        plan.spec,
        folder,
        observer,
        resume=resume,
        retry=resume,
        plan=plan,
        models=lambda run: [model],
        resumed_by="`resume`",
    ) as run:
        if not resume and plan.spec.target_se is not None:
            # A user who named no target has to know of it.
            say = log.warning if options.by_default else log.info
            say("%s: %s", "+".join(tasks), target_in_words(plan, options.by_default))
        run.ask()
        if rest := _documents_left(run, plan, options):
            run.ask_beyond(model, rest)
        result = run.finish({MODEL: model.title})
        _require_an_end(run, folder, "+".join(tasks), result)
        runs = run.model_runs.of(model)
    return {
        task_plan.title: replace(
            runs[task_plan.title],
            warnings=tuple(dict.fromkeys([*task_plan.warnings, *result.warnings])),
        )
        for task_plan in joint_tasks.plans
    }


def _documents_left(run: Run, plan: Plan, options: Adaptive) -> list[Item]:
    """Return the documents that no bank offered, if ``max_items`` asks for all; else [].

    Calibration removes documents from a bank, and others it never had.
    """
    documents, answered = plan.documents(), {item for _, item in run.book.answers}
    # A budget is no limit of items, and tasks that share a ranking have one limit together.
    limit = None if plan.spec.budget or len(plan.sessions) > 1 else options.spec.max_items
    is_full = limit is not None and limit >= len(documents) and answered >= set(plan.offered)
    # A run that was interrupted asks nothing more.
    return [item for item in documents if item not in answered] if run.ended and is_full else []


def _require_an_end(run: Run, folder: str | Path | None, tasks: str, result: Result) -> None:
    """Raise if a run was interrupted, or got no answer."""
    # The harness would go on with results of half a run: it has to end as by Ctrl-C.
    if not run.ended:
        if folder is not None:
            log.warning("interrupted; everything is kept in %s; continue with resume", folder)
        elif run.book.answers:
            log.warning(
                "interrupted; %d answers are lost, unless --use_cache or a run_dir keeps them; "
                "then the same command goes on from them",
                len(run.book.answers),
            )
        raise KeyboardInterrupt
    # What was believed of a model before its answers is no estimate.
    if not run.book.answers:
        why = f"{result.content['stopped_because']}; raise it"
        if (reason := run.book.tally.set_aside.get(MODEL)) is not None:
            why = f"the model was set aside: {reason}"
        raise RunError(f"{tasks}: no document was answered, so there is no estimate: {why}")


# -- inside the harness ---------------------------------------------------------------------------

#: Results as `lm_eval.simple_evaluate` returns them.
Results = dict[str, object]


@dataclass
class AdaptiveCall:
    """One call of the harness that `adaptively` makes adaptive.

    Attributes
    ----------
    options : Adaptive
    num_fewshot : int or None
        Number of few-shot examples requested from the harness; warns of a task that ignores it.
    observer : Observer or None
        Receives warnings and progress; default: a progress bar.
    logged_warnings : frozenset of str
        Warnings that `refuse_early` has logged.
    blocks : dict of str to dict
        The ``adaptive`` block of each task that was evaluated so far.
    """

    options: Adaptive
    num_fewshot: int | None = None
    observer: Observer | None = None
    logged_warnings: frozenset[str] = frozenset()
    blocks: dict[str, Any] = field(default_factory=dict)


_CURRENT: ContextVar[AdaptiveCall | None] = ContextVar("adaptive_call", default=None)


@takes_options("task", "tasks", "models", "harness")
def adaptive_evaluate(
    model: Any,
    model_args: Any = None,
    tasks: list[Any] | None = None,
    *,
    observer: Observer | None = None,
    **arguments: Any,
) -> Results | None:
    """Evaluate a model on the most informative documents of each task.

    Parameters
    ----------
    model, model_args, tasks, **arguments
        As `lm_eval.simple_evaluate` takes them, plus ``include_path`` (a directory of task
        configurations); ``limit`` and ``samples`` are refused. Also every option of a run by its
        name (``bank``, ``metrics``, ``stop``, ``max_items``, ``budget``, ``price``, ``seed``,
        ``prior``, ...; docs/config.schema.json lists them all), ``run_dir`` (directory of the
        journal, from which the run can be resumed) and ``resume``.
    observer : Observer, optional
        Receives warnings and progress; default: a progress bar.

    Returns
    -------
    dict or None
        Results of `lm_eval.simple_evaluate`, on the metric's own scale, with an ``adaptive``
        block per task. See `lm_eval_ccat.harness.estimates`.

    Raises
    ------
    CcatError
        A bank is missing or does not fit, or a task or model cannot be used adaptively. It is
        raised before the model is asked anything.

    Examples
    --------
    >>> from lm_eval_ccat import adaptive_evaluate
    >>> results = adaptive_evaluate("dummy", None, ["my_task.yaml"], max_items=15)
    >>> results["adaptive"]["my_task"]["items"]
    15
    """
    names = {*options_of(Spec), *ALIASES, "run_dir", "resume"}
    names -= {"task", "tasks", "models", "harness"}
    options = Adaptive.read({k: arguments.pop(k) for k in list(arguments) if k in names})
    call = AdaptiveCall(options, arguments.get("num_fewshot"), observer)
    # `lm_eval.simple_evaluate` takes no folders, but a task manager that knows them.
    if "include_path" in arguments:
        # The metadata that the harness would pass to a task manager of its own.
        metadata = {**internals.model_arguments(model_args), **(arguments.get("metadata") or {})}
        call.logged_warnings = refuse_early(
            options, model, tasks or [], {**arguments, "metadata": metadata}
        )
        arguments["task_manager"] = internals.task_manager(
            tasks or [], arguments.pop("include_path"), metadata
        )
    arguments = {"model": model, "model_args": model_args, "tasks": tasks, **arguments}
    return _evaluate_adaptively(call, arguments)


def simple_evaluate(
    model: Any,
    model_args: Any = None,
    tasks: list[Any] | None = None,
    *,
    adaptive: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Results | None:
    """`lm_eval.simple_evaluate` with an ``adaptive`` argument.

    Parameters
    ----------
    model, model_args, tasks, **arguments
        As the harness takes them.
    adaptive : mapping, optional
        Keyword arguments of `adaptive_evaluate` (``bank``, ``stop``, ...). Without it, this
        function behaves as the harness's own.

    Examples
    --------
    >>> from lm_eval_ccat import simple_evaluate
    >>> results = simple_evaluate("dummy", None, ["my_task.yaml"], adaptive={"max_items": 15})
    >>> results["n-samples"]["my_task"]
    {'original': 120, 'effective': 15}
    """
    arguments = {"model": model, "model_args": model_args, "tasks": tasks, **arguments}
    if adaptive is not None:
        call = AdaptiveCall(Adaptive.read(adaptive), arguments.get("num_fewshot"))
        return _evaluate_adaptively(call, arguments)
    results: Results | None = internals.stock_simple_evaluate(**arguments)
    return results


def _evaluate_adaptively(call: AdaptiveCall, arguments: Mapping[str, Any]) -> Results | None:
    """Make a call of the harness's own `simple_evaluate` adaptive, and return its results."""
    refuse_subsets(arguments.get("limit"), arguments.get("samples"), "`max_items` or `budget`")
    # Such a model takes no plain prompt.
    if internals.takes_messages(str(arguments["model"])):
        arguments = {"apply_chat_template": True, "fewshot_as_multiturn": True, **arguments}
    # With a task manager `adaptive_evaluate` did so already, or it is the caller's own.
    if arguments.get("task_manager") is None:
        call.logged_warnings = refuse_early(
            call.options, arguments["model"], arguments["tasks"] or [], arguments
        )
    with adaptively(call):
        results: Results | None = internals.stock_simple_evaluate(**arguments)
    return results


@contextmanager
def adaptively(call: AdaptiveCall) -> Iterator[dict[str, Any]]:
    """Make every task adaptive that the harness evaluates in this thread within the context.

    Yields
    ------
    dict
        The ``adaptive`` block of each task, filled in as it is evaluated.
    """
    install_hook()
    token = _CURRENT.set(call)
    try:
        yield call.blocks
    finally:
        _CURRENT.reset(token)


def refuse_subsets(limit: Any, samples: Any, bounds: str) -> None:
    """Refuse ``limit`` and ``samples``: an adaptive run chooses its documents itself.

    Parameters
    ----------
    limit, samples
        As the harness takes them.
    bounds : str
        What bounds the run instead, where it was begun.

    Raises
    ------
    UsageError
    """
    for name, value in (("limit", limit), ("samples", samples)):
        if value is not None:
            raise UsageError(
                f"--{name} cannot go with an adaptive run, which chooses its documents itself; "
                f"bound it by {bounds}"
            )


# -- the hook -------------------------------------------------------------------------------------


def install_hook() -> None:
    """Replace the harness's `evaluate` by the wrapper; a second call changes nothing."""
    install(_evaluate)
    record_scorers()  # results files name what scored them


def _evaluate(evaluation: Evaluation) -> Results | None:
    """Run the adaptive tasks of a call of the harness, and return all its results.

    Return None if no task is adaptive, so that the harness goes on by itself. A task is adaptive by
    the call (`adaptively`), or by its class.
    """
    call, tasks = _CURRENT.get(), evaluation.tasks
    options_of_classes = {name: getattr(task, "adaptive", None) for name, task in tasks.items()}
    options_by_task = dict.fromkeys(tasks, call.options) if call else options_of_classes
    adaptive = {name: options for name, options in options_by_task.items() if options is not None}
    if not adaptive:
        return None
    subsets = evaluation.arguments["limit"], evaluation.arguments["samples"]
    refuse_subsets(*subsets, '--metadata \'{"adaptive": {"max_items": 50}}\'')
    logged_warnings = call.logged_warnings if call else frozenset()
    # Every task is prepared before the first request, so that all refusals come first.
    ready, banks = {}, [options.spec.bank for options in adaptive.values()]
    for name, options in adaptive.items():
        # The options of an adaptive run hold the price of its one model.
        session = evaluation.open(name, count_tokens=options.spec.counts_tokens(options.spec))
        # A bank that no other task names is meant for this task alone.
        only_task = banks.count(options.spec.bank) == 1
        ready[name] = prepare(session, options, only_task, logged_warnings)
        if ignored := ignored_fewshot(tasks[name], call.num_fewshot if call else None):
            log.warning(ignored)
    observer = (call and call.observer) or ProgressBar()
    results = evaluation.results(run_tasks(ready, evaluation.groups, observer))
    # The caller of `adaptively` prints the blocks itself.
    if call:
        call.blocks.update(results["adaptive"])
    else:
        for name, block in results["adaptive"].items():
            log.info("adaptive %s", in_words(block, name))
    return results


# -- the task's own class -------------------------------------------------------------------------


class AdaptiveTask(ConfigurableTask):  # type: ignore[misc]  # the harness has no types
    """A task class whose YAML makes the plain ``lm_eval`` command adaptive.

    Write the task's YAML, or let ``lm-eval-ccat check --write_variants DIR my_task`` write it::

        task: my_task_adaptive
        include: my_task.yaml
        class: !function lm_eval_ccat.AdaptiveTask

    Then ``lm_eval --tasks my_task_adaptive --include_path DIR`` runs adaptively and logs its
    stopping rule. Options go into the metadata, in the YAML or on the command line:
    ``--metadata '{"adaptive": {"bank": "my_task.bank.json", "stop": "se 0.01"}}'``. A bank's path
    is also looked up next to the YAML. ``{"adaptive": false}`` runs the task in full.

    Parameters
    ----------
    config : dict
        The task's configuration, as the harness's loader passes it.

    Attributes
    ----------
    adaptive : Adaptive or None
        Options of its run, by default to a standard error of 0.02; None runs it in full.

    Raises
    ------
    UsageError
        The metadata's ``adaptive`` is invalid.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lm_eval.evaluator import simple_evaluate
    >>> _ = Path("adaptive.yaml").write_text(
    ...     "task: my_task_adaptive\\ninclude: my_task.yaml\\n"
    ...     "class: !function lm_eval_ccat.AdaptiveTask\\nmetadata: {adaptive: {max_items: 15}}"
    ... )
    >>> simple_evaluate("dummy", tasks=["adaptive.yaml"])["n-samples"]["my_task_adaptive"]
    {'original': 120, 'effective': 15}
    """

    def __new__(cls, *arguments: Any, **keywords: Any) -> AdaptiveTask:
        # Some versions of the harness have a class per output type, whose methods a task then needs
        # as well.
        stock = stock_class(keywords.get("config") or {})
        adapted = cls if issubclass(cls, stock) else type(cls.__name__, (cls, stock), {})
        task: AdaptiveTask = object.__new__(adapted)
        return task

    def __init__(self, *arguments: Any, config: dict[str, Any] | None = None) -> None:
        # The loader reads `class`; it is not a key of the task.
        config = {key: value for key, value in (config or {}).items() if key != "class"}
        metadata = dict(config.get("metadata") or {})
        values, source = metadata.get("adaptive"), metadata.get("config_source")
        # A task of this class is adaptive, by the defaults if it states no options.
        values = {} if values is None or values is True else values
        # The source is the path of the YAML, or "inline" for a task that was made in Python.
        folder = Path(source).parent if source and source != "inline" else None
        self.adaptive = None if values is False else Adaptive.read(values, folder)
        super().__init__(*arguments, config=config)


install_hook()
