"""Audit of a finished run: compares its claims with full results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..content import RESULT, Facts, ModelContent, PairContent
from ..errors import RunError, UsageError
from ..methods.belief import BENCHMARK
from ..metrics import known_scale
from ..metrics.pairs import SENTENCE
from ..metrics.scale import Floats
from ..runs.directory import read_object
from ..scores import ScoreTable
from ..scores.readers.lm_eval import model_of, results_files
from ..shown import Shown, ShownTable, some
from .folds import mean_of_seen
from .judging import (
    Claim,
    Truth,
    bootstrap_intervals,
    kendall_tau,
    true_ties,
    z_scores,
)

#: First words of the task of a claim that covers several metrics or tasks.
WEIGHTED_MEAN = "weighted mean"


@dataclass(frozen=True)
class Claims:
    """Claims of a run, on the metric's own scale.

    Attributes
    ----------
    source : str
        The file.
    task, metric, filter : str or None
        What was estimated; ``metric`` is the harness's name.
    confidence : float
    items_of_benchmark : int or None
    models : dict of str to dict
        ``estimate``, ``standard_error``, ``interval`` and ``n_items`` of each model.
    order : list of str
        Best first.
    pairs : dict of (str, str) to dict
        ``p`` that a is better than b, the ``p`` ``needed`` to decide the pair at any look, and the
        ``decision`` of the run's own rule, which holds at every look.
    steers : bool
        Whether the run ranked by this estimate; the others were only reported.
    weighted : bool
        Whether it is a weighted mean of several metrics or tasks, which ``task`` then lists.
    question : {"benchmark", "population", "run"}
        Whether it is about these items, about items like these, or about these very answers.
    sampled : bool
        Whether answers are draws, so that even all items leave an error.
    """

    source: str
    task: str | None
    metric: str | None
    filter: str | None
    confidence: float
    items_of_benchmark: int | None
    models: dict[str, ModelContent]
    order: list[str] = field(default_factory=list)
    pairs: dict[tuple[str, str], PairContent] = field(default_factory=dict)
    weighted: bool = False
    steers: bool = True
    question: str = BENCHMARK
    sampled: bool = False

    @property
    def higher_is_better(self) -> bool:
        """Infer the direction from the order of the models, else from the metric."""
        if len(self.order) > 1:
            first, last = (self.models[self.order[k]]["estimate"] for k in (0, -1))
            return bool(first >= last)
        scale = known_scale(self.metric or "")
        return scale is None or scale.higher_is_better

    def pair(self, a: str, b: str) -> PairContent:
        """Return what was claimed of a pair; empty if the run did not compare the two."""
        other = self.pairs.get((b, a), {"p": 0.5})
        return self.pairs.get((a, b), {**other, "p": 1.0 - other["p"]})

    def error_of_difference(self, a: str, b: str) -> float | None:
        """Return the standard error of a difference that P(a better) implies, if it implies one."""
        gap = abs(self.models[a]["estimate"] - self.models[b]["estimate"])
        z = abs(float(ndtri(self.pair(a, b)["p"])))
        return gap / z if gap > 0.0 and 1e-3 < z < 8.0 else None

    def reach(self, a: str, b: str) -> float:
        """Return half the run's interval of a difference, in standard errors; 0 if not recorded."""
        return min(float(ndtri(max(self.pair(a, b).get("needed", 0.5), 0.5))), 40.0)


