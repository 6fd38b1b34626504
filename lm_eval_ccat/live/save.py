"""One model's part of a ranking as the harness's own results and samples files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..harness import internals
from ..harness.session import Administered, TaskSession
from ..metrics import Metric
from ..ranker import Ranking
from .harness_results import assemble
from .loop import AdaptiveRun
from .options import AdaptiveOptions


def one_model(ranking: Ranking, name: str) -> Ranking:
    """What a ranking says of one of its models, as a ranking of that model alone."""
    parts: dict[str, Any] = {
        part: {name: getattr(ranking, part)[name]}
        for part in ("estimates", "standard_errors", "abilities", "items", "cost")
    }
    order = [name] if name in ranking.order else []
    return replace(ranking, order=order, pairwise={}, ties=[], separated_within_ties=[], **parts)


def save_model(
    folder: Path,
    name: str,
    session: TaskSession,
    bank: ItemBank,
    metric: Metric,
    filter: str,
    administered: Mapping[int, Administered],
    ranking: Ranking,
    *,
    model: str,
    model_args: Mapping[str, Any],
    seconds: float,
    usd: float | None,
) -> None:
    """Write ``<folder>/<name>/results_<date>.json`` and ``samples_<task>_<date>.jsonl``.

    Parameters
    ----------
    folder : Path
        The run directory.
    name : str
        The model's name in the ranking.
    session : TaskSession
        With its model attached.
    administered : mapping of doc_id to Administered
        All documents that were scored.
    ranking : Ranking
    model, model_args
        Type and (masked) arguments for the ``config`` block.
    seconds, usd : float
        What the model's documents took.
    """
    run = AdaptiveRun(
        session=session,
        bank=bank,
        options=AdaptiveOptions(bank=bank, confidence=ranking.confidence),
        metric=metric,
        filter=filter,
        warnings=[],
        administered={int(d): a for d, a in administered.items()},
        units={int(d): _unit(metric, filter, session.name, a) for d, a in administered.items()},
        ranking=one_model(ranking, name),
        cost=usd,
        seconds=seconds,
    )
    results = assemble(
        session.lm,
        [session.name],
        {},
        None,
        {session.name: run},
        bootstrap_iters=None,
        log_samples=True,
    )
    results["config"] = {"model": model, "model_args": dict(model_args), "limit": None}
    samples = results.pop("samples")
    internals.save_results(str(folder), name, results, samples, session.options)


def _unit(metric: Metric, filter: str, task: str, one: Administered) -> float:
    filtered = one.samples[filter]["filtered_resps"][0]
    prediction = filtered if isinstance(filtered, str) else None
    raw = metric.score(one.values[metric.name, filter], task=task, prediction=prediction)
    return float(metric.scale.normalise(raw))
