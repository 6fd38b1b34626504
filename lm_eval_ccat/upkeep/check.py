"""Checks a bank against the documents of a task, and against new full results.

New results can show the following, each by a test that controls false alarms:

- *A bank of other documents.* Scores do not correlate with what the bank expects
  (`lm_eval_ccat.ranker.join`), or those of a part of the items do not
  (`lm_eval_ccat.upkeep.partial_join`); nothing else is then tested.
- *Drifted difficulties.* Every item's intercept is refitted to the new models, the linear trend
  between old and new is removed (scales may shift as a whole), and each item's remaining difference
  is studentised by its sampling error and a robust spread: the robust-z test of anchor items, as a
  score test.
- *Negative discrimination.* An item's correlation with the new models' abilities, by Fisher's z.
- *Contamination.* A score far above what a weak model should reach on an item, by the tail of the
  Beta distribution with the response model's mean and variance (of the Bernoulli one for 0/1
  scores).
- *Too easy, too hard.* Where the new models lie on the bank's scale.

Many items are tested at once, so p-values are subject to the false discovery rate of Benjamini and
Hochberg, and an effect must be large as well as certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr

from ..bank.bank import ItemBank
from ..errors import BankError
from ..methods.curves import Curves, fit_abilities, fit_intercepts
from ..methods.method import method_of
from ..metrics.scale import Floats
from ..ranker.join import Fault, fault_of
from ..scores.numbering import OTHER_ORDER
from ..scores.table import ScoreTable
from ..shown import plural, some
from .partial_join import share_of_others

#: False discovery rate of tests of items, and of single scores, whose tails are only as good as the
#: response model.
FALSE_DISCOVERIES, FALSE_ALARMS = 0.01, 0.001
#: Least drift that is reported; a smaller shift moves no score by more than an eighth.
DRIFT_LOGITS = 0.5
#: Least excess of a score over its expectation (of 1) that may be contamination.
EXCESS = 0.3
#: Mean score above which a bank is too easy for a model, and below 1 less which it is too hard.
EXTREME_MEAN = 0.9
#: Share of the largest information below which a bank tells little about a model.
LITTLE_INFORMATION = 0.15
#: Least number of models for a correlation to be tested.
MIN_MODELS = 4


@dataclass(frozen=True)
class Finding:
    """One thing a check found.

    Attributes
    ----------
    kind : str
        A word to test for: ``changed_documents``, ``missing_documents``, ``drifted_items``,
        ``negative_items``, ``contamination``, ``too_easy``, ``too_hard``, ...
    severity : {"problem", "warning", "note"}
        Do not use the bank as it is; mind it; good to know.
    message : str
        One line: what was found and what to do.
    items : tuple of doc_id
        The items it is about, if any.
    figures : dict of JSON values
        The numbers behind it.
    """

    kind: str
    severity: str
    message: str
    items: tuple[Any, ...] = ()
    figures: dict[str, object] = field(default_factory=dict)


def check_documents(
    bank: ItemBank,
    doc_ids: Sequence[Any],
    doc_hashes: Sequence[str | None] | None,
    filters: Sequence[str] | None = None,
) -> list[Finding]:
    """Compare a bank's documents with those of a task or of new results.

    Parameters
    ----------
    bank : ItemBank
    doc_ids : sequence
        The documents of the task or of the results.
    doc_hashes : sequence of (str or None), or None
        The hash of each.
    filters : sequence of str, optional
        Filters of the task.

    Returns
    -------
    list of Finding
        ``missing_documents``, ``changed_documents``, ``new_documents``, ``unverified_documents``,
        ``other_filter``.
    """
    documents, n = bank.compare(doc_ids, doc_hashes), bank.n_items
    findings: list[Finding] = []
    if items := documents.missing:
        message = (
            f"{plural(len(items), 'item')} of {n} missing from the documents (doc_id {some(items)})"
        )
        findings.append(Finding("missing_documents", "problem", message, items))
    if items := documents.changed:
        n_changed, ids = plural(len(items), "document"), some(items)
        message = f"{n_changed} of {n} changed since calibration (doc_hash of doc_id {ids}); "
        message += "calibrate the bank again on the new ones"
        if documents.renumbered:
            message = f"{n_changed} of {n} are {OTHER_ORDER} (doc_hash of doc_id {ids}); "
            message += "load the data set as it was calibrated (its revision, its shuffle), or "
            message += "calibrate the bank again"
        findings.append(Finding("changed_documents", "problem", message, items))
    if items := documents.new:
        message = (
            f"{plural(len(items), 'document')} not in the bank (doc_id {some(items)}); "
            "estimates are of the mean over the bank's own"
        )
        findings.append(Finding("new_documents", "warning", message, items))
    # No document is known to be the same, and none to differ.
    if not (documents.missing or documents.changed or documents.same):
        words = "without document hashes, nobody can tell whether the documents are the same"
        findings.append(Finding("unverified_documents", "note", words))
    if bank.filter is not None and filters is not None and bank.filter not in filters:
        names = ", ".join(map(repr, filters))
        message = f"the task has no filter {bank.filter!r}; it has {names}"
        findings.append(Finding("other_filter", "problem", message))
    return findings


def aligned_scores(bank: ItemBank, table: ScoreTable) -> Floats:
    """Return scores of a table's models in bank order; NaN if missing or the document changed.

    Returns
    -------
    ndarray of shape (n_models, n_items)
        On [0, 1], higher is better.

    Raises
    ------
    BankError
        The table is of another metric, task, filter or scale, or shares no item with the bank.
    """
    # What one side does not state is taken to be the same.
    for name in ("metric", "task", "filter"):
        of_bank, of_scores = getattr(bank, name), getattr(table, name)
        if None not in (of_bank, of_scores) and of_bank != of_scores:
            raise BankError(f"the scores are of {name} {of_scores!r}, the bank is of {of_bank!r}")
    if table.scale != bank.scale:
        raise BankError(
            f"the scores are on the scale {table.scale.describe()}, the bank was calibrated on "
            f"{bank.scale.describe()}; state it with --range"
        )
    # Without this, every score would count as missing, and nothing would look wrong.
    if bank.index.keys().isdisjoint(table.doc_ids):
        raise BankError(
            f"the scores are of other items (doc_id {some(table.doc_ids)}) than the bank's "
            f"({some(bank.doc_ids)})"
        )
    scores = bank.in_order(table.doc_ids, table.model_scores())
    # A score on another text says nothing of the item.
    changed = bank.compare(table.doc_ids, table.doc_hashes).changed
    scores[:, [bank.index[doc_id] for doc_id in changed]] = np.nan
    return scores


def check_scores(bank: ItemBank, table: ScoreTable) -> list[Finding]:
    """Check a bank against full results of models, usually ones it was not calibrated on.

    Parameters
    ----------
    bank : ItemBank
    table : ScoreTable
        Of the same metric, filter and scale; missing scores are allowed.

    Returns
    -------
    list of Finding
        In the order of the module's description, documents first; empty if nothing is wrong.

    Raises
    ------
    BankError
        The scores are not of the bank's benchmark, or of no item that it keeps.
    """
    scores = aligned_scores(bank, table)
    findings = check_documents(bank, table.doc_ids, table.doc_hashes)
    # Items that calibration removed have no curves.
    scores[:, ~bank.kept] = np.nan
    rows = np.flatnonzero(np.isfinite(scores).any(axis=1))
    if not len(rows):
        raise BankError("no model has a score on an item that the bank keeps: nothing to check")
    scores, names = scores[rows], [table.models[j] for j in rows.tolist()]
    fault = fault_of(bank, scores)
    # Curves that belong to other documents make every further test of items meaningless.
    if fault.words:
        return [*findings, _unrelated(fault)]
    curves = method_of(bank).curves(bank)
    # What is wrong in part passes the test of the whole, and makes the tests of items meaningless.
    if share := share_of_others(curves, scores):
        return [*findings, _partly_unrelated(share)]
    abilities = fit_abilities(curves, scores)
    trend, drifted = _drifted_items(bank, curves, abilities, scores)
    findings += drifted
    findings += _negative_items(bank, abilities, scores)
    findings += _contaminated_items(bank, trend, scores, names)
    findings += _too_easy_or_hard(bank, curves, abilities, scores, names)
    return findings


def _unrelated(fault: Fault) -> Finding:
    """Return the finding of scores that, as a whole, are not of the bank's items."""
    several = fault.join.models > 1
    severity = "problem" if several else "warning"
    alone = "" if several else ", or this one model is unlike those that calibrated it"
    return Finding("unrelated", severity, fault.words + alone, figures=fault.join._asdict())