def all_claims(path: str | Path) -> list[Claims]:
    """Read every estimate in the result of a ``rank`` or the results file of an adaptive ``run``.

    Parameters
    ----------
    path : path-like
        A run directory with ``result.json``, that file, or a ``results_*.json`` with an
        ``adaptive`` block.

    Returns
    -------
    list of Claims
        One for each metric of each task; a weighted mean of several comes first, and its ``task``
        lists them.

    Raises
    ------
    RunError
        There is no such file, or it holds no claim of a run.
    """
    file = Path(path)
    if file.is_dir():
        files = [f for f in [file / RESULT] if f.is_file()] or results_files(file)
        if len(files) > 1:
            raise RunError(f"{file}: {len(files)} results files; name one of them")
        if not files:
            raise RunError(f"{file}: no {RESULT}; the run has not ended, or this is not a run")
        file = files[0]
    content = read_object(file)
    try:
        if isinstance(content.get("adaptive"), dict):
            return _of_results(file, content)
        if "models" in content and "pairwise" in content:
            return _of_ranking(file, content)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file}: not a complete result ({error!r})") from error
    raise RunError(f"{file}: neither a result of `rank` nor a results file of an adaptive `run`")


def read_claims(path: str | Path, task: str | None = None, metric: str | None = None) -> Claims:
    """Read what a run claimed about one metric of one task.

    Parameters
    ----------
    path : path-like
        As for `all_claims`.
    task, metric : str, optional
        Which one, if there are several.

    Raises
    ------
    RunError
        There is no such file, or it holds no claim about this task and metric.
    UsageError
        There are several, and the arguments do not name one.
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


def _claimed(block: Mapping[str, Any], n_items: Any) -> ModelContent:
    return {
        "estimate": float(block["estimate"]),
        "standard_error": float(block["standard_error"]),
        "interval": [float(v) for v in block["interval"]],
        "n_items": int(n_items),
    }


def _claimed_of_pair(pair: Mapping[str, Any]) -> PairContent:
    needed, decision = float(pair.get("needed", 0.5)), str(pair.get("decision"))
    return {"p": float(pair["p"]), "needed": needed, "decision": decision}


def _of_ranking(file: Path, content: Mapping[str, Any]) -> list[Claims]:
    parts = dict(
        part.split(":", 1) for part in str(content.get("signature", "")).split("|") if ":" in part
    )
    metric, _, filter = str(content.get("key", "")).rpartition(",")
    task, weighted, terms = parts.get("task"), "tasks" in parts, [""]
    if weighted:
        # "0.8 x task/metric/bank + ...": keep what is weighted, and drop the hashes of the banks.
        task = re.sub(r"/[0-9a-f]+(?=\+|$)", "", parts["tasks"])
        terms = [term for term in terms_of(task) if not term.startswith("0 x ")]
        task, measured = "+".join(terms), {term.rpartition("/")[2] for term in terms}
        metric = measured.pop() if len(measured) == 1 else WEIGHTED_MEAN
        filter = "" if str(content["key"]).startswith(WEIGHTED_MEAN) else filter
    whole = Claims(
        source=str(file),
        task=task,
        metric=parts.get("metric") or _plain_name(metric),
        filter=filter or parts.get("filter"),
        confidence=float(content["confidence"]),
        items_of_benchmark=int(content["items_of_benchmark"]),
        models={name: _claimed(one, one["n_items"]) for name, one in content["models"].items()},
        order=list(content["order"]),
        pairs={(p["a"], p["b"]): _claimed_of_pair(p) for p in content["pairwise"]},
        weighted=weighted,
        question=str(content.get("question", BENCHMARK)),  # earlier versions knew no other
        sampled=bool(content.get("sampled")),
    )
    kept = ("confidence", "items_of_benchmark", "question", "sampled")
    inherited = {key: content[key] for key in kept if key in content}
    # A mean of a single term is that term, which is among the blocks.
    several = not weighted or len(terms) > 1
    blocks = [*content.get("tasks", {}).values(), *content.get("outcomes", {}).values()]
    parts_of = [c for block in blocks for c in _of_ranking(file, {**inherited, **block})]
    return [whole] * several + [
        replace(c, steers=not several and terms[0].endswith(f" x {c.task}/{c.metric}"))
        for c in parts_of
    ]


def terms_of(mean: str) -> list[str]:
    """Return the terms of a weighted mean, as `Claims.task` and signatures list them.

    Examples
    --------
    >>> terms_of("0.5 x one/acc+1e-05 x two/f1")
    ['0.5 x one/acc', '1e-05 x two/f1']
    """
    return re.split(r"\+(?=[\d.e-]+ x )", mean)


def _of_results(file: Path, content: Mapping[str, Any]) -> list[Claims]:
    model = model_of(content, file.parent)
    claims = [
        Claims(
            source=str(file),
            task=name,
            metric=_plain_name(str(one["metric"])),
            filter=one["filter"],
            confidence=float(block["confidence"]),
            items_of_benchmark=int(block["items_total"]),
            models={model: _claimed(one, block["items"])},
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
    """Return the harness's name of a metric whose sentence scores were estimated."""
    return metric.removeprefix(SENTENCE) or None


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """A run's claims compared with full results.

    Attributes
    ----------
    claims : Claims
    content : dict
        JSON values: ``models`` (for each, the claim, ``truth``, ``error``, ``z`` and whether the
        interval ``held``), ``true_order``, ``tau``, ``pairs`` (for each, the claim and whether it
        held), totals of these, and ``warnings``.
    """

    claims: Claims
    content: Facts

    def to_dict(self) -> Facts:
        """JSON values."""
        return self.content

    def _grid(self) -> ShownTable:
        claims, of = self.claims, self.content
        title = (
            f"{claims.metric} ({of['scale']}): {claims.confidence:.0%} intervals against full "
            "results"
        )
        columns = ("model", "estimate", "interval", "full", "z", "held")
        rows = [
            [name, one["estimate"], "{:.4g} to {:.4g}".format(*one["interval"]), one["truth"],
             f"{one['z']:+.2f}", "yes" if one["held"] else "NO"]
            for name, one in of["models"].items()
        ]  # fmt: skip
        notes = []
        if len(of["order"]) > 1:
            notes += [f"claimed order  {' > '.join(of['order'])}"]
            notes += [f"full order     {' > '.join(of['true_order'])}"]
            notes += [f"Kendall's tau  {of['tau']:.3f}"] if of["tau"] is not None else []
        decided, ties, intervals, items = (of[k] for k in ("decided", "ties", "intervals", "items"))
        if decided["of"]:
            notes.append(f"decided pairs  {decided['held']} of {decided['of']} in the full order")
        notes += [
            f"  did not hold: {pair['claim']} ({pair['a']} against {pair['b']}, P = "
            f"{pair['p']:.3f}; full {of['models'][pair['a']]['truth']:.4g} and "
            f"{of['models'][pair['b']]['truth']:.4g})"
            for pair in of["pairs"]
            if pair["held"] is False
        ]
        if ties["of"]:
            notes.append(
                f"pairs left     {ties['of']}, of which {ties['truly_tied']} are ties in the full "
                "results, too (95% bootstrap intervals overlap)"
            )
        z = float(ndtri((1.0 + claims.confidence) / 2.0))
        notes += [
            f"intervals      {intervals['held']} of {len(rows)} hold the full score; z has RMS "
            f"{intervals['z_rms']:.2f} (1 if the errors are true; beyond {z:.1f} an interval "
            "fails)",
            f"items          {items['administered']} of {items['full']} "
            f"({items['administered'] / items['full']:.1%})",
        ]
        return ShownTable(title, columns, rows, tuple(notes))


