"""How often `compare` passes or fails a candidate at the margin by mistake.

Logs: documents are a sample of a world in which the candidate is worse by exactly the margin. Live:
two models are asked random documents of a benchmark on which the candidate is worse by a hair more
than the margin, or by a hair less, and `compare`'s rule looks after every pair of answers. A false
pass says better, equivalent or not worse; a false fail says worse. Both are printed in per cent
with standard errors: at most 5 each.

The second table has equal models on documents in clusters (`--cluster`): the share of comparisons
that call one of them better, at most 5 per cent.

    python benchmarks/gate.py [--logs 2000] [--live 200] [--items 200]
"""

from __future__ import annotations

import argparse
import os
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.live.live_comparison import MarginKnown
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.ranker.difference import Difference, compare_scores

MARGIN, HAIR = 0.05, 1e-4
#: Means of baseline and candidate, and how alike their answers are.
WORLDS = {
    "right or wrong, near 60%": (0.6, 0.5, False),
    "right or wrong, near 95%": (0.95, 0.5, False),
    "right or wrong, answers alike": (0.6, 0.95, False),
    "graded": (0.6, 0.5, True),
    "graded, answers alike": (0.6, 0.95, True),
}
#: Sizes of clusters, and how far scores of one cluster correlate.
CLUSTERS = {
    "60, 8 of 2": [60] + 8 * [2],
    "20 of 5": 20 * [5],
    "1 to 30": [*range(1, 31)],
    "60, 30, 20, .., 6 (Zipf)": [60 // k for k in range(1, 11)],
    "5 of 10": 5 * [10],
    "6 of 10": 6 * [10],
}
CORRELATIONS = (1.0, 0.5, 0.0)
PASSES = ("better", "equivalent", "not worse")


def scores(world: str, n: int, rng: np.random.Generator) -> Floats:
    """Return scores of baseline and candidate on documents of a world; shape (2, n)."""
    mean, alike, graded = WORLDS[world]
    shared, alone = rng.random(n), rng.random((2, n))
    luck = np.where(rng.random(n) < alike, shared, alone)
    levels = np.array([[mean], [mean - MARGIN]])
    if graded:  # a mean of four right-or-wrong parts, of which the first decides
        parts = rng.random((2, 3, n)) < levels[:, None]
        return np.asarray((2.0 * (luck < levels) + parts.sum(axis=1)) / 5.0)
    return np.asarray(luck < levels, dtype=np.float64)


def benchmark(world: str, loss: float, n: int, rng: np.random.Generator) -> Floats:
    """Return such scores on a benchmark, on which the candidate is worse by exactly `loss`."""
    full = scores(world, n, rng)
    surplus = float(np.mean(full[1] - full[0])) + loss
    # What is too much is taken from documents at which the candidate has room for it.
    for item in rng.permutation(n):
        step = np.clip(surplus * n, full[1, item] - 1.0, full[1, item])
        full[1, item] -= step
        surplus -= step / n
    return full


def live(world: str, loss: float, n: int, rng: np.random.Generator) -> tuple[str, int]:
    """Return the verdict of two live models, and the documents asked."""
    full = benchmark(world, loss, n, rng)
    bank = ItemBank.blank(range(n))
    ranker = Ranker(bank, ["base", "new"], stop=MarginKnown(MARGIN), seed=int(rng.integers(2**31)))
    while not ranker.done:
        for model, item in ranker.ask(2):
            ranker.tell(model, item, float(full[int(model == "new"), item]))
    documents = len(ranker.result().items["new"])
    difference = Difference.of(ranker.verdicts, documents=documents, margin=MARGIN)
    return difference.verdict, documents


def clustered(sizes: list[int], correlation: float, mean: float, rng: np.random.Generator) -> str:
    """Return the verdict on two equal models that are right or wrong on clusters of documents."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    shared, alone = rng.random((2, len(sizes)))[:, cluster], rng.random((2, len(cluster)))
    luck = np.where(rng.random(alone.shape) < np.sqrt(correlation), shared, alone)
    baseline, candidate = (luck < mean).astype(np.float64)
    return compare_scores(baseline, candidate, clusters=cluster).verdict


def share(count: float, n: int) -> str:
    """Format a share in per cent with its standard error."""
    p = count / n
    return f"{100 * p:.1f} ± {100 * np.sqrt(max(p, 1 / n) * (1 - p) / n):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=2000, help="comparisons of logs, a world")
    parser.add_argument("--live", type=int, default=200, help="live comparisons, a world")
    parser.add_argument("--items", type=int, default=200, help="documents")
    args = parser.parse_args()
    print("| world | logs pass | logs fail | live pass | live fail | documents asked live |")
    print("|---|---|---|---|---|---|")
    for number, world in enumerate(WORLDS):
        rng = np.random.default_rng([number, args.items])
        logged = Counter(
            compare_scores(*scores(world, args.items, rng), margin=MARGIN).verdict
            for _ in range(args.logs)
        )
        more, less = (
            [live(world, MARGIN + hair, args.items, rng) for _ in range(args.live)]
            for hair in (HAIR, -HAIR)
        )
        cells = [
            share(sum(logged[verdict] for verdict in PASSES), args.logs),
            share(logged["worse"], args.logs),
            share(sum(verdict in PASSES for verdict, _ in more), args.live),
            share(sum(verdict == "worse" for verdict, _ in less), args.live),
        ]
        documents = np.median([items for _, items in more + less])
        print(f"| {world} | {' | '.join(cells)} | {documents:.0f} of {args.items} |", flush=True)
    print("\n| clusters | correlation | means of 0.5: different | 0.8 |\n|---|---|---|---|")
    for number, (words, sizes) in enumerate(CLUSTERS.items()):
        for correlation in CORRELATIONS:
            rng = np.random.default_rng([number, int(10 * correlation)])
            cells = []
            for mean in (0.5, 0.8):
                verdicts = [clustered(sizes, correlation, mean, rng) for _ in range(args.logs)]
                cells.append(share(sum(v in ("better", "worse") for v in verdicts), args.logs))
            print(f"| {words} | {correlation:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
