"""After the fact: what a run claimed, and what full results say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..content import ModelContent
from ..errors import RunError, UsageError
from ..metrics import known_scale
from ..scores import ScoreTable
from .truth import bootstrap_intervals, full_means, half_width, kendall_tau, true_ties

#: How a key begins that is of several metrics together.
WEIGHTED_MEAN = "weighted mean"


@dataclass(frozen=True)
class Claims:
    """What a run claimed, on the metric's own scale.

    Attributes
    ----------
    source : str
        The file.
    task, metric, filter : str or None
        What was estimated; ``metric`` is the harness's name of it.
    confidence : float
    items_of_benchmark : int or None
    models : dict of str to dict
        ``estimate``, ``standard_error``, ``interval`` and ``n_items`` of each model.
    order : list of str
        Best first.
    pairs : dict of (str, str) to float
        P(a better than b).
    needed : dict of (str, str) to float
        What P(a better) would have to be for the pair to be decided, at whatever look.
    decided, open : frozenset of (str, str)
        Pairs that the run's own rule, which holds at every look, decided and left open.
    steers : bool
        Whether the ranking is by it; others were reported beside it.
    weighted : bool
        Whether it is a weighted mean of several metrics or tasks; ``task`` then says of what.
    """

    source: str
    task: str | None
    metric: str | None
    filter: str | None
    confidence: float
    items_of_benchmark: int | None
    models: dict[str, ModelContent]
    order: list[str] = field(default_factory=list)
    pairs: dict[tuple[str, str], float] = field(default_factory=dict)
    needed: dict[tuple[str, str], float] = field(default_factory=dict)
    decided: frozenset[tuple[str, str]] = frozenset()
    open: frozenset[tuple[str, str]] = frozenset()
    weighted: bool = False
    steers: bool = True

    @property
    def higher_is_better(self) -> bool:
        """By the order of the models, else by what is known of the metric."""
        if len(self.order) > 1:
            first, last = (self.models[self.order[k]]["estimate"] for k in (0, -1))
            return bool(first >= last)
        scale = known_scale(self.metric or "")
        return scale is None or scale.higher_is_better

    def error_of_difference(self, a: str, b: str) -> float | None:
        """Standard error of the difference of two models that P(a better) implies, if it does."""
        p = self.pairs.get((a, b), 1.0 - self.pairs.get((b, a), 0.5))
        gap = abs(self.models[a]["estimate"] - self.models[b]["estimate"])
        z = abs(float(ndtri(p)))
        return gap / z if gap > 0.0 and 1e-3 < z < 8.0 else None

    def reach(self, a: str, b: str) -> float:
        """Half the run's own interval of a difference in standard errors; 0 where not recorded."""
        needed = self.needed.get((a, b), self.needed.get((b, a), 0.5))
        return min(float(ndtri(max(needed, 0.5))), 40.0)


def all_claims(path: str | Path) -> list[Claims]:
    """Read every estimate of a ``rank``, or of the results file of an adaptive ``run``.

    Parameters
    ----------
    path : path-like
        A run directory with ``result.json``, that file, or a ``results_*.json`` with an
        ``adaptive`` block.

    Returns
    -------
    list of Claims
        One for each metric of each task; a weighted mean of several comes first, its ``task`` says
        of what.

    Raises
    ------
    RunError
        No such file, or nothing in it that a run claimed.
    """
    file = Path(path)
    if file.is_dir():
        file = _result_in(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read as a result ({error})") from error
    try:
        if isinstance(content, dict) and isinstance(content.get("adaptive"), dict):
            return _of_results(file, content)
        if isinstance(content, dict) and "models" in content and "pairwise" in content:
            return _of_ranking(file, content)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file}: not a complete result ({error!r})") from error
    raise RunError(f"{file}: neither a result of `rank` nor a results file of an adaptive `run`")


