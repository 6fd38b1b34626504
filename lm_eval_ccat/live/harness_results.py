"""Harness-shaped results in which an estimate is never taken for a full score.

Where every document was run, the values are computed by the harness's own aggregation. Otherwise
no mean of the chosen documents is formed at all (it would be biased): the estimate and its standard
error stand under the metric's key, the task's other metrics are left out and named in the
``adaptive`` block, ``n-samples`` shows fewer effective than original documents, and the task's
printed name says that it is an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..harness import internals
from .loop import AdaptiveRun


def assemble(
    lm: Any,
    order: Iterable[str],
    groups: Mapping[str, Any],
    ordinary: Mapping[str, Any] | None,
    runs: Mapping[str, AdaptiveRun],
    *,
    bootstrap_iters: int | None,
    log_samples: bool,
) -> dict[str, Any]:
    """Results of adaptive and ordinary tasks together.

    Parameters
    ----------
    lm : LM
    order : iterable of str
        All tasks, in the harness's order.
    groups : mapping of str to Group
    ordinary : mapping or None
        The harness's results of the tasks that are not adaptive, without groups.
    runs : mapping of str to AdaptiveRun
        The finished adaptive runs.
    bootstrap_iters, log_samples
        As `evaluate` takes them.

    Returns
    -------
    dict
        As `evaluate` returns it, with ``adaptive: {task: block}`` added.
    """
    collected = {name: _collect(run, bootstrap_iters) for name, run in runs.items()}
    everything = internals.new_accumulator()
    everything.groups = dict(groups)
    for name in order:
        if name in collected:
            _merge(everything, collected[name], name)
        elif ordinary is not None:
            _merge_ordinary(everything, ordinary, name)
    partial = {name: run for name, run in runs.items() if not run.complete}
    for name, run in partial.items():
        # Groups weigh tasks by size; an estimate stands for all documents of its task.
        everything.metrics[name]["sample_len"] = len(run.session.doc_ids)
    internals.aggregate_groups(everything)
    for name, run in partial.items():
        everything.metrics[name]["sample_len"] = len(run.administered)
    blocks = {name: describe(run) for name, run in runs.items()}
    for group in groups.values():
        block = _correct_group(everything.metrics, group, partial)
        if block is not None:
            blocks[group.name] = block
    results = internals.to_results(everything, lm, log_samples)
    results["adaptive"] = blocks
    return results


def describe(run: AdaptiveRun) -> dict[str, Any]:
    """The ``adaptive`` block of one task; figures on the metric's own scale."""
    assert run.ranking is not None
    ranking, scale, name = run.ranking, run.metric.scale, next(iter(run.ranking.abilities))
    estimate, se = _estimate(run)
    low, high = ranking.interval(name)
    if run.complete:
        low = high = float(scale.normalise(estimate))
    total, n = len(run.session.doc_ids), len(run.administered)
    ability, ability_se = ranking.abilities[name]
    block = {
        "estimand": estimand(run),
        "metric": run.metric.name,
        "filter": run.filter,
        "key": run.key,
        "scale": scale.describe(),
        "estimate": estimate,
        "standard_error": se,
        "interval": sorted(float(scale.restore(v)) for v in (low, high)),
        "confidence": ranking.confidence,
        "items": n,
        "items_total": total,
        "stopped_because": ("every document was run" if run.complete else ranking.stopped_because),
        "method": run.bank.method,
        "bank": run.bank.short_hash,
        "ability": ability,
        "ability_standard_error": ability_se,
        "audit": _audit(run),
        "place": ranking.places[name].to_dict() if name in ranking.places else None,
        "cost": {"items": n, "usd": run.cost},
        "seconds": round(run.seconds, 3),
        "not_estimated": [] if run.complete else _left_out(run),
        "warnings": list(run.warnings),
        "documents": list(run.administered),
        "signature": f"{ranking.signature}|lm-eval:{internals.harness_version()}",
    }
    return block


