"""Make docs/experiments.md from what `lm-eval-ccat experiments` wrote.

    python benchmarks/paper_experiments/page.py OUT [COMMIT of the code that measured]

The tables are taken as they are; what is added is where the scores come from, what the paper
prints, and why the two are not the same figures.
"""

# ruff: noqa: E501
from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
ORDER = (
    "main", "ties", "fixed_length", "families", "conformance", "spend", "calibration_cost",
    "budget_sweep", "information",
)  # fmt: skip

HEAD = """\
# The paper's experiments on published scores

Made by `benchmarks/paper_experiments/run.sh DATA OUT` with `lm-eval-ccat experiments`; every figure
below can be made again with that one command on the same score tables. Each table is also written
as CSV, with numbers unrounded.

{settings}

## Where the scores come from

| table | scores | source |
| --- | --- | --- |
| wmt24_en-de, wmt24_en-es | systems and language models, sentence BLEU, chrF, TER (sacrebleu 2.6.0) and ROUGE-L against reference A | wmt-conference/wmt24-news-systems, commit bfa937e |
| wmt23_de-en | 13 systems, sentence BLEU, chrF and ROUGE-L | wmt-conference/wmt23-news-systems, commit 99b5b9d |
| alpaca_eval2_weighted | LLM judge, weighted win rate against one reference model | tatsu-lab/alpaca_eval, commit cd543a1 |
| wildbench_v20522_gpt4turbo | LLM judge, 1 to 10 | allenai/WildBench, commit d6b8dca |
| zeroeval_gsm | right or wrong | WildEval/ZeroEval, commit 8c1485e |
| mqm_newstest2021_ende | human error scores, 0 to 25, lower is better | google/wmt-mqm-human-evaluation, commit 7fadea2 |
| realsumm_abs | summarisation: ROUGE, BERTScore, MoverScore and human recall | neulab/REALSumm, commit a5900e3 |
| metabench_gsm8k_v1 | right or wrong, Open LLM Leaderboard v1, a seeded sample of 100 models | adkipnis/metabench, commit fe74e29 |

Left out: human references (ref-A to ref-D of MQM), the reference model and two entries of
AlpacaEval that are flagged as gamed or constant (gpt4_1106_preview, gpt4_gamed, NullModel), and
models whose scores all equal those of another (CycleL2, and duplicates on the Open LLM
Leaderboard). Every item costs one unit.

## What the paper prints

arXiv:2601.13885 evaluates other benchmarks: BioLaySumm (ROUGE-L, BERTScore, FKGL), GovReport
(ROUGE-L), FLORES Turkish to English (BLEU, COMET), TruthfulQA (LLM judge, differential BERTScore)
and Nemotron-PII (span score), with models at several temperatures. Its scores are not among the
tables here.

| figure | printed in the paper | here, method `paper`{others} |
| --- | --- | --- |
| share of the items used | 2% | {used} |
| tau above random sampling | +0.12 | {above} |
| decided pairs that are right | 95% | {right} |
| F1 of ties | 0.51 | {ties} |

Where the data differ, plainly:

- The benchmarks, metrics and models above are not the paper's, so single figures cannot be compared;
  what can be compared is how methods stand to each other on the same data.
- The tables here have one configuration per model. Several temperatures of a model, which the
  paper calibrates on, are supported but not in these data.
- Several tables hold few models (12 to 14): 8 to 10 calibrate. REALSumm has 100 items only, so 20
  items per model are a fifth of it, and *share used* says little there.
- Prices are drawn log-uniformly from 0.1 to 3.2; the paper has prices of its own.
- The share of truly tied pairs, and with it precision and F1 of ties, depends on how close the
  models of a leaderboard are and on how many items it has.
- `random` gives each model its own items. Giving all models the *same* random items (`common`), or the
  first ones (`limit`, what `--limit` does), costs the same and is the stronger baseline.
- Full information selects extreme items where the noise k is large (discrimination of about 1 and
  less: AlpacaEval's win rate, 0/1 scores, MQM): its second term then outweighs the first, and tau
  falls.
- Budgets below ten items per model are spent on the warm-up of ten all the same, so the first two
  points of the sweep are one.
{below}

"""


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of one written table."""
    import csv

    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def figures(out: Path) -> dict[str, str]:
    """The headline figures, of every method with a bank."""
    main = next(row for row in read_csv(out / "main.csv") if row["table"] == "mean")
    tables = [row for row in read_csv(out / "main.csv") if row["table"] != "mean"]
    pooled = {r["method"]: r for r in read_csv(out / "ties.csv") if r["table"] == "all pairs"}
    spend = [r for r in read_csv(out / "spend.csv")]
    methods = list(pooled)

    def each(value) -> str:
        return ", ".join(value(method) for method in methods)

    def used(method: str) -> str:
        large = {row["table"] for row in tables if int(row["items"]) >= 500}
        own = [
            float(r["% of full"]) for r in spend if r["method"] == method and r["table"] in large
        ]
        return f"{sum(own) / len(own):.1f}% (tables of 500 items and more)"

    def above(method: str) -> str:
        return f"{float(main[f'tau {method}']) - float(main['tau random']):+.2f}"

    lower = [
        f"{r['table']} {r['metric']} ({float(r['default - paper']):+.2f}, standard error "
        f"{float(r['default +-']):.2f})"
        for r in tables
        if "default" in methods and round(float(r["default - paper"]), 3) < 0
    ]
    below = f"- `default` ranks below `paper` on {', '.join(lower)}." if lower else ""
    return {
        "below": below,
        "others": "".join(f", then `{m}`" for m in methods[1:]),
        "used": each(used),
        "above": each(above),
        "right": each(lambda m: f"{float(pooled[m]['confident accuracy']):.1%}"),
        "ties": each(lambda m: f"{float(pooled[m]['F1']):.2f}"),
    }


def main() -> None:
    out = Path(sys.argv[1])
    page = (out / "README.md").read_text(encoding="utf-8").splitlines()
    settings = page[2] + (f" Measured by the code of commit {sys.argv[2]}." if sys.argv[2:] else "")
    text = [HEAD.format(settings=settings, **figures(out))]
    images = DOCS / "experiments"
    images.mkdir(exist_ok=True)
    for name in ORDER:
        file = out / f"{name}.md"
        if not file.is_file():
            continue
        table = file.read_text(encoding="utf-8")
        if name == "budget_sweep":
            # 500 rows: the plot shows them, the CSV holds them.
            table = table[: table.index("\n| ")] + f"\n![Budget sweep]({name}.png)\n"
        text.append(table.replace(f"]({name}.png)", f"](experiments/{name}.png)"))
        if (out / f"{name}.png").is_file():
            shutil.copy(out / f"{name}.png", images / f"{name}.png")
    (DOCS / "experiments.md").write_text("\n".join(text), encoding="utf-8")
    print(DOCS / "experiments.md")


if __name__ == "__main__":
    main()
