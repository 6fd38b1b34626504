"""Audit of a finished run: compares its claims with full results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import bdtrc

from ..content import Facts, PairContent, RankingContent, document_of, pairs_by_models
from ..errors import UsageError
from ..metrics.scale import Floats, Scale, differing_scales
from ..scores import ScoreTable
from ..shown import Shown, ShownTable, exact_percent, some
from .folds import mean_of_asked
from .judging import Claim, Truth, bootstrap_intervals, kendall_tau, true_ties, z_scores

#: Intervals fail if, by chance alone, so few would hold in a smaller share of runs than this.
_LEAST_CHANCE = 0.01
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
        """Whether fewer intervals hold than chance explains.

        If every interval held at its confidence, so few would in less than 1% of runs.
        """
        return bool(self.content["intervals"]["chance"] < _LEAST_CHANCE)

    def to_dict(self) -> Facts:
        """JSON values."""
        return self.content

    def _grid(self) -> ShownTable:
        """Return the table that is printed: a row for each model, and notes."""
        content = self.content
        title = (
            f"{content['metric']} ({content['scale']}): "
            f"{exact_percent(content['confidence'])} intervals against full results"
        )
        columns = ("model", "estimate", "interval", "full", "z", "held")
        rows = [
            [name, row["estimate"], "{:.4g} to {:.4g}".format(*row["interval"]), row["truth"],
             f"{row['z']:+.2f}", "yes" if row["held"] else "NO"]
            for name, row in content["models"].items()
        ]  # fmt: skip
        notes = (*self._notes_of_order(), *self._notes_of_pairs(), *self._notes_of_models())
        return ShownTable(title, columns, rows, notes)

    def _notes_of_order(self) -> Iterator[str]:
        """Yield the order that the run claims, that of the full results, and how alike they are."""
        content = self.content
        # One model has no order.
        if len(content["order"]) > 1:
            yield f"claimed order  {' > '.join(content['order'])}"
            yield f"full order     {' > '.join(content['true_order'])}"
            # Full scores that are all equal have no order to agree with.
            if content["tau"] is not None:
                yield f"Kendall's tau  {content['tau']:.3f}"

    def _notes_of_pairs(self) -> Iterator[str]:
        """Yield how many decisions hold, which do not, and how many pairs were rightly left."""
        decided, ties = self.content["decided"], self.content["ties"]
        # A run that decided nothing is judged by its intervals alone.
        if decided["of"]:
            yield f"decided pairs  {decided['held']} of {decided['of']} in the full order"
        models = self.content["models"]
        for pair in self.content["pairs"]:
            # None stands for a pair that was left open, which claims nothing.
            if pair["held"] is False:
                yield (
                    f"  did not hold: {pair['claim']} ({pair['a']} against {pair['b']}, P = "
                    f"{pair['p']:.3f}; full {models[pair['a']]['truth']:.4g} and "
                    f"{models[pair['b']]['truth']:.4g})"
                )
        if ties["of"]:
            yield (
                f"pairs left     {ties['of']}, of which {ties['truly_tied']} are ties in the full "
                "results, too (95% bootstrap intervals overlap)"
            )

    def _notes_of_models(self) -> Iterator[str]:
        """Yield how many intervals hold, how large errors are, and how many items were asked."""
        intervals, items = self.content["intervals"], self.content["items"]
        chance = f"; so few do in {intervals['chance']:.1g} of runs" if self.intervals_fail else ""
        yield f"intervals      {intervals['held']} of {intervals['of']} hold the full score{chance}"
        # No limit of z is stated, because an interval that holds at every look is wider than that.
        yield (
            "z              an error over its standard error; its root mean square is "
            f"{intervals['z_rms']:.2f}, about 1 if stated errors are true"
        )
        share = items["administered"] / items["full"]
        yield f"items          {items['administered']} of {items['full']} ({share:.1%})"


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
        The table's name of each model that the run names differently, by the run's name.

    Returns
    -------
    Audit

    Raises
    ------
    UsageError
        The run asked no model, or none that has a score in the table; the table has another scale
        than the run, or none of the documents that the run asked; or `names` has a model that the
        run lacks, or gives two models one name.
    """
    sides = ("the run", Scale.from_dict(ranking["scale"])), ("the full results", table.scale)
    if difference := differing_scales(str(table.metric), *sides):
        raise UsageError(f"{difference}; read them with the range that both have")
    compared = _compared_models(ranking, table, names or {})
    models = list(compared.name_in_table)
    full = table.select(compared.name_in_table.values())
    _require_same_documents(ranking, models, full)
    scores = full.model_scores()
    means = mean_of_asked(scores, np.isfinite(scores))
    tied = true_ties(*bootstrap_intervals(scores))
    # A run claims means on the metric's own scale, but orders models by scores on [0, 1], of which
    # higher is better.
    truth = Truth(signed_means=means, means=np.asarray(full.scale.restore(means)), tied=tied)
    # A model that was set aside has an estimate but no rank in the order.
    order = [name for name in ranking["order"] if name in compared.name_in_table]
    pairs = _pairs_of(ranking, order)
    claim = _claim_of(ranking, models, pairs)
    rows, pair_rows = _model_rows(ranking, models, claim, truth), _pair_rows(pairs, claim, truth)
    # An audit is of one outcome, whose results are compared.
    [term] = ranking["terms"]
    content = {
        "task": term["task"],
        "metric": term["metric"],
        "scale": full.scale.describe(),
        "confidence": ranking["confidence"],
        "models": rows,
        **_orders(order, means[: len(order)]),
        "pairs": pair_rows,
        "intervals": _interval_totals(ranking, list(rows.values())),
        **_pair_totals(pair_rows),
        "items": {
            "administered": sum(row["n_items"] for row in rows.values()),
            "full": len(rows) * full.n_items,
        },
        "warnings": [*compared.warnings, *table.warnings, *_doubts(ranking, models, scores)],
    }
    return Audit(ranking, content)


