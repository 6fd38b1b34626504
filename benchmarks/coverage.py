"""How many of the harness's task files have a metric that can be used adaptively, and why not.

    python benchmarks/coverage.py            # prints the table
    python benchmarks/coverage.py --write    # and puts it into docs/evidence/coverage.md

A static check: what `lm-eval-ccat check` says of the YAML of every task of the installed harness,
without loading a data set. Tasks that set their metrics in code are counted apart.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.task_check import TaskCheck, check_config

EVIDENCE = Path(__file__).resolve().parents[1] / "docs" / "evidence"
MEASURED = EVIDENCE / "measured" / "coverage.json"

#: What a reason begins with after the metric's and the task's name: the row it is counted in.
WHY = (
    (r"of type loglikelihood_rolling", "perplexity of whole documents"),
    (r"its metrics are set in code", "metrics set in code, not looked at"),
    (r"is one statistic of the whole corpus", "one statistic of the whole corpus"),
    (r"the task aggregates it by", "aggregated by a function of the task's own"),
    (r"the scale of metric", "scale not known"),
    (r"log-likelihood|probabilities per document", "log-likelihoods, not scores"),
    (r"sums over the whole corpus|exponential of a mean", "ratio or exponential of corpus sums"),
    (r"scores groups of documents together", "scores groups of documents together"),
    (r"placeholder", "placeholder without a score"),
)


def why(reason: str) -> str:
    """The kind of a reason."""
    return next((kind for pattern, kind in WHY if re.search(pattern, reason)), "other")


def measure() -> dict[str, Any]:
    """Check every task file of the installed harness."""
    manager = internals.task_manager(["*"])
    checks: list[TaskCheck] = []
    for name, entry in manager.task_index.items():
        if entry.kind.name in ("TASK", "PY_TASK"):
            for task, config in internals.static_configs(manager, name).items():
                checks.append(check_config(task, config))
    return summary(checks, internals.harness_version())


def summary(checks: Sequence[TaskCheck], version: str) -> dict[str, Any]:
    """Counts of tasks and of metrics, each usable or why not."""
    metrics: dict[str, Counter[str]] = {}
    tasks: Counter[str] = Counter()
    for check in checks:
        for metric in {m.metric: m for m in check.metrics}.values():
            usable = metric.usable and not check.reason
            kind = "usable" if usable else why(check.reason or metric.reason)
            metrics.setdefault(metric.metric, Counter())[kind] += 1
        if check.usable:
            tasks["usable"] += 1
        else:
            reasons = [check.reason] if check.reason else [m.reason for m in check.metrics]
            tasks[why(reasons[0]) if reasons else "no metric"] += 1
    return {
        "lm_eval": version,
        "tasks": dict(tasks.most_common()),
        "metrics": {
            name: dict(counts.most_common())
            for name, counts in sorted(metrics.items(), key=lambda m: -sum(m[1].values()))
        },
    }


def page(found: dict[str, Any], most: int = 30) -> str:
    """The page, from what was counted."""
    total = sum(found["tasks"].values())
    usable = found["tasks"].get("usable", 0)
    lines = [
        "# Which tasks can be used",
        "",
        f"Of the {total:,} task files of lm-eval {found['lm_eval']}, {usable:,} "
        f"({usable / total:.1%}) have a metric that an adaptive run can estimate. The figures come "
        "from the YAML files alone (`benchmarks/coverage.py`); `lm-eval-ccat check TASK` looks "
        "closer.",
        "",
        "| tasks without one, by reason | tasks |",
        "| --- | ---: |",
        *(f"| {kind} | {n:,} |" for kind, n in found["tasks"].items() if kind != "usable"),
        "",
        f"The {most} most frequent metrics:",
        "",
        "| metric | tasks | usable | not usable, because |",
        "| --- | ---: | ---: | --- |",
    ]
    for name, counts in list(found["metrics"].items())[:most]:
        n = sum(counts.values())
        refused = ", ".join(f"{kind} ({k:,})" for kind, k in counts.items() if kind != "usable")
        lines.append(f"| `{name}` | {n:,} | {counts.get('usable', 0) / n:.0%} | {refused or '–'} |")
    rest = list(found["metrics"].values())[most:]
    n, good = (
        sum(f(c) for c in rest) for f in (lambda c: sum(c.values()), lambda c: c.get("usable", 0))
    )
    lines.append(f"| {len(rest)} others | {n:,} | {good / max(n, 1):.0%} | |")
    return "\n".join([*lines, "", NOTES])


NOTES = """\
Why some are refused:

- *One statistic of the whole corpus* (macro F1, Matthews correlation, Pearson correlation):
  no score of a single document averages to it. An F1 that is a mean over documents is usable.
- *Perplexity of whole documents* and *bits per byte*: each divides one sum over the corpus by
  another, so long documents count for more. Banks model means, not such ratios. Random items could
  estimate one, but log-likelihoods are unbounded: its error holds only after many documents.
- *Aggregated by a function of the task's own*: the function may be anything. If it is the mean of
  one number per document, state the metric's range in the task's `metadata.ccat_scales` (see
  [metrics of your own](../howto/metrics.md)). Most of these functions compute F1 of spans over the
  corpus, ratios over some of the documents (BBQ, RULER's lengths) or consistency between prompts.
"""


def main() -> None:
    found = measure()
    text = page(found)
    if "--write" in sys.argv[1:]:
        MEASURED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (EVIDENCE / "coverage.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
