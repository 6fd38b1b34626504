"""`rank`: rank models from a configuration, and `dry_run`: forecast what that takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ..cluster import address_of
from ..content import ForecastContent
from ..errors import (
    HarnessError,
    JudgeError,
    OtherScoringError,
    PromptMismatchError,
    UnknownTaskError,
    UsageError,
)
from ..integrations.trackers import track, trackers_of
from ..money import Tokens, dollars, in_unit
from ..ranker.accounts import SLACK
from ..ranker.stopping import require_models_beyond_top
from ..runs.differences import PROMPTS
from ..runs.directory import banks_at
from ..shown import some
from .forecast import forecast, need_in_words, offer_in_words
from .outcomes import tasks_of_bank
from .plan import Plan, make_plan, plan_of_banks
from .result import Observer, Result
from .run import Run
from .spec import Config, Spec
from .surfaces import takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keywords import Keywords
    from .ray import RayModel

#: Dollars that a run without a limit may cost before it asks for confirmation.
ASKED_FROM = 1.0


@takes_options()
def rank(
    config: Config | None = None,
    *,
    run_dir: str | Path | None = None,
    resume: bool = False,
    retry: bool | str = False,
    executor: str = "local",
    observer: Observer | None = None,
    **options: Unpack[Keywords],
) -> Result:
    """Rank models on one or more tasks, asking each model the most informative items.

    Parameters
    ----------
    config : dict, path or Spec, optional
        Options, or the YAML file of the command ``rank``.
    run_dir : path, optional
        Directory of the journal, the result and each model's files, from which the run can be
        resumed. Without it nothing is written, but failed requests are retried all the same.
    resume : bool, optional
        Continue the run in `run_dir`. Budget, prices, addresses, timeouts and concurrency may
        have changed, and models may join; nothing is paid for twice.
    retry : bool or str, optional
        With `resume`: restore models that were set aside, all of them or the one named.
    executor : str, optional
        Where models run: ``local``, in this process; ``ray``, as actors of a Ray cluster on this
        machine; or ``ray:ADDRESS``, of another cluster.
    observer : Observer, optional
        Receives warnings and progress.
    **options
        Keys of that file (``task``, ``models``, ``budget``, ...), which replace its values.

    Returns
    -------
    Result
        The result, also after Ctrl-C; ``content["interrupted"]`` is then true.

    Raises
    ------
    CcatError
        The configuration, bank, task or a model is unusable, or the directory is not writable.
    JudgeError
        The judge is away. The result so far is in `run_dir`, and `resume` goes on.

    Examples
    --------
    The type ``dummy`` of lm_eval answers at random:

    >>> from lm_eval_ccat import rank
    >>> models = [{"name": name, "model": "dummy"} for name in ("a", "b")]
    >>> result = rank(task="my_task.yaml", models=models, stop="limits", max_items=20)
    >>> sorted(result.ranking.order), result.ranking.items["a"] == result.ranking.items["b"]
    (['a', 'b'], True)
    """
    observer = observer or Observer()
    spec = Spec.read(config or {}, options).require_ranking()
    trackers = trackers_of(spec.harness)
    if resume and run_dir and spec.save_bank and spec.bank:
        # Use the bank that the run began with: the run may have added to the file since.
        spec = replace(spec, bank=str(banks_at(Path(run_dir))))
    make_models = None if executor == "local" else _ray_models_at(address_of(executor))
    # A Ray actor is not given the answers of logs.
    if make_models is not None and spec.prior:
        raise UsageError("prior: needs --executor local")
    with Run(spec, run_dir, observer, resume=resume, retry=retry, models=make_models) as run:
        # Of a bank with many warnings the first three; more would hide all other warnings.
        for text in run.plan.outcome.bank.warnings[:3]:
            run.warn_once(f"bank: {text}")
        # What a run takes was said, and agreed to, when it began.
        if not resume:
            _settle_before_start(run.plan, observer)
        try:
            run.ask()
        except JudgeError:
            # What was rated is shown as after Ctrl-C, and then the error, which says what to mend.
            run.finish()
            raise
        result = run.finish(further=True)
        run.write_model_files()
        # One that was interrupted is tracked when it is resumed and ends.
        if run.ended:
            track(result.content, trackers, observer.warn)
    return result


def _ray_models_at(address: str | None) -> Callable[[Run], list[RayModel]]:
    """Return what makes the models of a run on a Ray cluster."""
    from .ray import ray_models

    return partial(ray_models, address)


def dry_run(
    config: Config,
    observer: Observer | None = None,
    gap: float | None = None,
    documents: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> ForecastContent:
    """Return the `forecast` of a ranking, without loading or asking a model.

    Parameters
    ----------
    config, observer
        As `rank` takes them.
    gap : float, optional
        Difference of two models that is to be decided, on the metric's own scale.
    documents : bool, optional
        Whether to load the tasks' documents, even if the bank states how many tokens its items
        take. If they cannot be loaded, the bank's figures are used.
    on_progress : callable, optional
        Called with the rankings played by the bank so far, and the most that are.
    """
    observer = observer or Observer()
    spec = Spec.read(config)
    # A bank by itself, without a configuration, is a plan of its own tasks.
    bank_names_tasks = not spec.tasks and not documents
    if bank_names_tasks:
        spec = replace(spec, tasks=tuple(tasks_of_bank(spec.bank)))
    spec.require_ranking()
    forecast_of = partial(_forecast, observer=observer, gap=gap, on_progress=on_progress)
    if not documents and (plan := plan_of_banks(spec)) is not None:
        return forecast_of(spec, bank_plan=plan)
    try:
        return forecast_of(spec)
    except (PromptMismatchError, OtherScoringError) as error:
        # A run would refuse this difference. Here nothing is asked, so accept it, and begin again.
        change = getattr(error, "change", PROMPTS)
        observer.warn(
            f"`rank` refuses this run without --accept_change {change} (`accept_change: {change}`)"
            "; this is the plan of a run that accepts it"
        )
        spec = replace(spec, accept_change=(*spec.accept_change, change))
        return dry_run(spec, observer, gap, documents, on_progress)
    # The documents cannot be loaded, as without a network.
    except HarnessError as error:
        if (plan := plan_of_banks(spec)) is None:
            raise
        observer.warn(str(error))
        return forecast_of(spec, bank_plan=plan)
    # The harness need not know the tasks under the names that a bank has for them.
    except UnknownTaskError as error:
        if not bank_names_tasks:
            raise
        raise UsageError(
            f"{str(error).partition(' (')[0]}; the bank does not state the tokens of its items, so "
            "name the task's file: --task FILE.yaml"
        ) from None


def _forecast(
    spec: Spec,
    observer: Observer,
    gap: float | None,
    on_progress: Callable[[int, int], None] | None,
    bank_plan: Plan | None = None,
) -> ForecastContent:
    """Return the `forecast` of a ranking by its documents, or by its banks alone (`bank_plan`)."""
    if bank_plan is not None:
        observer.note(
            "The bank alone tells items and tokens: no document was loaded, and none was compared."
        )
    with Run(spec, observer=observer, plan=bank_plan or make_plan) as run:
        for difference in run.plan.accepted:
            observer.warn(difference.text)
        _require_reachable_goal(run.plan, observer)
        if run.plan.spec.bank:
            observer.note("Rankings of models like the bank's are played, at most 20 of them.")
        return forecast(run.plan, gap, on_progress)


def _settle_before_start(plan: Plan, observer: Observer) -> None:
    """Tell the user what a ranking will do and when it ends; ask whether to start a dear one.

    Raises
    ------
    UsageError
        The user does not start it, its limits are too low for the warm-up, or its goal is met
        before any answer.
    """
    files = {task: session.file for task, session in plan.sessions.items()}
    if sources := [f"{task}: {file}" for task, file in files.items() if file]:
        observer.note(f"Task {some(sources)}")
    for warning in plan.warnings:
        observer.warn(warning)
    _require_reachable_goal(plan, observer)
    if not plan.spec.bank:
        filters = {outcome.filter for outcome in plan.weighted_outcomes}
        label = f"{plan.label} (filter {plan.outcome.filter})" if len(filters) == 1 else plan.key
        observer.note(f"No bank: every model gets the same random documents, ranked by {label}.")
        observer.note(need_in_words(plan))
        if offer := offer_in_words(plan):
            observer.note(offer)
    # A budget says when the run ends, and was the user's own choice.
    if not plan.spec.budget:
        ceiling = _ceiling(plan)
        observer.note(_end_in_words(plan, ceiling))
        _confirm(plan, ceiling, observer)


def _end_in_words(plan: Plan, ceiling: _Ceiling) -> str:
    """Say when a run without a budget ends."""
    spec = plan.spec
    # `stop: limits` has no goal, and of a single model there is nothing to decide.
    alone = len(spec.models) == 1 and not plan.known and spec.target_se is None
    if spec.stop == "limits" or alone:
        goal = ""
    else:
        met = "every pair is decided" if spec.stop == "decided" else f"`stop: {spec.stop}` is met"
        goal = f"when {met}, or "
    last = "the last answer" if plan.most_repeats > 1 else "the last item"
    line = f"The run ends {goal}at {'the limit' if plan.max_items else last}: {ceiling.in_words}."
    if plan.limited_by_default:
        line += (
            f" That is the limit of local weights that take turns; --max_items "
            f"{len(plan.offered)} asks all."
        )
    return line


def _confirm(plan: Plan, ceiling: _Ceiling, observer: Observer) -> None:
    """Ask the user whether to start a run that nothing but the documents limits, if it is dear.

    Raises
    ------
    UsageError
        The user does not start it.
    """
    # A user who set a limit, or whose run costs cents, is not asked.
    if plan.spec.max_items is not None or ceiling.usd is None or ceiling.usd < ASKED_FROM:
        return
    # "if models are equal and answers are as long as their references", say.
    if_equal = f"if models are equal{ceiling.lengths.replace(' if', ' and', 1)}"
    question = f"This may cost up to about {dollars(ceiling.usd)}, {if_equal}. Start?"
    if not observer.confirm(question):
        raise UsageError("not started; give a limit: budget: {usd: x}, {items: n} or max_items:")


class _Ceiling(NamedTuple):
    """The most that a run without a budget may ask, and what that costs.

    Attributes
    ----------
    in_words : str
        Answers, and dollars where prices are known.
    usd : float or None
        None where a price is not known.
    lengths : str
        Of which lengths the answers are taken to be, as the end of a sentence: " if answers ..".
        Empty where answers have no price per token.
    """

    in_words: str
    usd: float | None
    lengths: str


def _ceiling(plan: Plan) -> _Ceiling:
    """Return what a run asks that decides nothing before its end, and what that costs.

    Answers that are paid by the token are taken to be as long as those of the models that the banks
    were calibrated on, else as the references; a model that is paid by the hour to take a second.
    """
    # Some methods ask the warm-up whatever the limit of items is.
    spec, cap = plan.spec, max(plan.new_ranker().item_cap, plan.warmup_items)
    costs = [plan.charges.forecasts[entry.name] for entry in spec.models]
    answers = f"at most {cap * len(costs)} answers ({cap} of each model)"
    # A sum of some prices would pass for the whole.
    if not all(cost.known for cost in costs):
        return _Ceiling(answers, None, "")
    usd, lengths = cap * sum(cost.mean for cost in costs), ""
    if any(entry.price.output for entry in spec.models):
        dearest = dollars(cap * sum(cost.largest for cost in costs))
        whose = "their references"
        # Models that reason write pages where the reference has a letter. A bank made of logs knows
        # how much its models read and wrote per item, in the mean.
        means = [outcome.bank.tokens for outcome in plan.weighted_outcomes]
        if known_means := [mean for mean in means if mean is not None]:
            whose = "those of the bank's models"
            read, written = (fmean(counts) for counts in zip(*known_means))
            tokens = Tokens(read, written, "estimate")
            judge_usd = plan.charges.judge_usd
            usd = cap * sum(
                entry.price.cost(tokens, seconds=1.0) + judge_usd for entry in spec.models
            )
        lengths = f" if answers are as long as {whose}, {dearest} at the token limit"
    return _Ceiling(f"{answers}, about {dollars(usd)}{lengths}", usd, lengths)


def _require_reachable_goal(plan: Plan, observer: Observer) -> None:
    """Refuse a goal that is met before any answer, and a budget below every model's first items.

    Raises
    ------
    UsageError
        Of a budget that is too small the message names the least that is enough.
    """
    require_models_beyond_top(plan.spec.rule, len(plan.spec.models) + len(plan.known or ()))
    first_items, limit, ignored = plan.warmup_items, plan.max_items, plan.warmup_ignores_limits
    name = plan.outcome.bank.method
    whatever = f"the method {name} gives every model its first {first_items} items whatever"
    if ignored and limit is not None and limit < first_items:
        observer.warn(f"{whatever} max_items is")
    # Where items are asked repeatedly, the Ranker itself requires a budget for all items once.
    if plan.charges.budget is None or plan.most_repeats > 1:
        return
    cost = first_items * sum(plan.charges.prices.values())
    if plan.charges.budget >= cost * (1.0 - SLACK):
        return
    currency = plan.charges.currency
    amount = in_unit(cost, currency)
    # The method `paper` asks its first items whatever the user wants, as its authors have it.
    if ignored:
        observer.warn(f"{whatever} the budget is: they are expected to take {amount}")
        return
    # Rounded up, to hundredths of a cent or whole items or tokens, as less would not be enough.
    parts = 1e4 if currency == "usd" else 1.0
    enough = math.ceil(cost * parts - 1e-6) / parts
    raise UsageError(
        f"the budget is too small for the first {first_items} items of each of "
        f"{len(plan.spec.models)} models: give at least {{{currency}: {enough:.12g}}}, or a "
        "smaller warmup:"
    )