def read_claims(path: str | Path, task: str | None = None, metric: str | None = None) -> Claims:
    """What a run claimed of one metric of one task.

    Parameters
    ----------
    path : path-like
        As for `all_claims`.
    task, metric : str, optional
        Which, where there are several.

    Raises
    ------
    RunError
        No such file, or nothing in it that a run claimed of this task and metric.
    UsageError
        There are several, and which is meant is not said.
    """
    single = [c for c in all_claims(path) if not c.weighted]
    fitting = [
        c for c in single if (task is None or c.task in (None, task)) and metric in (None, c.metric)
    ]
    if len(fitting) == 1:
        return fitting[0]
    present = ", ".join(f"{c.task or '-'}/{c.metric or '-'}" for c in fitting or single)
    if fitting:
        raise UsageError(f"{path}: holds {present}; name one with --task and --metric")
    wanted = "/".join(part for part in (task, metric) if part)
    raise RunError(f"{path}: no estimate of {wanted or 'a metric'}; there are {present or 'none'}")


def _result_in(folder: Path) -> Path:
    if (folder / "result.json").is_file():
        return folder / "result.json"
    files = sorted(folder.rglob("results_*.json"))
    if len(files) == 1:
        return files[0]
    if not files:
        raise RunError(f"{folder}: no result.json; the run has not ended, or this is not a run")
    raise RunError(f"{folder}: {len(files)} results files; name one of them")


def _of_ranking(file: Path, content: Mapping[str, Any]) -> list[Claims]:
    parts = dict(
        part.split(":", 1) for part in str(content.get("signature", "")).split("|") if ":" in part
    )
    metric, _, filter = str(content.get("key", "")).rpartition(",")
    task, weighted, terms = parts.get("task"), "tasks" in parts, [""]
    if weighted:
        # "0.8 x task/metric/bank + ...": by what is weighed, not by the banks it was told with.
        task = re.sub(r"/[0-9a-f]+(?=\+|$)", "", parts["tasks"])
        terms = [t for t in re.split(r"\+(?=[\d.e-]+ x )", task) if not t.startswith("0 x ")]
        task, measured = "+".join(terms), {term.rpartition("/")[2] for term in terms}
        metric = measured.pop() if len(measured) == 1 else WEIGHTED_MEAN
        filter = "" if str(content["key"]).startswith(WEIGHTED_MEAN) else filter
    whole = Claims(
        source=str(file),
        task=task,
        metric=_plain_name(metric) or parts.get("metric"),
        filter=filter or parts.get("filter"),
        confidence=float(content["confidence"]),
        items_of_benchmark=int(content["items_of_benchmark"]),
        models={
            name: {
                "estimate": float(one["estimate"]),
                "standard_error": float(one["standard_error"]),
                "interval": [float(v) for v in one["interval"]],
                "n_items": int(one["n_items"]),
            }
            for name, one in content["models"].items()
        },
        order=list(content["order"]),
        pairs={(p["a"], p["b"]): float(p["p"]) for p in content["pairwise"]},
        needed={(p["a"], p["b"]): float(p.get("needed", 0.5)) for p in content["pairwise"]},
        decided=_decided(content, "decided"),
        open=_decided(content, "open"),
        weighted=weighted,
    )
    inherited = {key: content[key] for key in ("confidence", "items_of_benchmark")}
    # A mean of one is that one, which stands among the blocks.
    several = not weighted or len(terms) > 1
    blocks = [*content.get("tasks", {}).values(), *content.get("outcomes", {}).values()]
    parts_of = [c for block in blocks for c in _of_ranking(file, {**inherited, **block})]
    return [whole] * several + [
        replace(c, steers=not several and terms[0].endswith(f" x {c.task}/{c.metric}"))
        for c in parts_of
    ]


def _decided(content: Mapping[str, Any], decision: str) -> frozenset[tuple[str, str]]:
    return frozenset((p["a"], p["b"]) for p in content["pairwise"] if p.get("decision") == decision)