def _audit(run: AdaptiveRun) -> dict[str, Any] | None:
    """What the documents drawn at random say, on the metric's own scale."""
    assert run.ranking is not None
    if run.complete or not run.ranking.audits:
        return None
    ranking = replace(run.ranking, scale=run.metric.scale)
    [found] = [one["audit"] for one in ranking.to_dict()["models"].values() if one["audit"]]
    return dict(found)


def estimand(run: AdaptiveRun) -> str:
    """What the number is, in words."""
    metric, bank, total = run.metric, run.bank, len(run.session.doc_ids)
    if metric.label.startswith("sentence_"):
        what = f"mean sentence-level {metric.name} (not the corpus {metric.name})"
    else:
        what = f"mean {metric.name}"
    if metric.scale.cap is not None:
        what += f", each document's score capped at {metric.scale.cap:g},"
    if run.complete:
        return f"{what} over all {total} documents of {run.session.name}, every one of them run"
    known = bank.n_items
    which = (
        f"all {total} documents" if known == total else f"the bank's {known} of {total} documents"
    )
    return (
        f"estimate of the {what} over {which} of {run.session.name}, "
        f"from {len(run.administered)} chosen ones"
    )


def in_words(block: Mapping[str, Any], task: str) -> str:
    """One line for a person: what was estimated, how surely, by how many documents."""
    if "estimate" not in block:
        return f"{task}: {block['estimand']}"
    low, high = block["interval"]
    return (
        f"{task}: {block['key']} = {block['estimate']:.4g} ± {block['standard_error']:.2g} "
        f"({100 * block['confidence']:g}% interval {low:.4g} to {high:.4g}), "
        f"{block['items']} of {block['items_total']} documents; {block['stopped_because']}.\n"
        f"  {block['estimand']}\n  {block['signature']}"
    )


# -- one task -------------------------------------------------------------------------------------


def _estimate(run: AdaptiveRun) -> tuple[float, float]:
    """Estimate and standard error on the metric's own scale; exact where every document was run."""
    scale = run.metric.scale
    if run.complete:
        return float(scale.restore(np.mean(list(run.units.values())))), 0.0
    assert run.ranking is not None
    name = next(iter(run.ranking.abilities))
    return (
        float(scale.restore(run.ranking.estimates[name])),
        float(scale.restore_error(run.ranking.standard_errors[name])),
    )


def _collect(run: AdaptiveRun, bootstrap_iters: int | None) -> Any:
    """The harness's accumulator of one task, its values corrected."""
    name, session = run.session.name, run.session
    answers = [run.administered[d] for d in sorted(run.administered)]
    raw: dict[tuple[str, str], list[Any]] = {}
    if run.complete:
        for flt in session.filters:
            for answer in answers:
                for metric in answer.samples[flt]["metrics"]:
                    raw.setdefault((metric, flt), []).append(answer.values[metric, flt])
    samples = [answer.samples[flt] for flt in session.filters for answer in answers]
    accumulator = internals.collect(
        {name: {"task": session.task, "raw_metrics": raw, "logged_samples": samples}},
        bootstrap_iters,
    )
    values = accumulator.metrics[name]
    label = run.metric.label
    if not run.complete:
        n, total = len(answers), len(session.doc_ids)
        values["alias"] = f"{values['alias']} (adaptive estimate, {n} of {total} docs)"
        values["sample_len"] = n
        accumulator.n_samples[name]["effective"] = n
        # Loggers that show numbers only see by this one that the others are estimates.
        values[f"adaptive_items,{run.filter}"] = n
    if not run.complete or run.key not in values:
        values[run.key], values[f"{label}_stderr,{run.filter}"] = _estimate(run)
        directions = dict(accumulator.higher_is_better[name])
        directions.setdefault(label, run.metric.scale.higher_is_better)
        accumulator.higher_is_better[name] = directions
    return accumulator


