"""Audit of a finished run: compares its claims with full results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import bdtrc, ndtri

from ..content import Facts, PairContent, RankingContent, document_of
from ..errors import UsageError
from ..metrics.scale import Floats, Scale, differing_scales
from ..scores import ScoreTable
from ..shown import Shown, ShownTable, some
from .folds import mean_of_asked
from .judging import (
    Claim,
    Truth,
    bootstrap_intervals,
    kendall_tau,
    true_ties,
    z_scores,
)

#: Below this chance, so few intervals that hold are no accident.
_ACCIDENT = 0.01
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

    @property
    def intervals_fail(self) -> bool:
        """Whether so few intervals hold as their level lets happen in less than 1% of runs."""
        return bool(self.content["intervals"]["chance"] < _ACCIDENT)

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
        # One model has no order.
        if len(content["order"]) > 1:
            notes += [f"claimed order  {' > '.join(content['order'])}"]
            notes += [f"full order     {' > '.join(content['true_order'])}"]
            notes += [f"Kendall's tau  {content['tau']:.3f}"] if content["tau"] is not None else []
        decided, ties, intervals, items = (
            content[k] for k in ("decided", "ties", "intervals", "items")
        )
        # A run that decided nothing is judged by its intervals alone.
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
            f"intervals      {intervals['held']} of {len(rows)} hold the full score"
            + (f"; so few do in {intervals['chance']:.1g} of runs" if self.intervals_fail else ""),
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
    sides = ("the run", Scale.from_dict(ranking["scale"])), ("the full results", table.scale)
    if difference := differing_scales(str(table.metric), *sides):
        raise UsageError(f"{difference}; read them with the range that both have")
    logged, left_out = _names_in_both(ranking, table, names or {})
    models, placed = list(logged), [name for name in ranking["order"] if name in logged]
    full = table.select(logged.values())
    _require_its_documents(ranking, models, full)
    scores = full.model_scores()
    means = mean_of_asked(scores, np.isfinite(scores))
    tied = true_ties(*bootstrap_intervals(scores))
    # A run claims means on the metric's own scale; the order is that of the scores.
    truth = Truth(raw=means, means=np.asarray(full.scale.restore(means)), tied=tied)
    pairs = _pairs_of(ranking, placed)
    claim = _claim_of(ranking, models, pairs)
    rows, compared = _model_rows(ranking, models, claim, truth), _pair_rows(pairs, claim, truth)
    held = [row["held"] for row in compared if row["held"] is not None]
    truly_tied = [row["truly_tied"] for row in compared if row["held"] is None]
    # A model that was set aside has an estimate but no place in the order.
    placed_means = means[: len(placed)]
    # The order itself is what is claimed: the first model has the highest number.
    tau = kendall_tau(-np.arange(len(placed)), placed_means)
    z_rms = float(np.sqrt(np.mean(np.square([row["z"] for row in rows.values()]))))
    # An audit is of one outcome, whose results are compared.
    [term] = ranking["terms"]
    content = {
        "task": term["task"],
        "metric": term["metric"],
        "scale": full.scale.describe(),
        "confidence": ranking["confidence"],
        "models": rows,
        "order": placed,
        "true_order": [models[i] for i in np.argsort(-placed_means, kind="stable")],
        "tau": None if np.isnan(tau) else tau,
        "pairs": compared,
        "intervals": {
            "held": sum(row["held"] for row in rows.values()),
            "of": len(rows),
            "z_rms": z_rms,
            "chance": _chance(ranking, [row["held"] for row in rows.values() if row["n_items"]]),
        },
        "decided": {"held": sum(held), "of": len(held)},
        "ties": {"truly_tied": sum(truly_tied), "of": len(truly_tied)},
        "items": {
            "administered": sum(row["n_items"] for row in rows.values()),
            "full": len(rows) * full.n_items,
        },
        "warnings": [*left_out, *table.warnings, *_doubts(ranking, models, scores)],
    }
    return Audit(ranking, content)


def _names_in_both(
    ranking: RankingContent, table: ScoreTable, names: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the table's name of each of the run's models that it has, and a warning of others.

    Those in the run's order come first.
    """
    claimed = ranking["models"]
    logged = {name: names.get(name, name) for name in (*ranking["order"], *claimed)}
    asked = {name for name, block in claimed.items() if block["n_items"]}
    missing = {name for name in logged if logged[name] not in table.models}
    left_out = ", ".join(logged[name] for name in logged if name in asked & missing)
    # Models that were not asked claim nothing.
    if asked <= missing:
        raise UsageError(
            f"no full results of {left_out}; there are {some(table.models, 12)}; say which is "
            "which: audit(..., names=) in Python"
        )
    warning = f"not compared, for lack of full results: {left_out}"
    in_both = {name: in_table for name, in_table in logged.items() if name not in missing}
    return in_both, [warning] if left_out else []