class _ComparedModels(NamedTuple):
    """The models that a run and full results share, and warnings of those that are left out.

    Attributes
    ----------
    name_in_table : dict of str to str
        The table's name of each model, by the run's. Models of the run's order come first, in it.
    warnings : list of str
    """

    name_in_table: dict[str, str]
    warnings: list[str]


def _compared_models(
    ranking: RankingContent, table: ScoreTable, names: Mapping[str, str]
) -> _ComparedModels:
    """Find the run's models that have a score in the table; for `names` see `audit`.

    Raises
    ------
    UsageError
        `names` has a model that the run lacks, or gives two models one name; or the run asked no
        model, or none that has a score in the table.
    """
    claimed = ranking["models"]
    if unknown := [name for name in names if name not in claimed]:
        raise UsageError(
            f"names: the run has no model {unknown[0]!r}; it has {some(list(claimed))}"
        )
    scored_any = np.isfinite(table.model_scores()).any(axis=1)
    scored = {table.models[position] for position in np.flatnonzero(scored_any).tolist()}
    name_in_table = {name: names.get(name, name) for name in (*ranking["order"], *claimed)}
    # One row of full results is the truth about one model.
    if shared := [name for name, n in Counter(name_in_table.values()).items() if n > 1]:
        raise UsageError(f"names: two models of the run are called {shared[0]!r}")
    # Models that were not asked claim nothing.
    asked = {name for name, block in claimed.items() if block["n_items"]}
    if not asked:
        raise UsageError("the run asked no model, so it claims nothing that could be compared")
    # Models without a score in the table.
    missing = {name for name in name_in_table if name_in_table[name] not in scored}
    left_out = ", ".join(name_in_table[name] for name in name_in_table if name in asked & missing)
    if asked <= missing:
        raise UsageError(
            f"no full results of {left_out}; there are {some(table.models, 12)}; say which is "
            "which: audit(..., names=) in Python"
        )
    warning = f"not compared, for lack of full results: {left_out}"
    in_both = {name: in_table for name, in_table in name_in_table.items() if name not in missing}
    return _ComparedModels(in_both, [warning] if left_out else [])