def _left_out(run: AdaptiveRun) -> list[str]:
    """Keys of the task's other metrics, for which there is no estimate."""
    reported = {pair: None for answer in run.administered.values() for pair in answer.values}
    keys = [f"{metric},{flt}" for metric, flt in reported]
    return [key for key in keys if key != run.key]


# -- together -------------------------------------------------------------------------------------


def _merge(everything: Any, one: Any, name: str) -> None:
    for part in (
        "metrics", "configs", "versions", "num_fewshot", "higher_is_better", "samples", "n_samples"
    ):  # fmt: skip
        getattr(everything, part)[name] = getattr(one, part)[name]


def _merge_ordinary(everything: Any, results: Mapping[str, Any], name: str) -> None:
    everything.metrics[name] = results["results"][name]
    everything.configs[name] = results["configs"][name]
    everything.versions[name] = results["versions"][name]
    everything.num_fewshot[name] = results["n-shot"][name]
    everything.higher_is_better[name] = results["higher_is_better"][name]
    everything.n_samples[name] = results["n-samples"][name]
    everything.samples[name] = results.get("samples", {}).get(name, [])


def _correct_group(
    metrics: dict[str, Any], group: Any, partial: Mapping[str, AdaptiveRun]
) -> dict[str, Any] | None:
    """Make a group's scores honest where some of its tasks are estimates; its ``adaptive`` block.

    The harness would average over those tasks that have a metric, and pool standard errors of
    another kind. Here a score stands only where every task has it, and its standard error is that
    of the estimates: tasks that were run in full add none.
    """
    tasks = [task.task_name for task in group.get_all_tasks()]
    estimated = [name for name in tasks if name in partial]
    if not estimated or not group.has_aggregation:
        return None
    values = metrics[group.name]
    sizes = {
        name: len(partial[name].session.doc_ids) if name in partial else metrics[name]["sample_len"]
        for name in tasks
    }
    run_in_all = sum(metrics[name]["sample_len"] for name in tasks)
    kept, dropped = [], []
    for config in group.aggregate_metric_list:
        # A partial task without the metric says nothing of it; a full run would have it.
        filters = config.filter_list or _filters_of(config.metric, partial, metrics, tasks)
        for flt in filters:
            key, stderr = f"{config.metric},{flt}", f"{config.metric}_stderr,{flt}"
            if all(key in metrics[name] for name in tasks):
                weights = sizes if config.weight_by_size else dict.fromkeys(tasks, 1)
                variance = sum((weights[n] * metrics[n][stderr]) ** 2 for n in estimated)
                values[stderr] = math.sqrt(variance) / sum(weights.values())
                kept.append(key)
            else:
                dropped.append(key)
                values.pop(key, None)
                values.pop(stderr, None)
                values.get("sample_count", {}).pop(key, None)
    values["alias"] = f"{values['alias']} (adaptive estimate, {run_in_all} docs run)"
    values["sample_len"] = run_in_all
    if "sample_count" in values:
        values["sample_count"] = {key: run_in_all for key in values["sample_count"]}
    return {
        "estimand": (
            f"estimate of the score of group {group.name} over all documents of its "
            f"{len(tasks)} tasks, of which {len(estimated)} were run in part; its standard error "
            "is that of the estimates alone"
        ),
        "estimated": kept,
        "not_estimated": dropped,
        "tasks": estimated,
        "items": run_in_all,
        "items_total": sum(sizes.values()),
    }


def _filters_of(
    metric: str, partial: Mapping[str, AdaptiveRun], metrics: Mapping[str, Any], tasks: list[str]
) -> list[str]:
    """Filters under which a full run of the tasks would report a metric."""
    found: dict[str, None] = {}
    for name in tasks:
        keys = [*metrics[name], *(_left_out(partial[name]) if name in partial else ())]
        found.update({k.partition(",")[2]: None for k in keys if k.partition(",")[0] == metric})
    return sorted(found)
