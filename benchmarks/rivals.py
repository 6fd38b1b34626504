"""Rivals that a referee names, beside the method "default", on the same models and items.

    python benchmarks/rivals.py [--kinds near,far] [--items 10,20,50] [--rankings 6]
        [--only musr,gsm] [--sets benchpred,scores] [--out rivals.json]

The protocol is that of "How Benchmark Prediction from Fewer Data Misses the Mark" (arXiv
2506.07673), on its score matrices (`benchpred`) and on the other score tables (`scores`): `near`, a
random quarter of the models is new; `far`, the worst half are sources and the best 30% are new.
Beside these `random`, `family` and `frontier` hold-outs of four as `lm-eval-ccat simulate` has
them, and `checkpoints`: four mixtures of two models, of which each has a third of the items more
from the better one. New models come in rankings of four, all at the same number of items, and are
looked at once.

- `default`: this package's, one ranking of four on a bank of the sources.
- `aipw`: items drawn at random, the same for all models; a ridge regression of a model's scores on
  those of the sources; the mean prediction over all items plus the mean residual. Figures are
  means over five draws, as for the next.
- `random`: the mean over the same items; pairs by the t-test.
- `faq`, factorized active querying (arXiv 2601.20251), after its description: a logistic factor
  model of the sources' scores; each model's own items, drawn one at a time with replacement, at
  first those that tell most of the mean, later those whose scores are least certain; the mean of
  the single draws' estimates, whose error is read off the draws. At the largest number of items.

Gaps, |estimate - full mean|, are means over score tables of equal weight; standard errors are
clustered by score table. At an *equal share* the level of `default` is moved until the same share
of its decisions is wrong as of the t-test's at 5%, or until it decides as many pairs, and right or
wrong ones are counted then; standard errors are by a bootstrap over score tables.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import pandas as pd
import sources as made_by
from numpy.typing import NDArray
from quality_data import DATASETS, SHARED, load
from scipy.special import expit, logit
from scipy.stats import kendalltau, t

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.methods.default.field import Field
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.default.selfcheck import advance
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.simulation.folds import KINDS, hold_outs

Positions = NDArray[np.intp]

PENALTY = 10.0  # of the ridge regression, as its authors have it
DRAWS = 5  # of random items per ranking
RESAMPLES = 300  # of score tables
#: Dimensions and ridge penalties of the factor model that are tried; held-out cells choose.
FACTORS, RIDGES = (1, 2, 4), (1.0, 3.0)
HELD_OUT, ROUNDS = 0.1, 8
#: Settings of the draws that are tried on source models: exponent of the chances, share of the
#: budget that explores, share over which the exponent grows, even part of the chances. The authors
#: try four to five values of each.
SETTINGS = (
    (1.0, 0.0, 0.0, 0.25),
    (1.0, 0.05, 0.25, 0.25),
    (0.5, 0.05, 0.25, 0.5),
    (1.0, 0.5, 0.0, 0.5),
)


@dataclass(frozen=True)
class Estimates:
    """Of the means over all items; standard errors NaN where a method states none.

    Attributes
    ----------
    mean, error, df : ndarray of shape (n_models,)
    pair_error, pair_df : ndarray of shape (n_models, n_models)
        Of differences.
    """

    mean: Floats
    error: Floats
    df: Floats
    pair_error: Floats
    pair_df: Floats


def paired(new: Floats, at: Positions) -> Estimates:
    """Means of some items; the t-test of each pair.

    Parameters
    ----------
    new : ndarray of shape (n_models, n_items)
        Scores of the models in question.
    at : ndarray of int
        Items drawn at random, the same for all.
    """
    y, n, h = new[:, at], len(at), len(new)
    share = (1.0 - n / new.shape[1]) / n
    error, pairs = (x.var(axis=-1, ddof=1) * share for x in (y, y[:, None] - y))
    df = np.full((h, h), n - 1.0)
    return Estimates(y.mean(axis=1), np.sqrt(error), df[0], np.sqrt(pairs), df)


def difference(sources: Floats, new: Floats, at: Positions, penalty: float = PENALTY) -> Floats:
    """AIPW: estimates of the means over all items; parameters as above, and the sources' scores."""
    x, y = sources[:, at], new[:, at]
    centred = x - x.mean(axis=1, keepdims=True)
    kernel = centred.T @ centred + penalty * np.eye(len(at))
    dual = np.linalg.solve(kernel, (y - y.mean(axis=1, keepdims=True)).T)
    slopes = centred @ dual
    # A mean prediction over all items and the mean residual: the mean of `x` is all that differs.
    return np.asarray(y.mean(axis=1) + (sources.mean(axis=1) - x.mean(axis=1)) @ slopes)