def _require_same_documents(
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


#: Positions of two models in the run's order, the smaller first.
_Positions = tuple[int, int]


def _pairs_of(ranking: RankingContent, order: Sequence[str]) -> dict[_Positions, PairContent]:
    """Return what the run says of each pair of models, by their positions in its order."""
    rows = pairs_by_models(ranking)
    positions = combinations(range(len(order)), 2)
    return {(i, j): row for i, j in positions if (row := rows.get((order[i], order[j])))}


def _claim_of(
    ranking: RankingContent, models: Sequence[str], pairs: Mapping[_Positions, PairContent]
) -> Claim:
    """Return what the run claims of models, and which pairs it decided for whom.

    `models` begin with those of the run's order, so that the positions of `pairs` are theirs.
    Estimates and intervals are on the metric's own scale.
    """
    # Each pair stands once, above the diagonal. ``p`` is the chance that its first model is better;
    # decided, it is near 0 or 1.
    ahead = np.zeros((len(models), len(models)), dtype=np.int8)
    for (i, j), row in pairs.items():
        if row["decision"] == "decided":
            ahead[i, j] = 1 if row["p"] > 0.5 else -1
    blocks = [ranking["models"][name] for name in models]
    return Claim(
        estimates=np.array([block["estimate"] for block in blocks]),
        standard_errors=np.array([block["standard_error"] for block in blocks]),
        intervals=np.array([block["interval"] for block in blocks]),
        ahead=ahead,
    )


def _model_rows(
    ranking: RankingContent, models: Sequence[str], claim: Claim, truth: Truth
) -> dict[str, Facts]:
    """Return for each model the claim beside the truth."""
    covered, errors = claim.covered(truth), claim.estimates - truth.means
    # `_claim_of` states these, and what `_pair_rows` reads.
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


def _pair_rows(pairs: Mapping[_Positions, PairContent], claim: Claim, truth: Truth) -> list[Facts]:
    """Return for each pair the claim beside the truth; `held` is None where it is left open."""
    ahead, correctness = claim.ahead, claim.correctness(truth)
    assert ahead is not None and correctness is not None
    return [
        {
            "a": row["a"],
            "b": row["b"],
            "p": row["p"],
            "claim": _claim_in_words(row, ahead[positions]),
            "truly_tied": bool(truth.tied[positions]),
            "held": bool(correctness[positions] > 0) if ahead[positions] else None,
        }
        for positions, row in pairs.items()
    ]


def _claim_in_words(row: PairContent, sign: int) -> str:
    """Say which model of a pair the run calls better; `sign` is above 0 for the first."""
    # An open pair claims nothing but that it is open.
    if sign == 0:
        return "tied"
    return f"{row['a'] if sign > 0 else row['b']} better"


def _orders(order: Sequence[str], means: Floats) -> Facts:
    """Return the claimed order, that of the full means, and tau; None if all means are equal."""
    # The order itself is what is claimed: the first model has the highest number.
    tau = kendall_tau(-np.arange(len(order)), means)
    return {
        "order": order,
        "true_order": [order[i] for i in np.argsort(-means, kind="stable")],
        "tau": None if np.isnan(tau) else tau,
    }


def _interval_totals(ranking: RankingContent, rows: Sequence[Facts]) -> Facts:
    """Return how many models' intervals hold, the chance of so few, and the size of errors."""
    return {
        "held": sum(row["held"] for row in rows),
        "of": len(rows),
        "z_rms": float(np.sqrt(np.mean(np.square([row["z"] for row in rows])))),
        "chance": _chance_of_so_few(ranking, [row["held"] for row in rows if row["n_items"]]),
    }


def _pair_totals(pair_rows: Sequence[Facts]) -> Facts:
    """Return how many decided pairs hold, and how many pairs that were left open are ties."""
    held = [row["held"] for row in pair_rows if row["held"] is not None]
    truly_tied = [row["truly_tied"] for row in pair_rows if row["held"] is None]
    return {
        "decided": {"held": sum(held), "of": len(held)},
        "ties": {"truly_tied": sum(truly_tied), "of": len(truly_tied)},
    }


def _chance_of_so_few(ranking: RankingContent, held: Sequence[bool]) -> float:
    """Return the chance that so few intervals hold, or fewer, if each holds at its confidence.

    That is the binomial distribution's; `held` says of each model that was asked whether its
    interval holds. Where answers are sampled, full results are draws themselves, and intervals miss
    them more often: then it is 1.
    """
    missed = len(held) - sum(held)
    if not missed or ranking.get("sampled", False):
        return 1.0
    return float(bdtrc(missed - 1, len(held), 1.0 - ranking["confidence"]))


def _doubts(ranking: RankingContent, models: Sequence[str], scores: Floats) -> list[str]:
    """Return reasons why the full results may not be the truth about the run.

    Parameters
    ----------
    ranking : dict
    models : sequence of str
        As the run names them.
    scores : ndarray of shape (n_models, n_items)
        Their full scores, in this order; NaN where missing.
    """
    size = scores.shape[1]
    doubts = []
    # The claims are of the mean over the run's items.
    if ranking["items_of_benchmark"] != size:
        doubts.append(
            f"the run's benchmark has {ranking['items_of_benchmark']} items, the full results have "
            f"{size}: they are not of the same documents"
        )
    return doubts + [
        f"{model}: {n_missing} of {size} full scores are missing; the truth is the mean of the "
        "others"
        for model, n_missing in zip(models, (~np.isfinite(scores)).sum(axis=1).tolist())
        if n_missing
    ]