def _partly_unrelated(share: float) -> Finding:
    """Return the finding of a bank of which this share of documents has scores of others."""
    message = (
        f"about {share:.0%} of the documents do not go with what the bank expects of them, "
        "while the others do: a part of the bank or of the scores is joined to other documents "
        "(as by a document too many, or another order of a part); compare their doc_ids, and "
        "calibrate again if the bank's are wrong"
    )
    return Finding("partly_unrelated", "problem", message, figures={"share": share})


def _drifted_items(
    bank: ItemBank, curves: Curves, abilities: Floats, scores: Floats
) -> tuple[Curves, list[Finding]]:
    """Return the curves with the difficulties that new models see, and a finding on drifted items.

    New difficulties are a linear function of the bank's, one for all items; an item has drifted if
    its own lies off that line. Without such items there is no finding.
    """
    curves = _as_noisy_as(scores, curves, abilities)
    refit, information = fit_intercepts(curves, abilities, scores)
    scored = np.isfinite(scores).any(axis=0)
    # A trend of so few items could be the drift of one.
    if scored.sum() < 10:
        return curves, []
    old, new = curves.intercept[scored], refit[scored]
    slope, offset = robust_line(old, new, information[scored])
    trend = curves.with_intercept(offset + slope * curves.intercept)
    shifts = new - trend.intercept[scored]
    z = _z_of_shifts(bank, trend, abilities, scores)
    # With many models a shift is certain long before it matters.
    flagged = discoveries(2.0 * ndtr(-np.abs(z))) & (np.abs(shifts) > DRIFT_LOGITS)
    if not flagged.any():
        return trend, []
    drifted = np.flatnonzero(flagged)[np.argsort(-np.abs(shifts[flagged]))]
    easier = int((shifts[drifted] > 0).sum())
    words = (
        f"{{}} drifted: {easier} became easier, {len(drifted) - easier} harder than the other "
        "items suggest (doc_id {}); calibrate the bank on newer models"
    )
    positions = np.flatnonzero(scored)[drifted]
    return trend, [
        _warning_about(
            bank, "drifted_items", words, positions, shift_in_logits=shifts[drifted].tolist()
        )
    ]


