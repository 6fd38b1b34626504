"""Audit of a finished run: compares its claims with full results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import ndtri

from ..content import Facts, PairContent, RankingContent, document_of
from ..errors import UsageError
from ..metrics.scale import Floats, Scale, differing_scales
from ..scores import ScoreTable
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

#: What a run claims of a model.
_CLAIMED: tuple[Literal["estimate", "standard_error", "interval", "n_items"], ...] = (
    "estimate", "standard_error", "interval", "n_items",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """A run's claims compared with full results.

    Attributes
    ----------
    ranking : dict
        The run's ranking, as ``result.json`` has it.
    content : dict
        JSON values: ``models`` (for each, the claim, ``truth``, ``error``, ``z`` and whether the
        interval ``held``), ``true_order``, ``tau``, ``pairs`` (for each, the claim and whether it
        held), totals of these, and ``warnings``.
    """

    ranking: RankingContent
    content: Facts

    def to_dict(self) -> Facts:
        """JSON values."""
        return self.content

    def _grid(self) -> ShownTable:
        content, confidence = self.content, self.ranking["confidence"]
        title = (
            f"{content['metric']} ({content['scale']}): {confidence:.0%} intervals against full "
            "results"
        )
        columns = ("model", "estimate", "interval", "full", "z", "held")
        rows = [
            [name, row["estimate"], "{:.4g} to {:.4g}".format(*row["interval"]), row["truth"],
             f"{row['z']:+.2f}", "yes" if row["held"] else "NO"]
            for name, row in content["models"].items()
        ]  # fmt: skip
        notes = []
        if len(content["order"]) > 1:
            notes += [f"claimed order  {' > '.join(content['order'])}"]
            notes += [f"full order     {' > '.join(content['true_order'])}"]
            notes += [f"Kendall's tau  {content['tau']:.3f}"] if content["tau"] is not None else []
        decided, ties, intervals, items = (
            content[k] for k in ("decided", "ties", "intervals", "items")
        )
        if decided["of"]:
            notes.append(f"decided pairs  {decided['held']} of {decided['of']} in the full order")
        notes += [
            f"  did not hold: {pair['claim']} ({pair['a']} against {pair['b']}, P = "
            f"{pair['p']:.3f}; full {content['models'][pair['a']]['truth']:.4g} and "
            f"{content['models'][pair['b']]['truth']:.4g})"
            for pair in content["pairs"]
            if pair["held"] is False
        ]
        if ties["of"]:
            notes.append(
                f"pairs left     {ties['of']}, of which {ties['truly_tied']} are ties in the full "
                "results, too (95% bootstrap intervals overlap)"
            )
        z = float(ndtri((1.0 + confidence) / 2.0))
        notes += [
            f"intervals      {intervals['held']} of {len(rows)} hold the full score",
            "z              an error over its standard error; its root mean square is "
            f"{intervals['z_rms']:.2f}, about 1 if stated errors are true; beyond {z:.1f} an "
            "interval fails",
            f"items          {items['administered']} of {items['full']} "
            f"({items['administered'] / items['full']:.1%})",
        ]
        return ShownTable(title, columns, rows, tuple(notes))


def audit(
    ranking: RankingContent, table: ScoreTable, names: Mapping[str, str] | None = None
) -> Audit:
    """Compare what a run claimed with full results.

    Parameters
    ----------
    ranking : dict
        The run's ranking by one outcome, as ``result.json`` has it.
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
        No model of the run is in the table, or the table has another scale than the run.
    """
    claimed, scale = ranking["models"], Scale.from_dict(ranking["scale"])
    sides = ("the run", scale), ("the full results", table.scale)
    if difference := differing_scales(str(table.metric), *sides):
        raise UsageError(f"{difference}; read them with the range that both have")
    called = {name: (names or {}).get(name, name) for name in (*ranking["order"], *claimed)}
    missing = {name for name in called if called[name] not in table.models}
    asked = {name for name, block in claimed.items() if block["n_items"]}
    left_out = ", ".join(called[name] for name in called if name in asked & missing)
    if asked <= missing:
        raise UsageError(
            f"no full results of {left_out}; there are {some(table.models, 12)}; say which is "
            "which: audit(..., names=) in Python"
        )
    called = {name: logged for name, logged in called.items() if name not in missing}
    ranked, order = list(called), [name for name in ranking["order"] if name in called]
    full = table.select(called.values())
    documents = {document_of(item) for name in called for item in claimed[name].get("items", ())}
    if documents and documents.isdisjoint(full.doc_ids):
        raise UsageError(
            f"the full results have none of the documents that the run asked, such as "
            f"{min(documents, key=str)!r}: they are of another set"
        )
    scores = full.model_scores()
    means = mean_of_seen(scores, np.isfinite(scores))
    tied, truth = true_ties(*bootstrap_intervals(scores)), np.asarray(full.scale.restore(means))
    ahead = np.zeros(tied.shape, dtype=np.int8)
    rows = {(row["a"], row["b"]): row for row in ranking["pairwise"]}
    pairs: dict[tuple[int, int], PairContent] = {}
    for i, j in combinations(range(len(order)), 2):
        if row := rows.get((ranked[i], ranked[j])):
            pairs[i, j] = row
            if row["decision"] == "decided":
                ahead[i, j] = 1 if row["p"] > 0.5 else -1
    claim = Claim(
        estimates=np.array([claimed[name]["estimate"] for name in ranked]),
        intervals=np.array([sorted(claimed[name]["interval"]) for name in ranked]),
        ahead=ahead,
    )
    of_models = Truth(means, truth, tied)
    errors = claim.estimates - truth
    covered, right = claim.covered(of_models), claim.right(of_models)
    assert covered is not None and right is not None
    # A model that was set aside has an estimate but no place in the order.
    placed = means[: len(order)]
    tau = kendall_tau(-np.arange(len(placed)), placed)
    z_errors = z_scores(errors, np.array([claimed[name]["standard_error"] for name in ranked]))
    models: dict[str, Facts] = {
        name: {
            **{key: claimed[name][key] for key in _CLAIMED},
            "truth": float(truth[i]),
            "error": float(errors[i]),
            "z": float(z_errors[i]),
            "held": bool(covered[i]),
        }
        for i, name in enumerate(ranked)
    }
    compared: list[Facts] = [
        {
            "a": ranked[pair[0]],
            "b": ranked[pair[1]],
            "p": row["p"],
            "claim": f"{ranked[pair[int(ahead[pair] < 0)]]} better" if ahead[pair] else "tied",
            "truly_tied": bool(tied[pair]),
            "held": bool(right[pair] > 0) if ahead[pair] else None,
        }
        for pair, row in pairs.items()
    ]
    decided = [pair["held"] for pair in compared if pair["held"] is not None]
    left = [pair["truly_tied"] for pair in compared if pair["held"] is None]
    asked = sum(row["n_items"] for row in models.values())
    z_rms = float(np.sqrt(np.mean(np.square(z_errors))))
    [term] = ranking["terms"]
    content = {
        "task": term["task"],
        "metric": term["metric"],
        "scale": full.scale.describe(),
        "confidence": ranking["confidence"],
        "models": models,
        "order": order,
        "true_order": [ranked[i] for i in np.argsort(-placed, kind="stable")],
        "tau": None if np.isnan(tau) else tau,
        "pairs": compared,
        "intervals": {"held": int(covered.sum()), "of": len(covered), "z_rms": z_rms},
        "decided": {"held": sum(decided), "of": len(decided)},
        "ties": {"truly_tied": sum(left), "of": len(left)},
        "items": {"administered": asked, "full": len(models) * full.n_items},
        "warnings": [
            *(
                [f"no full results of {left_out}: what the run says of it is not compared"]
                * bool(left_out)
            ),
            *table.warnings,
            *_doubts(ranking, ranked, scores),
        ],
    }
    return Audit(ranking, content)


def _doubts(ranking: RankingContent, ranked: list[str], scores: Floats) -> list[str]:
    """Return reasons why the full results may not be the truth about the run."""
    size = scores.shape[1]
    doubts = []
    if ranking["items_of_benchmark"] != size:
        doubts.append(
            f"the run's benchmark has {ranking['items_of_benchmark']} items, the full results have "
            f"{size}: they are not of the same documents"
        )
    return doubts + [
        f"{model}: {gaps} of {size} full scores are missing; the truth is the mean of the others"
        for model, gaps in zip(ranked, (~np.isfinite(scores)).sum(axis=1).tolist())
        if gaps
    ]