def audit(claims: Claims, table: ScoreTable, names: Mapping[str, str] | None = None) -> Audit:
    """Compare what a run claimed with full results.

    Parameters
    ----------
    claims : Claims
    table : ScoreTable
        Full results of the models that the run asked; other models are ignored.
    names : mapping, optional
        The table's name of each model that the run names differently.

    Returns
    -------
    Audit

    Raises
    ------
    UsageError
        A model of the run is not in the table.
    """
    called = {name: (names or {}).get(name, name) for name in (*claims.order, *claims.models)}
    references = [m for m, one in claims.models.items() if not one["n_items"]]
    for name in [name for name in references if called[name] not in table.models]:
        del called[name]
    ranked, order = list(called), [name for name in claims.order if name in called]
    missing = [name for name in called.values() if name not in table.models]
    if missing:
        raise UsageError(
            f"no full results of {', '.join(missing)}; there are {some(table.models, 12)}; "
            "say which is which: audit(..., names=) in Python"
        )
    full = table.select(called.values())
    scores = full.model_scores()
    means = mean_of_seen(scores, np.isfinite(scores))
    tied, truth = true_ties(*bootstrap_intervals(scores)), np.asarray(full.scale.restore(means))
    ahead = np.zeros(tied.shape, dtype=np.int8)
    pairs: dict[tuple[int, int], PairContent] = {}
    for i, j in combinations(range(len(order)), 2):
        if one := claims.pairs.get((ranked[i], ranked[j])):
            pairs[i, j] = one
            if one.get("decision") == "decided":
                ahead[i, j] = 1 if one["p"] > 0.5 else -1
    claim = Claim(
        estimates=np.array([claims.models[name]["estimate"] for name in ranked]),
        intervals=np.array([sorted(claims.models[name]["interval"]) for name in ranked]),
        ahead=ahead,
    )
    of_models = Truth(means, truth, tied)
    errors = claim.estimates - truth
    covered, right = claim.covered(of_models), claim.right(of_models)
    assert covered is not None and right is not None
    # A model that was set aside has an estimate but no place in the order.
    placed = means[: len(order)]
    tau = kendall_tau(-np.arange(len(placed)), placed)
    z = z_scores(errors, np.array([claims.models[name]["standard_error"] for name in ranked]))
    models: dict[str, Facts] = {
        name: {
            **claims.models[name],
            "truth": float(truth[i]),
            "error": float(errors[i]),
            "z": float(z[i]),
            "held": bool(covered[i]),
        }
        for i, name in enumerate(ranked)
    }
    compared: list[Facts] = [
        {
            "a": ranked[at[0]],
            "b": ranked[at[1]],
            "p": one["p"],
            "claim": f"{ranked[at[int(ahead[at] < 0)]]} better" if ahead[at] else "tied",
            "truly_tied": bool(tied[at]),
            "held": bool(right[at] > 0) if ahead[at] else None,
        }
        for at, one in pairs.items()
    ]
    decided = [pair["held"] for pair in compared if pair["held"] is not None]
    left = [pair["truly_tied"] for pair in compared if pair["held"] is None]
    asked = sum(one["n_items"] for one in models.values())
    z_rms = float(np.sqrt(np.mean(np.square(z))))
    content = {
        "run": claims.source,
        "task": claims.task,
        "metric": claims.metric,
        "scale": full.scale.describe(),
        "confidence": claims.confidence,
        "models": models,
        "order": order,
        "true_order": [ranked[i] for i in np.argsort(-placed, kind="stable")],
        "tau": None if np.isnan(tau) else tau,
        "pairs": compared,
        "intervals": {"held": int(covered.sum()), "of": len(covered), "z_rms": z_rms},
        "decided": {"held": sum(decided), "of": len(decided)},
        "ties": {"truly_tied": sum(left), "of": len(left)},
        "items": {"administered": asked, "full": len(models) * full.n_items},
        "warnings": [*table.warnings, *_doubts(claims, ranked, scores)],
    }
    return Audit(claims, content)


def _doubts(claims: Claims, ranked: list[str], scores: Floats) -> list[str]:
    """Return reasons why the full results may not be the truth about the run."""
    size = scores.shape[1]
    doubts = []
    if claims.items_of_benchmark not in (None, size):
        doubts.append(
            f"the run's benchmark has {claims.items_of_benchmark} items, the full results have "
            f"{size}: they are not of the same documents"
        )
    return doubts + [
        f"{model}: {gaps} of {size} full scores are missing; the truth is the mean of the others"
        for model, gaps in zip(ranked, (~np.isfinite(scores)).sum(axis=1).tolist())
        if gaps
    ]
