"""The metrics of a loaded task: the outcomes that they make, and the scores of its answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import BankMismatchError, MetricError, UnknownMetricError, UsageError
from ..metrics import Metric, find_metric
from ..metrics.registry import metric_name
from ..metrics.text_pairs import parts_of, script_warning
from ..plugins import did_you_mean
from . import internals
from .session import Administered, TaskSession

#: Number of targets whose writing system is checked.
_TARGETS_CHECKED = 20


def outcome_of(bank: ItemBank, session: TaskSession) -> Outcome:
    """Return the outcome of a task that a bank was calibrated for.

    Raises
    ------
    UsageError
        If the task does not have the bank's filter.
    BankMismatchError
        If the task lacks documents of the bank.
    MetricError
        If the metric has no score per document, or the opposite direction in the bank.
    """
    of_bank = ""
    # The user may have named a bank of another task, which explains what follows.
    if bank.task not in (None, session.name):
        of_bank = f"the bank is of task {bank.task} ({bank.metric}), not of {session.name}: "
    if bank.filter is not None and bank.filter not in session.filters:
        raise UsageError(
            f"{of_bank}the bank is of filter {bank.filter!r}; task {session.name} has: "
            f"{', '.join(session.filters)}"
        )
    known = set(session.doc_ids)
    lacking = [doc_id for doc_id in bank.doc_ids if doc_id not in known]
    if lacking:
        raise BankMismatchError(
            f"{of_bank}task {session.name} lacks {len(lacking)} of the bank's {bank.n_items} "
            f"documents (the first is doc_id {lacking[0]!r}); calibrate a bank on this task's logs"
        )
    try:
        metric = _metric_of(bank, session.task)
        _require_reported(metric, session)
    except MetricError as error:
        raise type(error)(f"{of_bank}{error}") from error
    filter = bank.filter or session.filters[0]
    return Outcome.of(bank, session.name, metric=metric, filter=filter)


def blank_outcome(
    session: TaskSession, metric: str | None = None, filter: str | None = None
) -> Outcome:
    """Return the outcome of an uncalibrated task, with a blank bank of its items.

    Parameters
    ----------
    session : TaskSession
    metric : str, optional
        By default the task's first metric that gives one score per document.
    filter : str, optional
        By default the task's first filter.

    Raises
    ------
    MetricError, UsageError
        If the task has no such metric or filter, or none that gives a score per document.
    """
    name, reasons = session.name, []
    if filter is not None and filter not in session.filters:
        raise UsageError(
            f"task {name} has no filter {filter!r}; it has: {', '.join(session.filters)}"
        )
    listed = internals.metric_names(session.task)
    for candidate in [metric] if metric is not None else listed:
        try:
            usable = metric_of_task(session.task, candidate)
        except MetricError as error:
            # A metric that the user named must work; of the task's, the next may.
            if metric is not None:
                raise
            reasons.append(str(error))
            continue
        _require_reported(usable, session)
        bank = ItemBank.blank(
            session.doc_ids,
            task=name,
            metric=usable.name,
            filter=filter or session.filters[0],
            scale=usable.scale,
            doc_hashes=session.doc_hashes,
        )
        return Outcome.of(bank, metric=usable)
    raise UnknownMetricError(
        f"task {name} has no metric with one score per document: {'; '.join(reasons)}"
    )


def _require_reported(metric: Metric, session: TaskSession) -> None:
    """Refuse a metric that a task's own scoring does not report for an empty answer.

    The answer is a placeholder's. Where the task's code raises on it, the first answers of the run
    have to show which metrics there are.
    """
    # What the task declares, it reports; and stock code reports what is declared alone. A judge
    # would be paid for the empty answer.
    if metric.source in internals.metric_names(session.task):
        return
    if not internals.scores_by_itself(session.task) or session.judged:
        return
    try:
        [answer] = session.administer(session.doc_ids[:1], internals.PlaceholderLM())
    except Exception:
        return
    reported = sorted({name for name, _ in answer.values})
    if metric.source not in reported:
        raise UnknownMetricError(not_reported(session.name, metric.name, reported))


def not_reported(task: str, metric: str, reported: Iterable[str]) -> str:
    """Say that a task reports other metrics than the one that is asked for."""
    there_are = ", ".join(reported) or "none at all"
    return f"task {task} reports no {metric} for its documents; it reports {there_are}"


class RawAndScore(NamedTuple):
    """A score on the metric's own scale, and on [0, 1] with higher better."""

    raw: float
    score: float