def _require_its_documents(
    ranking: RankingContent, models: Sequence[str], full: ScoreTable
) -> None:
    """Refuse full results that have none of the documents which the run asked these models."""
    items = (item for name in models for item in ranking["models"][name].get("items", ()))
    documents = set(map(document_of, items))
    # Every claim would look wrong, and none would be.
    if documents and documents.isdisjoint(full.doc_ids):
        raise UsageError(
            f"the full results have none of the documents that the run asked, such as "
            f"{min(documents, key=str)!r}: they are of another set"
        )


#: Positions of two models, the one that comes first in the run's order first.
_Places = tuple[int, int]


def _pairs_of(ranking: RankingContent, placed: Sequence[str]) -> dict[_Places, PairContent]:
    """Return what the run says of each pair of models, by their places in its order."""
    rows = {(row["a"], row["b"]): row for row in ranking["pairwise"]}
    places = combinations(range(len(placed)), 2)
    return {(i, j): row for i, j in places if (row := rows.get((placed[i], placed[j])))}


def _claim_of(
    ranking: RankingContent, models: Sequence[str], pairs: Mapping[_Places, PairContent]
) -> Claim:
    """Return what the run claims of models, and which pairs it decided for whom."""
    ahead = np.zeros((len(models), len(models)), dtype=np.int8)
    for (i, j), row in pairs.items():
        if row["decision"] == "decided":
            ahead[i, j] = 1 if row["p"] > 0.5 else -1
    blocks = [ranking["models"][name] for name in models]
    return Claim(
        estimates=np.array([block["estimate"] for block in blocks]),
        standard_errors=np.array([block["standard_error"] for block in blocks]),
        intervals=np.array([sorted(block["interval"]) for block in blocks]),
        ahead=ahead,
    )


def _model_rows(
    ranking: RankingContent, models: Sequence[str], claim: Claim, truth: Truth
) -> dict[str, Facts]:
    """Return for each model the claim beside the truth."""
    covered, errors = claim.covered(truth), claim.estimates - truth.means
    assert covered is not None and claim.standard_errors is not None
    z_errors = z_scores(errors, claim.standard_errors)
    return {
        name: {
            **{key: ranking["models"][name][key] for key in _CLAIMED},
            "truth": float(truth.means[i]),
            "error": float(errors[i]),
            "z": float(z_errors[i]),
            "held": bool(covered[i]),
        }
        for i, name in enumerate(models)
    }


def _pair_rows(pairs: Mapping[_Places, PairContent], claim: Claim, truth: Truth) -> list[Facts]:
    """Return for each pair the claim beside the truth; `held` is None where it is left open."""
    ahead, right = claim.ahead, claim.right(truth)
    assert ahead is not None and right is not None
    return [
        {
            "a": row["a"],
            "b": row["b"],
            "p": row["p"],
            "claim": _claimed_of(row, ahead[places]),
            "truly_tied": bool(truth.tied[places]),
            "held": bool(right[places] > 0) if ahead[places] else None,
        }
        for places, row in pairs.items()
    ]


def _claimed_of(row: PairContent, sign: int) -> str:
    # An open pair claims nothing but that it is open.
    if sign == 0:
        return "tied"
    return f"{row['a'] if sign > 0 else row['b']} better"


def _chance(ranking: RankingContent, asked: Sequence[bool]) -> float:
    """Return how often so few intervals hold, or fewer, if each misses as rarely as its level says.

    By the binomial distribution, over whether those of the models that were asked hold. Where
    answers are sampled, full results are draws themselves and miss more often: then it is 1.
    """
    missed = len(asked) - sum(asked)
    if not missed or ranking.get("sampled", False):
        return 1.0
    return float(bdtrc(missed - 1, len(asked), 1.0 - ranking["confidence"]))


def _doubts(ranking: RankingContent, ranked: list[str], scores: Floats) -> list[str]:
    """Return reasons why the full results may not be the truth about the run."""
    size = scores.shape[1]
    doubts = []
    # The claims are of the mean over the run's items.
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