@dataclass
class FactorModel:
    """``logit mu_ij = u_i . v_j``, of the source models; a new model's factors are normal.

    Attributes
    ----------
    items : ndarray of shape (n_items, 1 + k)
        The first column belongs to a constant factor.
    mean, covariance : ndarray
        Of the factors of the sources.
    """

    items: Floats
    mean: Floats
    covariance: Floats

    @classmethod
    def fit(cls, scores: Floats, k: int, ridge: float, seed: int = 0) -> FactorModel:
        """Of so many factors, with this penalty."""
        u, v = _factors(scores, np.ones(scores.shape, dtype=bool), k, ridge, seed)
        cov = np.atleast_2d(np.cov(u, rowvar=False)) + 1e-6 * np.eye(u.shape[1])
        return cls(v, u.mean(axis=0), cov)


def chosen(scores: Floats, seed: int) -> tuple[int, float]:
    """Number of factors and penalty that predict held-out cells best."""
    out = np.random.default_rng([seed, 4]).random(scores.shape) < HELD_OUT
    tried = {}
    for k in (k for k in FACTORS if k == FACTORS[0] or k < len(scores) / 3):
        for ridge in RIDGES:
            u, v = _factors(scores, ~out, k, ridge, seed)
            eta = (u @ v.T)[out]
            tried[k, ridge] = float(np.mean(np.logaddexp(0.0, eta) - scores[out] * eta))
    return min(tried, key=lambda x: tried[x])