def _as_noisy_as(scores: Floats, curves: Curves, abilities: Floats) -> Curves:
    """Return the curves with more noise, if new models vary more about them.

    The factor is the median over items of (y - mu)^2 / (noise mu (1 - mu)), averaged over models,
    and at least 1; `mu` is the score expected of a model on the item.
    """
    expected = curves.expected(abilities)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = (scores - expected) ** 2 / (curves.noise * expected * (1.0 - expected))
    per_item = np.nanmean(squares[:, np.isfinite(squares).any(axis=0)], axis=0)
    if not len(per_item):
        return curves
    return replace(curves, noise=curves.noise * max(1.0, float(np.median(per_item))))


def _z_of_shifts(bank: ItemBank, trend: Curves, abilities: Floats, scores: Floats) -> Floats:
    """Return how far each item that has scores is off the trend, in robust standard errors.

    Before it is centred and scaled, z = sum (y - mu) / sqrt(own_error sum noise mu (1 - mu)), over
    models; above 0 if the item became easier.
    """
    # A score test: where an item shifted far, its information at the new intercept is small, and a
    # Wald test would see nothing. The bank's own intercept has an error, too; the variances of both
    # fall with the number of models that they are from.
    own_error = 1.0 + len(scores) / max(len(bank.models), 1)
    expected, present = trend.expected(abilities), np.isfinite(scores)
    variances = trend.noise * expected * (1.0 - expected)
    scored = present.any(axis=0)
    surprise = np.where(present, scores - expected, 0.0).sum(axis=0)[scored]
    variance = np.where(present, variances, 0.0).sum(axis=0)[scored]
    z = surprise / np.sqrt(variance * own_error)
    # The median absolute deviation, as the standard deviation of normal figures.
    deviation = z - np.median(z)
    spread = 1.4826 * float(np.median(np.abs(deviation)))
    return np.asarray(deviation / max(spread, 1.0))