def score_of(outcome: Outcome, answer: Administered) -> RawAndScore | None:
    """Score an answer.

    Returns
    -------
    RawAndScore or None
        None if the task leaves the metric out for this document, as the harness then does.

    Raises
    ------
    MetricError
        If the reported value is not a score.
    """
    metric, key = outcome.metric, (outcome.metric.source, outcome.filter)
    if key not in answer.values or metric.is_missing(answer.values[key]):
        return None
    [filtered, *_] = answer.samples[outcome.filter]["filtered_resps"]
    text = filtered if isinstance(filtered, str) else None
    raw = metric.score(answer.values[key], task=outcome.task, prediction=text)
    return RawAndScore(raw, metric.scale.normalise_number(raw))


def leading(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Return the outcome with the largest weight; the first of several."""
    return max(outcomes.values(), key=lambda outcome: outcome.weight)


def _metric_of(bank: ItemBank, task: Any) -> Metric:
    """Return the bank's metric as the task reports it, on the scale of what the task reports."""
    name, scale = bank.metric, bank.scale
    try:
        metric = metric_of_task(task, name)
    except MetricError:
        # It needs a stated range, which was stated when the bank was calibrated; or it is unknown,
        # and raises again.
        ends, lower = (scale.low, scale.high), not scale.higher_is_better
        return replace(metric_of_task(task, name, range=ends, lower_is_better=lower), scale=scale)
    if metric.scale.higher_is_better != scale.higher_is_better:
        raise MetricError(
            f"metric {name} of task {internals.task_name(task)} is {metric.scale.describe()}, "
            f"the bank was calibrated on {scale.describe()}; calibrate again"
        )
    # The harness's logs hold raw scores as it reports them, so a range or cap stated for them
    # applies here, too. Another table may use other units (such as BLEU on 0 to 1).
    from_logs = bool(bank.settings) or bank.doc_hashes is not None
    return replace(metric, scale=scale) if from_logs else metric


def metric_config(task: Any) -> dict[str, object]:
    """Return a task's configuration, with the aggregations and scoring that its class has in code.

    Parameters
    ----------
    task : lm_eval.api.task.Task
        A loaded task.

    Returns
    -------
    dict
        The argument `config` of `lm_eval_ccat.metrics.find_metric`.
    """
    config = dict(task.dump_config())
    entries = [dict(entry) for entry in config.get("metric_list") or []]
    directions = dict(task.higher_is_better())
    named = {str(entry.get("metric")) for entry in entries}
    for metric, aggregation in task.aggregation().items():
        if metric not in named:
            entry = {"metric": metric, "aggregation": aggregation}
            if metric in directions:
                entry["higher_is_better"] = directions[metric]
            # An entry of a function has its text in place of a name, so that a search by name has
            # to find this one first.
            entries.insert(0, entry)
    config["metric_list"] = entries
    config["process_results"] = internals.scores_by_itself(task)
    config["output_type"] = internals.output_type(task)
    return config


def metric_of_task(
    task: Any,
    name: str,
    *,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
) -> Metric:
    """Find a metric of a loaded task.

    Parameters
    ----------
    task : lm_eval.api.task.Task
        A loaded task.
    name : str
        Metric name, without the filter.
    range, lower_is_better
        See `lm_eval_ccat.metrics.find_metric`.

    Raises
    ------
    MetricError
        If the metric does not give one score per document, or the task certainly does not report
        it; the message names metric, task and remedy.
    """
    reported = internals.reported_metrics(task)
    base, _ = parts_of(name)
    if reported is not None and base not in reported:
        hint = did_you_mean(base, reported, listing=False)
        raise UnknownMetricError(
            f"task {internals.task_name(task)} does not report metric {base}; it reports "
            f"{', '.join(reported)}{hint} (name one of these, with its bank if there is one, or "
            f"add {base} to the task's metric_list)"
        )
    return find_metric(
        name,
        range=range,
        lower_is_better=lower_is_better,
        task=internals.task_name(task),
        config=metric_config(task),
        multiple_targets=internals.has_several_targets(task),
    )


def why_not_scored(task: Any) -> str:
    """Return why the harness can score no document of a loaded task; "" if it can."""
    # Only of answers that are generated does it call the functions, and all of them.
    if internals.output_type(task) != "generate_until" or internals.scores_by_itself(task):
        return ""
    functions = internals.metric_functions(task)
    missing = [metric_name(metric) for metric in functions if functions[metric] is None]
    if not missing:
        return ""
    return (
        f"metric {', '.join(missing)} of task {internals.task_name(task)} could not be loaded: "
        "neither lm-eval nor the installed HF evaluate has it; install or download it, or correct "
        "its name"
    )


def writing_system_note(task: Any, metric: str) -> str:
    """Return a warning if a metric is meaningless for the script of the task's targets; else ""."""
    documents = itertools.islice(internals.documents(task), _TARGETS_CHECKED)
    targets = [internals.target(task, document) for document in documents]
    return script_warning(metric, [str(target) for target in targets])