def _factors(scores: Floats, seen: NDArray[np.bool_], k: int, ridge: float, seed: int):
    """Alternating ridge-penalised Newton steps; rows of models and of items."""
    rng = np.random.default_rng([seed, k])
    n, m = scores.shape
    easy = np.where(seen, scores, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    u = np.column_stack([np.ones(n), 0.3 * rng.standard_normal((n, k))])
    v = np.column_stack([logit(np.clip(easy, 0.02, 0.98)), 0.3 * rng.standard_normal((m, k))])
    for _ in range(ROUNDS):
        v = _newton(v, u, scores.T, seen.T, ridge)
        u[:, 1:] = _newton(u[:, 1:], v[:, 1:], scores, seen, ridge, np.outer(u[:, 0], v[:, 0]))
    return u, v


def _newton(rows, others, y, seen, ridge, offset=0.0):
    mu = expit(np.clip(rows @ others.T + offset, -15.0, 15.0))
    w = np.where(seen, mu * (1.0 - mu), 0.0)
    hessian = np.einsum("ij,jk,jl->ikl", w, others, others, optimize=True)
    hessian += ridge * np.eye(others.shape[1])
    gradient = np.where(seen, y - mu, 0.0) @ others - ridge * rows
    return rows + np.clip(np.linalg.solve(hessian, gradient[..., None])[..., 0], -1.0, 1.0)


class Faq:
    """Factorized active querying.

    Parameters
    ----------
    sources : ndarray of shape (n_sources, n_items)
    budget : int
        Draws for which the settings are chosen, on the last fifth of the sources.
    """

    def __init__(self, sources: Floats, budget: int, seed: int = 0) -> None:
        order = np.random.default_rng([seed, 9]).permutation(len(sources))
        cut = max(len(sources) // 5, 1)
        shape, check = chosen(sources, seed), sources[order[:cut]]
        trial = FactorModel.fit(sources[order[cut:]], *shape, seed)
        widths = {s: float(np.mean(_queried(trial, check, budget, s, seed)[1])) for s in SETTINGS}
        self.setting = min(widths, key=lambda s: widths[s])
        self.model, self._budget = FactorModel.fit(sources, *shape, seed), budget

    def estimate(self, new: Floats, seed: int) -> tuple[Floats, Floats]:
        """Estimates and standard errors of models with these scores; each of shape (n_models,)."""
        return _queried(self.model, new, self._budget, self.setting, seed)


def _queried(
    model: FactorModel,
    new: Floats,
    budget: int,
    setting: tuple[float, float, float, float],
    seed: int,
) -> tuple[Floats, Floats]:
    exponent, explore, grow, even = setting
    h, n_items = new.shape
    v, rng, each = model.items, np.random.default_rng([seed, 17]), np.arange(h)
    u = np.tile(model.mean, (h, 1))
    covariance = np.tile(model.covariance, (h, 1, 1))
    draws = np.empty((h, budget))
    for step in range(1, budget + 1):
        mu = np.clip(expit(u @ v.T), 1e-9, 1.0 - 1e-9)
        w = mu * (1.0 - mu)
        unsure = np.sqrt(w)
        telling = np.einsum("nk,hkl,hl->hn", v, covariance, w @ v / n_items) ** 2 * w
        telling /= 1.0 + w * np.einsum("nk,hkl,nl->hn", v, covariance, v, optimize=True)
        share = max(1.0 - step / (explore * budget), 0.0) if explore else 0.0
        power = exponent * min(step / (grow * budget), 1.0) if grow else exponent
        size = ((1.0 - share) * _normed(unsure) + share * _normed(telling)) ** power
        chance = (1.0 - even) * _normed(size) + even / n_items
        below = np.cumsum(chance, axis=1)
        at = (below < rng.random((h, 1)) * below[:, -1:]).sum(axis=1)
        z, p = new[each, at], chance[each, at]
        draws[:, step - 1] = mu.mean(axis=1) + (z - mu[each, at]) / (p * n_items)
        x = v[at]
        turned = np.einsum("hkl,hl->hk", covariance, x)
        scale = w[each, at] / (1.0 + w[each, at] * (x * turned).sum(axis=1))
        covariance -= scale[:, None, None] * turned[:, :, None] * turned[:, None, :]
        u += np.einsum("hkl,hl->hk", covariance, x) * (z - mu[each, at])[:, None]
    return draws.mean(axis=1), draws.std(axis=1, ddof=1) / np.sqrt(budget)


def _normed(x: Floats) -> Floats:
    return np.asarray(x / np.maximum(x.sum(axis=1, keepdims=True), 1e-300))


# -- the comparison ------------------------------------------------------------------------------


def matrices(sets: str, only: list[str]) -> Iterator[tuple[str, list[str], Floats]]:
    """Score tables without holes: name, models, scores on [0, 1]."""
    if "benchpred" in sets:
        for path in sorted((SHARED / "data" / "benchpred").glob("*.parquet")):
            frame = pd.read_parquet(path)
            if not only or path.stem in only:
                yield (
                    path.stem,
                    [f"m{i}" for i in range(len(frame))],
                    frame.to_numpy(float),
                )
    if "scores" in sets:
        for dataset, metric in DATASETS:
            if not only or dataset in only:
                table, _ = load(dataset, metric)
                y = table.model_scores()
                y, names = (
                    y[(k := np.isfinite(y).mean(1) > 0.97)],
                    list(np.array(table.models)[k]),
                )
                yield f"{dataset} {metric}", names, y[:, np.isfinite(y).all(0)]


def rankings(kind: str, names: list[str], y: Floats, k: int) -> list[tuple[Positions, Floats]]:
    """Source models, and the scores of four new ones, `k` times or less."""
    rng, n, size = np.random.default_rng(11), len(y), 4
    if kind in KINDS or kind == "checkpoints":
        try:
            sets = hold_outs(
                "random" if kind == "checkpoints" else kind, names, y.mean(1),
                size=size, folds=k, seed=0, min_calibrating=8,
            )  # fmt: skip
        except UsageError:  # too few models
            return []
        at = {name: i for i, name in enumerate(names)}
        found = [(np.array([at[m] for m in old]), y[[at[m] for m in new]]) for new, old in sets]
        return (
            [(s, _checkpoints(x, i)) for i, (s, x) in enumerate(found)]
            if kind not in KINDS
            else found
        )
    order = np.argsort(-y.mean(1), kind="stable")
    if kind == "far":
        sources, new = np.sort(order[n - n // 2 :]), order[: -(-3 * n // 10)]
    else:
        mixed = rng.permutation(n)
        new, sources = mixed[: max(n // 4, size)], np.sort(mixed[max(n // 4, size) :])
    out: list[tuple[Positions, Floats]] = []
    while len(out) < k:
        mixed = rng.permutation(new)
        out += [(sources, y[mixed[i : i + size]]) for i in range(0, len(new) - size + 1, size)]
    return out[:k]


def _checkpoints(y: Floats, seed: int) -> Floats:
    """A run from one model to the next better one: every item changes at a moment of its own."""
    y = y[np.argsort(y.mean(1))]
    rng = np.random.default_rng([seed, 5])
    a = int(rng.integers(0, len(y) - 1))
    moment = rng.random(y.shape[1])
    return np.array([np.where(moment < s, y[a + 1], y[a]) for s in np.linspace(0.0, 1.0, 4)])


def figures(found: Estimates, new: Floats) -> dict[str, float]:
    """One ranking against the truth."""
    truth, upper = new.mean(axis=1), np.triu_indices(len(new), 1)
    e, said = found.mean - truth, ~np.isnan(found.error)
    gap, true = ((x[:, None] - x)[upper] for x in (found.mean, truth))
    error, df = np.maximum(found.pair_error[upper], 1e-9), found.pair_df[upper]
    sure = np.abs(gap) > t.ppf(0.975, df) * error
    out = {"gap": float(np.abs(e).mean()), "bias": float(e.mean())}
    out["tau"] = float(np.nan_to_num(kendalltau(found.mean, truth)[0]))
    if said.all():
        out["cover"] = float((np.abs(e) <= t.ppf(0.975, found.df) * found.error + 1e-12).mean())
    if not np.isnan(error).any():
        known = error > 1e-8  # items on which two models do not differ state no error
        out["z2"] = float(np.mean(((gap - true) / error)[known] ** 2)) if known.any() else np.nan
        out["decided"] = float(sure.mean())
        out["right"] = float((sure & (np.sign(gap) == np.sign(true))).mean())
    return out


def signed(found: Estimates, new: Floats) -> Floats:
    """Two-sided p of each pair, negative where the order is wrong; shape (n_pairs,)."""
    upper = np.triu_indices(len(new), 1)
    gap, true = ((x[:, None] - x)[upper] for x in (found.mean, new.mean(axis=1)))
    at = np.abs(gap) / np.maximum(found.pair_error[upper], 1e-9)
    return np.asarray(2.0 * t.sf(at, found.pair_df[upper]) * np.where(gap * true > 0.0, 1.0, -1.0))


def equal_share(own: list[Floats], other: list[Floats], level: float = 0.05) -> dict[str, float]:
    """A method beside another one where it errs as often, and where it decides as much.

    Parameters
    ----------
    own, other : list of ndarray
        What `signed` gives, by score table.
    level : float, optional
        Of the other method; that of the first is moved.

    Returns
    -------
    dict
        Of the other's: share of wrong ones among its decisions, decided and right pairs. Right
        pairs of the first where at most as many of its decisions are wrong, how many more that is,
        and how many more of all pairs are wrong where it decides as many; with standard errors by a
        bootstrap over tables.
    """

    def found(at: NDArray[np.intp]) -> Floats:
        sure = np.array([[np.mean(s := np.abs(p) <= level), np.mean(s & (p < 0))] for p in other])
        decided, wrong = sure[at].mean(axis=0)
        p = np.concatenate([own[i] for i in at])
        order = np.argsort(np.abs(p), kind="stable")
        weight = np.concatenate([np.full(len(own[i]), 1.0 / len(own[i])) for i in at])[order]
        last = np.append(np.diff(np.abs(p[order])) > 0.0, True)  # of those with the same p
        many = np.cumsum(weight)[last] / len(at)
        false = np.cumsum(weight * (p[order] < 0.0))[last] / len(at)
        fits = np.flatnonzero(false <= many * wrong / max(decided, 1e-12) + 1e-12)
        right = float((many - false)[fits[-1]]) if len(fits) else 0.0
        as_many = float(np.interp(decided, np.append(0.0, many), np.append(0.0, false)))
        more = right - (decided - wrong), as_many - wrong
        return np.array([wrong / max(decided, 1e-12), decided, decided - wrong, right, *more])

    n, rng = len(own), np.random.default_rng(0)
    errors = np.std([found(rng.integers(n, size=n))[4:] for _ in range(RESAMPLES)], axis=0)
    names = ("wrong", "decided", "theirs", "right", "more", "more_wrong")
    out = dict(zip(names, found(np.arange(n)).tolist()))
    return out | dict(zip(("more_error", "more_wrong_error"), errors.tolist()))


def compare(
    y: Floats,
    folds: list[tuple[Positions, Floats]],
    items: list[int],
    faq: bool,
    names: list[str] | None = None,
) -> dict[tuple[str, int], dict[str, Any]]:
    """Means over the rankings of one score table, by method and number of items; `signed` pairs.

    `names` of the models say which are of one family.
    """
    names = names or [f"m{i}" for i in range(len(y))]
    rows: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    pairs: dict[tuple[str, int], list[Floats]] = defaultdict(list)
    banks: dict[bytes, Any] = {}
    for seed, (sources, new) in enumerate(folds):
        key = sources.tobytes()
        if key not in banks:
            table = ScoreTable.from_arrays(y[sources], [names[i] for i in sources])
            banks[key] = (
                model_of(calibrate(table)),
                Faq(y[sources], max(items)) if faq else None,
            )
        model, rival = banks[key]
        field, none = (
            Field(model, len(new), seed=seed),
            np.full((len(new),) * 2, np.nan),
        )
        for n in (n for n in items if n <= new.shape[1] // 2):
            advance(field, new, n)
            r = field.result()
            sd = r.variance**0.5
            own = Estimates(r.estimate, sd.diagonal(), r.df.diagonal(), sd, r.df)
            rows["default", n].append(figures(own, new))
            pairs["default", n].append(signed(own, new))
            for draw in range(DRAWS):
                at = np.random.default_rng([seed, draw, 99]).permutation(new.shape[1])[:n]
                aipw = difference(y[sources], new, at)
                rows["aipw", n].append(figures(Estimates(aipw, none[0], none[0], none, none), new))
                tested = paired(new, at)
                rows["random", n].append(figures(tested, new))
                pairs["random", n].append(signed(tested, new))
            if rival is not None and n == max(items):
                mean, error = rival.estimate(new, seed)
                many = np.full(len(new), 1e6)
                both = np.sqrt(error[:, None] ** 2 + error**2)
                rows["faq", n].append(
                    figures(Estimates(mean, error, many, both, both * 0.0 + 1e6), new)
                )
    return {
        k: pd.DataFrame(v).mean().to_dict()
        | ({"pairs": np.concatenate(pairs[k])} if k in pairs else {})
        for k, v in rows.items()
    }


def show(found: dict[str, dict[tuple[str, int], dict[str, Any]]], kind: str) -> dict[str, Any]:
    """Every method beside `default`, at every number of items; returns what equal shares give."""
    print(f"\n{kind}: {len(found)} score tables")
    print("items  method   gap     minus default      bias     cover (least)", end="")
    print("  z pairs  decided  right    tau")
    for n in sorted({n for of in found.values() for _, n in of}):
        own = {name: of["default", n] for name, of in found.items() if ("default", n) in of}
        for method in ("default", "aipw", "random", "faq"):
            of = {name: found[name][method, n] for name in own if (method, n) in found[name]}
            if of:
                f = pd.DataFrame(of).T
                d = f.gap - pd.DataFrame(own).T.gap[f.index]
                more = (
                    f"{d.mean():+.4f} +- {d.std() / len(d) ** 0.5:.4f}"
                    if method != "default"
                    else ""
                )
                print(
                    f"{n:5d}  {method:8s}  {f.gap.mean():.4f}  {more:17s}  {f.bias.mean():+.4f}",
                    end="",
                )
                if "cover" in f:
                    print(f"   {f.cover.mean():.3f} ({f.cover.min():.2f}) ", end="")
                if "z2" in f:
                    right = f.right.sum() / max(f.decided.sum(), 1e-9)
                    print(
                        f"   {f.z2.mean() ** 0.5:.2f}     {f.decided.mean():.3f}    {right:.4f}",
                        end="",
                    )
                print(f"   {f.tau.mean():.3f}")
    equal = {}
    for n in sorted({n for of in found.values() for _, n in of}):
        of = [x for x in found.values() if ("default", n) in x]
        got = [[x[m, n]["pairs"] for x in of] for m in ("default", "random")]
        e = equal[str(n)] = equal_share(*got) | {"tables": len(of)}
        print(
            f"{n:5d}  t-test: {e['decided']:.3f} decided, {e['wrong']:.1%} of it wrong; default at "
            f"that share of wrong ones: right {e['more']:+.3f} +- {e['more_error']:.3f}; deciding "
            f"as many: wrong {e['more_wrong']:+.4f} +- {e['more_wrong_error']:.4f}"
        )
    return equal


def rounded(found: Any) -> Any:
    """Five decimals, and null for what is not a number."""
    if isinstance(found, dict):
        return {k: rounded(v) for k, v in found.items() if k != "pairs"}
    return None if np.isnan(found) else round(float(found), 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="near,far")
    parser.add_argument("--items", default="10,20,50")
    parser.add_argument("--rankings", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--sets", default="benchpred")
    parser.add_argument("--no_faq", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    items, kept, equal = [int(n) for n in args.items.split(",")], {}, {}
    for kind in args.kinds.split(","):
        found, start = {}, time.process_time()
        for name, names, y in matrices(args.sets, [x for x in args.only.split(",") if x]):
            folds = rankings(kind, names, y, args.rankings)
            if folds:
                found[name] = compare(y, folds, items, not args.no_faq, names)
                print(f"{kind} {name}", file=sys.stderr, flush=True)
        equal[kind] = show(found, kind)
        print(f"{time.process_time() - start:.0f} s of processor time", flush=True)
        kept[kind] = {t: {f"{m}, {n}": v for (m, n), v in of.items()} for t, of in found.items()}
    if args.out:
        said = "python benchmarks/rivals.py " + " ".join(
            x for x in sys.argv[1:] if x != "--out" and x != str(args.out)
        )
        out = {
            "command": said.strip(),
            "sources": made_by.sources("benchmarks/rivals.py"),
            "found": rounded(kept),
            "equal": rounded(equal),
        }
        args.out.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