def _warning_about(
    bank: ItemBank, kind: str, words: str, positions: NDArray[np.intp], **figures: Sequence[Any]
) -> Finding:
    """Make a warning about items at these positions.

    `words` has a place for their number and one for their names; `figures` has one value an item.
    """
    ids = tuple(bank.doc_ids[i] for i in positions.tolist())
    by_item: dict[str, object] = {
        key: dict(zip(map(str, ids), value)) for key, value in figures.items()
    }
    text = words.format(plural(len(ids), "item"), some(ids))
    return Finding(kind, "warning", text, items=ids, figures=by_item)


def _negative_items(bank: ItemBank, abilities: Floats, scores: Floats) -> Iterator[Finding]:
    """Yield the items on which better models score lower."""
    # Of few models, a correlation of -1 is chance.
    if len(abilities) < MIN_MODELS:
        return
    present = np.isfinite(scores)
    n = present.sum(axis=0)

    def centred(values: Floats) -> Floats:
        """Return values about each item's mean over the models with a score; else 0."""
        mean = np.where(present, values, 0.0).sum(axis=0) / n
        return np.where(present, values - mean, 0.0)

    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = centred(np.broadcast_to(abilities[:, None], present.shape)), centred(scores)
        correlations = (x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
    tested = np.isfinite(correlations) & (n >= MIN_MODELS)
    if not tested.any():
        return
    # Fisher's z: artanh of a correlation has the variance 1 / (n - 3). -1 would make it infinite.
    z = np.arctanh(np.clip(correlations[tested], -0.999999, 0.999999)) * np.sqrt(n[tested] - 3)
    flagged = np.flatnonzero(tested)[discoveries(ndtr(z))]
    if len(flagged):
        flagged = flagged[np.argsort(correlations[flagged])]
        words = (
            "better models score lower on {} (doc_id {}): check the references of these documents"
        )
        yield _warning_about(
            bank, "negative_items", words, flagged, correlation=correlations[flagged].tolist()
        )


def _contaminated_items(
    bank: ItemBank, curves: Curves, scores: Floats, names: Sequence[str]
) -> Iterator[Finding]:
    """Yield a finding on items that weak models are expected to get mostly wrong, and get right."""
    abilities = fit_abilities(curves, scores)
    expected = curves.expected(abilities)
    # A strong model's full scores surprise nobody, contaminated or not. Nobody knows whether a
    # single model is strong.
    weak = abilities <= np.median(abilities) if len(abilities) > 1 else np.array([True])
    of_weak = np.isfinite(scores) & weak[:, None]
    surprising = of_weak & (scores - expected > EXCESS) & (expected < 0.5)
    p_values = np.ones_like(expected)
    # A curve of p coefficients fitted to J models predicts a new score with an error of its own. No
    # score on [0, 1] has more variance than one of 0 or 1, whose noise is 1.
    own_error = 1.0 + curves.coefficients.shape[1] / max(len(bank.models), 1)
    noise = np.broadcast_to(np.clip(curves.noise * own_error, 1e-6, 1.0), expected.shape)
    p_values[surprising] = upper_tail(scores[surprising], expected[surprising], noise[surprising])
    flagged = np.zeros_like(surprising)
    flagged[of_weak] = discoveries(p_values[of_weak], FALSE_ALARMS)
    if flagged.any():
        items = np.flatnonzero(flagged.any(axis=0))
        models_of_items = [
            [names[j] for j in np.flatnonzero(column).tolist()] for column in flagged[:, items].T
        ]
        models = dict.fromkeys(model for models in models_of_items for model in models)
        # A name may have a brace, which means something in a template.
        listing = some(list(models)).replace("{", "{{").replace("}", "}}")
        words = (
            "weak models score far above expectation on {} (doc_id {}; "
            f"{listing}): they may have been trained on these "
            "documents, or the documents leak their answers"
        )
        yield _warning_about(bank, "contamination", words, items, models=models_of_items)


def _too_easy_or_hard(
    bank: ItemBank, curves: Curves, abilities: Floats, scores: Floats, names: Sequence[str]
) -> Iterator[Finding]:
    """Yield which models the bank's items are too easy or too hard for."""

    def information(theta: Floats) -> Floats:
        """Return the sum of slope^2 mu (1 - mu) / noise over the kept items, at each ability."""
        mu = curves.expected(theta)
        by_item = mu * (1.0 - mu) * curves.slope(theta) ** 2 / curves.noise
        return np.asarray(by_item[:, bank.kept].sum(axis=1))

    # Readers do not know the unit of information; a share of the largest information needs none.
    highest = float(information(curves.centre + np.linspace(-6.0, 6.0, 61)).max())
    share = information(abilities) / highest
    present = np.isfinite(scores)
    mean = np.where(present, scores, 0.0).sum(axis=1) / present.sum(axis=1)
    tells_little = share < LITTLE_INFORMATION
    for word, affected in (
        ("easy", (mean > EXTREME_MEAN) | (tells_little & (mean > 0.5))),
        ("hard", (mean < 1.0 - EXTREME_MEAN) | (tells_little & (mean < 0.5))),
    ):
        models = {
            names[j]: {"mean": float(mean[j]), "information": float(share[j])}
            for j in np.flatnonzero(affected).tolist()
        }
        if models:
            yield Finding(
                f"too_{word}",
                "warning" if 2 * len(models) > len(names) else "note",
                f"the bank is too {word} for {len(models)} of {plural(len(names), 'model')} "
                f"({some(list(models))}): its items tell little about them, so they need more "
                "items for the same error",
                figures={"models": models},
            )


# -- tests on many items at once ------------------------------------------------------------------


def robust_line(x: Floats, y: Floats, weight: Floats) -> tuple[float, float]:
    """Fit slope and offset by iteratively reweighted least squares (Tukey's biweight).

    Parameters
    ----------
    x, y, weight : ndarray of shape (n,)
        Weights are inverse variances, up to a factor.

    Examples
    --------
    >>> slope, offset = robust_line(np.arange(9.0), np.array([*np.arange(8.0) + 1, 90]), np.ones(9))
    >>> round(slope, 6), round(offset, 6)
    (1.0, 1.0)
    """
    relative = weight / weight.max()
    # Most items keep their place, but for a shift.
    slope, offset = 1.0, float(np.median(y - x))
    for _ in range(20):
        residual = y - offset - slope * x
        # The factors that are usual for normal residuals: the first makes their median size a
        # standard deviation, the second loses 5% of the efficiency of least squares.
        scale = 1.4826 * float(np.median(np.abs(residual))) or 1e-12
        robust = relative * np.maximum(0.0, 1.0 - (residual / (4.685 * scale)) ** 2) ** 2
        total = robust.sum()
        if total <= 0.0:
            break
        mx, my = (robust * x).sum() / total, (robust * y).sum() / total
        sxx = (robust * (x - mx) ** 2).sum()
        slope = float((robust * (x - mx) * (y - my)).sum() / sxx) if sxx > 0 else 1.0
        offset = float(my - slope * mx)
    return slope, offset


def upper_tail(y: Floats, mu: Floats, k: Floats) -> Floats:
    """Return P(score >= y) for mean mu and variance k mu (1 - mu): Beta, or Bernoulli at k = 1.

    Examples
    --------
    >>> upper_tail(np.array([1.0]), np.array([0.02]), np.array([1.0])).tolist()
    [0.02]
    """
    precision = 1.0 / k - 1.0  # a + b of the Beta distribution
    beta = precision > 1e-3
    tail = np.where(y > 0.0, mu, 1.0)
    a, b = mu * precision, (1.0 - mu) * precision
    # The integral from y to 1, so that a small tail keeps its digits; a rounded full score is
    # one of 0.99 or more.
    tail[beta] = betainc(b[beta], a[beta], 1.0 - np.minimum(y[beta], 0.99))
    return tail


def discoveries(p: Floats, rate: float = FALSE_DISCOVERIES) -> NDArray[np.bool_]:
    """Return which of many p-values to reject at this false discovery rate (Benjamini-Hochberg).

    Examples
    --------
    >>> discoveries(np.array([1e-6, 0.4, 0.9])).tolist()
    [True, False, False]
    """
    if not p.size:
        return np.zeros(p.shape, dtype=bool)
    ranked = np.sort(p)
    below = np.flatnonzero(ranked <= rate * np.arange(1, p.size + 1) / p.size)
    return np.asarray(p <= ranked[below[-1]]) if len(below) else np.zeros(p.shape, dtype=bool)