def _of_results(file: Path, content: Mapping[str, Any]) -> list[Claims]:
    model = str(content.get("model_name") or file.parent.name)
    claims = [
        Claims(
            source=str(file),
            task=name,
            metric=_plain_name(str(one["metric"])),
            filter=one["filter"],
            confidence=float(block["confidence"]),
            items_of_benchmark=int(block["items_total"]),
            models={
                model: {
                    "estimate": float(one["estimate"]),
                    "standard_error": float(one["standard_error"]),
                    "interval": [float(v) for v in one["interval"]],
                    "n_items": int(block["items"]),
                }
            },
            order=[model],
        )
        for name, block in content["adaptive"].items()
        if isinstance(block, dict) and "estimate" in block
        for one in block.get("outcomes") or [block]
    ]
    if not claims:
        raise RunError(f"{file}: no adaptive estimate")
    return claims


def _plain_name(metric: str) -> str | None:
    """The harness's name of a metric whose sentence scores were estimated."""
    return metric.removeprefix("sentence_") or None


def audit(
    claims: Claims, table: ScoreTable, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Compare what a run claimed with full results.

    Parameters
    ----------
    claims : Claims
    table : ScoreTable
        Full results of the run's models; others are not looked at.
    names : mapping, optional
        The table's name of a model that the run calls otherwise.

    Returns
    -------
    dict
        JSON values: ``models`` (estimate, truth, z, whether the interval held), ``order``,
        ``true_order``, ``tau``, ``pairs`` (of each its claim and whether it held), ``intervals``,
        ``decided``, ``ties`` (counts) and ``warnings``.

    Raises
    ------
    UsageError
        A model of the run is not in the table.
    """
    called = {name: (names or {}).get(name, name) for name in claims.models}
    missing = [name for name in called.values() if name not in table.models]
    if missing:
        raise UsageError(
            f"no full results of {', '.join(missing)}; there are {', '.join(table.models[:12])}; "
            "say which is which: audit(..., names=) in Python"
        )
    full = table.select(called.values())
    own_name = {theirs: ours for ours, theirs in called.items()}
    row = {own_name[m]: n for n, m in enumerate(full.models)}
    scores = full.model_scores()
    means = full_means(scores)
    tied = true_ties(*bootstrap_intervals(scores))
    truth = full.scale.restore(means)
    per_model = {name: _judge(one, truth[row[name]]) for name, one in claims.models.items()}
    pairs = [
        _judge_pair(claims, pair, means[[row[m] for m in pair]], tied[row[pair[0]], row[pair[1]]])
        for pair in combinations(claims.order, 2)
        if pair in claims.pairs
    ]
    decided = [pair for pair in pairs if pair["held"] is not None]
    open_ = [pair for pair in pairs if pair["held"] is None]
    better = [means[row[name]] for name in claims.order]
    # What is best comes first: a place in the order falls as the score rises.
    tau = kendall_tau(-np.arange(len(better)), better)
    return {
        "run": claims.source,
        "task": claims.task,
        "metric": claims.metric,
        "scale": full.scale.describe(),
        "confidence": claims.confidence,
        "models": per_model,
        "order": claims.order,
        "true_order": sorted(claims.order, key=lambda name: -means[row[name]]),
        "tau": None if np.isnan(tau) else tau,
        "pairs": pairs,
        "intervals": {
            "held": sum(one["held"] for one in per_model.values()),
            "of": len(per_model),
            "z_rms": float(np.sqrt(np.mean([one["z"] ** 2 for one in per_model.values()]))),
        },
        "decided": {"held": sum(pair["held"] for pair in decided), "of": len(decided)},
        "ties": {"truly_tied": sum(pair["truly_tied"] for pair in open_), "of": len(open_)},
        "items": {
            "administered": sum(one["n_items"] for one in per_model.values()),
            "full": len(per_model) * full.n_items,
        },
        "warnings": [*table.warnings, *_doubts(claims, full, own_name)],
    }


def _judge_pair(claims: Claims, pair: tuple[str, str], means: Any, tied: bool) -> dict[str, Any]:
    """What was claimed of two models, and whether it held."""
    (a, b), p = pair, claims.pairs[pair]
    sure = pair in claims.decided
    return {
        "a": a,
        "b": b,
        "p": p,
        "claim": f"{a if p > 0.5 else b} better" if sure else "tied",
        "truly_tied": bool(tied),
        "held": bool((means[0] > means[1]) == (p > 0.5)) if sure else None,
    }


def _judge(one: ModelContent, full: float) -> dict[str, Any]:
    truth = float(full)
    error, se = one["estimate"] - truth, one["standard_error"]
    low, high = sorted(one["interval"])
    exact = abs(error) < 1e-9
    return {
        **one,
        "truth": truth,
        "error": error,
        "z": 0.0 if exact else error / max(se, 1e-12),
        "held": bool(exact or low <= truth <= high),
    }


def _doubts(claims: Claims, full: ScoreTable, own_name: Mapping[str, str]) -> list[str]:
    """What keeps the full results from being the truth about the run."""
    doubts = []
    if claims.items_of_benchmark not in (None, full.n_items):
        doubts.append(
            f"the run's benchmark has {claims.items_of_benchmark} items, the full results have "
            f"{full.n_items}: they are not of the same documents"
        )
    for model, scores in zip(full.models, full.model_scores()):
        gaps = int((~np.isfinite(scores)).sum())
        if gaps:
            doubts.append(
                f"{own_name[model]}: {gaps} of {full.n_items} full scores are missing; the truth "
                "is the mean of the others"
            )
    return doubts


def describe(report: Mapping[str, Any]) -> list[str]:
    """Return the printed report of an audit."""
    level = f"{report['confidence']:.0%}"
    z = half_width(report["confidence"])
    names = report["order"] or list(report["models"])
    width = max(len("model"), *(len(name) for name in report["models"]))
    lines = [
        f"{report['metric']} ({report['scale']}): {level} intervals against full results",
        "",
        f"{'model':<{width}}  {'estimate':>10}  {'interval':>23}  {'full':>10}  {'z':>6}  held",
    ]
    for name in [*names, *(m for m in report["models"] if m not in names)]:
        one = report["models"][name]
        low, high = one["interval"]
        lines.append(
            f"{name:<{width}}  {one['estimate']:>10.4g}  {f'{low:.4g} to {high:.4g}':>23}  "
            f"{one['truth']:>10.4g}  {one['z']:>+6.2f}  {'yes' if one['held'] else 'NO'}"
        )
    lines.append("")
    if len(report["order"]) > 1:
        lines.append(f"claimed order  {' > '.join(report['order'])}")
        lines.append(f"full order     {' > '.join(report['true_order'])}")
        if report["tau"] is not None:
            lines.append(f"Kendall's tau  {report['tau']:.3f}")
    decided, ties = report["decided"], report["ties"]
    if decided["of"]:
        lines.append(f"decided pairs  {decided['held']} of {decided['of']} in the full order")
        for pair in report["pairs"]:
            if pair["held"] is False:
                a, b = pair["a"], pair["b"]
                lines.append(
                    f"  did not hold: {pair['claim']} ({a} against {b}, P = {pair['p']:.3f}; full "
                    f"{report['models'][a]['truth']:.4g} and {report['models'][b]['truth']:.4g})"
                )
    if ties["of"]:
        lines.append(
            f"pairs left     {ties['of']}, of which {ties['truly_tied']} are ties in the full "
            "results, too (95% bootstrap intervals overlap)"
        )
    held = report["intervals"]
    lines.append(
        f"intervals      {held['held']} of {held['of']} hold the full score; z has RMS "
        f"{held['z_rms']:.2f} (1 if the errors are true; beyond {z:.1f} an interval fails)"
    )
    items = report["items"]
    lines.append(
        f"items          {items['administered']} of {items['full']} "
        f"({items['administered'] / items['full']:.1%})"
    )
    return lines
