"""Write what was measured: JSON, CSV, Markdown and plots, and docs/evidence/experiments.md, from one document.

    python benchmarks/paper/run --docs [OUT [COMMIT of the code that measured]]
    python benchmarks/paper/run --beside OUT METHOD COMMIT

With OUT, its `experiments.json` and plots are copied into docs/evidence first. With --beside, the rows of
one method of another run, of fewer seeds, are put under those of `paper`, labelled with its seeds.
The tables are taken as they are; what is added is where the scores come from, and why they are not
the paper's figures.
"""

# ruff: noqa: E501
from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from lm_eval_ccat import __version__
from lm_eval_ccat.files import replace_text

from ..sources import sources
from .design import Design
from .tables import Measured, Table, all_tables, printed

DIGITS = 6  # significant, in JSON
CONFIGS = 68  # that calibrate in the paper: 17 models at four temperatures

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "evidence"
PLOTS = EVIDENCE / "experiments"
MEASURED = EVIDENCE / "measured" / "experiments.json"

HEAD = """\
# The paper's experiments on published scores

Made by one command, `sh benchmarks/paper/published.sh DATA`, with `benchmarks/paper/run`.
Every figure on this page is in `docs/evidence/measured/experiments.json`, which that command writes, or in
`benchmarks/paper/paper.json`, which holds what the paper prints. Each table has the rows
that the paper prints first, then ours.

{settings} {measured_by}{beside}

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

## The paper's headline figures

arXiv:2601.13885 evaluates BioLaySumm (ROUGE-L, BERTScore, FKGL), GovReport (ROUGE-L), FLORES Turkish
to English (BLEU, COMET), TruthfulQA (LLM judge, differential BERTScore) and Nemotron-PII (span
score), with 21 models at four temperatures. The authors' repository (trismik/continuous-cat) lists the
scores of these runs (`data/scores.json`), but they are not available here, so this page shows the
paper's means, not its rows. Given score tables named like our tasks, such as
`ccat_govreport.parquet`, the same command prints our rows below the paper's.

The first table below has a row per score table; the others show means over the tables.

| figure | printed | where | {columns} |
| --- | ---: | --- |{rule}
{headline}

How the data differ:

- The benchmarks, metrics and models here are not the paper's, so single figures cannot be compared.
  The differences between methods on the same data can.
- The tables here have one config per model. Where a table has several, the
  command calibrates on all temperatures and tests at T = 0.
- Several tables hold only 12 to 14 models, so 8 to 10 calibrate. REALSumm has only 100 items,
  of which 20 items per model are a fifth.
- Break-even is little more than the number of configs that calibrate, because a new model costs only
  a few per cent of a full run: 68 configs (17 models at four temperatures) give the paper's 67
  to 70. The tables here have 8 to 96 configs, one per model; 68 would give the printed figure.
- Cost savings exceed item savings only where prices differ, because expensive models are asked less.
  The paper's prices are its models' API prices. The prices here are drawn and differ by up to 32
  times, so a similar share of items saves more cost. `--prices` takes a file of real ones.
- The share of truly tied pairs depends on how close the models of a leaderboard are and on how many
  items it has; so do the precision and F1 of ties.
- `random` gives each model its own items. Giving all models the *same* random items (`common`), or
  the first ones (`limit`, as `--limit` does), costs the same and is a stronger baseline.
- The authors' code rescales the scores of the held-out models by their own range, which uses
  what is to be predicted. Here the range of the calibration scores is used; `--rescale holdout` does
  what their code does.
- In the paper, random sampling ranks by scores rescaled in that way, too, which does not change the
  order. For the true ties the paper draws 10,000 bootstrap resamples, and we draw 1,000.

"""


def write(
    measured: Measured, design: Design, folder: Path
) -> tuple[dict[str, Any], list[Table], list[str]]:
    """Write every table, the plots, and one page of it all.

    Parameters
    ----------
    measured : dict
        Of :func:`~.measure.run_experiments`.
    design : Design
    folder : Path

    Returns
    -------
    document : dict
        What ``experiments.json`` holds: ``settings``, ``tables`` and ``left_out``.
    tables : list of Table
    notes : list of str
        What could not be written.
    """
    tables = all_tables(measured, design.methods)
    document = {
        "settings": settings_in_words(design),
        "tables": [_rounded(asdict(table)) for table in tables],
        "left_out": left_out(measured),
    }
    replace_text(folder / "experiments.json", dump(document))
    notes, drawn = [], []
    try:
        from .plots import draw

        drawn = draw(tables, measured, design.methods, folder)
    except ImportError:
        notes.append("no plots: matplotlib is not installed")
    for table in tables:
        write_csv(table, folder)
        replace_text(folder / f"{table.name}.md", section(table, drawn))
    replace_text(folder / "README.md", whole(document, drawn))
    return document, tables, notes


def dump(document: Mapping[str, Any]) -> str:
    """The document as JSON, one row of a table per line."""
    tables = [{**table, "rows": f"rows {n}"} for n, table in enumerate(document["tables"])]
    text = json.dumps({**document, "tables": tables}, indent=1, allow_nan=False)
    for n, table in enumerate(document["tables"]):
        rows = ",\n".join("    " + json.dumps(row, allow_nan=False) for row in table["rows"])
        text = text.replace(f'"rows {n}"', f"[\n{rows}\n   ]", 1)
    return text + "\n"


def whole(document: Mapping[str, Any], plots: Sequence[str] = (), at: str = "") -> str:
    """One Markdown page of what ``experiments.json`` holds.

    Parameters
    ----------
    plots : sequence of str
        Names of the tables that have a plot.
    at : str
        Where the plots lie, as a prefix of their file names.
    """
    parts = [f"# Experiments\n\n{document['settings']}\n"]
    parts += [section(Table(**table), plots, at) for table in document["tables"]]
    if document["left_out"]:
        parts.append("\n".join(["## Left out", "", *(f"- {t}" for t in document["left_out"]), ""]))
    return "\n".join(parts)


def section(table: Table, plots: Sequence[str] = (), at: str = "") -> str:
    """One table with its title, note and plot."""
    picture = f"\n![{table.title}]({at}{table.name}.png)\n" if table.name in plots else ""
    return f"## {table.title}\n\n{table.note}\n\n{markdown(table)}{picture}"


def settings_in_words(design: Design) -> str:
    """What was run, in one paragraph."""
    rescale = {
        "range": "scores told to `paper` are rescaled by the range of the calibration scores",
        "none": "scores told to `paper` are not rescaled",
        "holdout": "scores told to `paper` are rescaled by the range of the held-out scores",
    }[design.rescale]
    tested = (
        "the mean of their configs"
        if design.temperature is None
        else f"temperature {design.temperature:g} where they have several"
    )
    prices = "given" if design.prices else "drawn log-uniformly from 0.1 to 3.2 per seed"
    return (
        f"lm-eval-ccat {__version__}. {design.folds} hold-out sets of {design.holdout} models, "
        f"{design.seeds} seeds each; budget of {design.items_per_model:g} items per model; "
        f"confidence {design.confidence:g}. Held-out models are tested at {tested}; all configs of "
        f"the others calibrate. Prices are {prices}; {rescale}."
    )


def left_out(measured: Measured) -> list[str]:
    """What could not be measured, and why."""
    said = []
    for label, entry in measured.items():
        if "skipped" in entry:
            said.append(f"{label}: {entry['skipped']}")
            continue
        said += [
            f"{label}: {study}: {found['skipped']}"
            for study, found in entry.items()
            if isinstance(found, dict) and "skipped" in found
        ]
    return said


def write_csv(table: Table, folder: Path) -> Path:
    """Write one table as CSV, numbers unrounded."""
    path = folder / f"{table.name}.csv"
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(table.columns)
    writer.writerows([["" if v is None else v for v in row] for row in table.rows])
    replace_text(path, stream.getvalue())
    return path


def markdown(table: Table) -> str:
    """One table as Markdown; a column "x sd" goes into that of "x", behind +-."""
    if not table.rows:
        return "Nothing to show for these tables.\n"
    at = {c: n for n, c in enumerate(table.columns)}
    shown = [c for c in table.columns if not (c.endswith(" sd") and c[:-3] in at)]
    numeric = {c for c in shown if any(isinstance(r[at[c]], (int, float)) for r in table.rows)}
    lines = [
        "| " + " | ".join(shown) + " |",
        "|" + "|".join(" ---: " if c in numeric else " --- " for c in shown) + "|",
    ]
    for row in table.rows:
        cells = []
        for c in shown:
            cell = _shown(row[at[c]], table.formats.get(c, "{:.3f}"))
            sd = row[at[f"{c} sd"]] if f"{c} sd" in at else None
            cells.append(cell if sd is None else f"{cell} ± {_shown(sd, table.formats[f'{c} sd'])}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _shown(value: Any, form: str) -> str:
    if value is None:
        return "–"
    return form.format(value) if isinstance(value, (int, float)) else str(value)


def _rounded(value: Any) -> Any:
    """The value with floats cut to the digits that JSON keeps."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def made_by() -> str:
    """The script, and the hash of the sources that it is run with."""
    script = "benchmarks/paper/measure.py"
    return f"`python {script}` with sources of hash {sources(script)}"


def beside(document: dict[str, Any], other: Mapping[str, Any], method: str) -> None:
    """Put the rows of a method of another run under those of `paper`, with their label.

    Columns that stand in the first method's rows alone (`random`, say) are those of the other run.
    """
    seeds = int(re.search(r"(\d+) seeds? each", other["settings"])[1])
    label = f"{method}, {seeds} seed{'s' if seeds > 1 else ''}"
    for table in document["tables"]:
        theirs = next(t for t in other["tables"] if t["name"] == table["name"])
        at = theirs["columns"].index("figures")
        first = {tuple(r[:at]): r for r in theirs["rows"] if r[at] == "paper"}
        own = {tuple(r[:at]): r for r in theirs["rows"] if r[at] == method}
        if not own or table["name"] in ("break_even", "budget_sweep"):
            continue  # not studied there, or of the calibration alone
        rows = [r for r in table["rows"] if not r[at].startswith(f"{method}, ")]
        table["rows"] = []
        for row in rows:
            table["rows"].append(row)
            place = tuple(row[:at])
            if row[at] == "paper" and place in own:
                cells = [
                    f if v is None and c != "a" else v
                    for c, v, f in zip(theirs["columns"], own[place], first[place])
                ]
                cells[at] = label
                table["rows"].append(cells)
    there = {t["name"]: sum(r[2] == label and bool(r[1]) for r in t["rows"])
             for t in document["tables"]}  # fmt: skip
    counts = ", ".join(f"{n} in {name.replace('_', ' ')}" for name, n in there.items() if n)
    document["beside"] = (
        f"Rows `{label}` are of another run, by {made_by()}: the same hold-out "
        f"sets with {seeds} seed{'s' if seeds > 1 else ''} each. There are such rows of {counts}; "
        "their baselines are of that run, and their means are over those tables."
    )


def rows_of(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Rows of one table, by column."""
    table = next(t for t in document["tables"] if t["name"] == name)
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


def pooled(document: Mapping[str, Any], name: str, method: str) -> dict[str, Any]:
    """The row of a table that is pooled over all score tables."""
    return next(r for r in rows_of(document, name) if not r["metric"] and r["figures"] == method)


def headline(document: Mapping[str, Any], method: str, first: str) -> dict[str, str]:
    """The headline figures of one method, as the page shows them."""
    main, ties = (pooled(document, name, method) for name in ("main", "ties"))
    fixed = pooled(document, "fixed_length", method)
    large = [
        r["% used"]
        for r in rows_of(document, "main")
        if r["metric"] and r["figures"] == method and r["items"] >= 500
    ]
    shown = {
        "tau_above_random": f"{main['tau'] - main['random']:+.2f}",
        "confident_accuracy": f"{ties['confident accuracy']:.1%}",
        "share_used": f"{sum(large) / len(large):.1f}% (of 500 items and more)",
        "tie_f1": f"{ties['F1']:.2f}",
        "item_savings": f"{fixed['item savings']:.0%}",
        "cost_savings": f"{fixed['cost savings']:.0%}",
    }
    if method == first:
        own = f"{pooled(document, 'break_even', method)['break-even']:.0f}"
        shown["break_even"] = f"{own} ({printed_configs(document, method):.0f} with 68 configs)"
    return shown


def printed_configs(document: Mapping[str, Any], method: str) -> float:
    """Break-even if as many configs had calibrated as in the paper, each at the mean price."""
    rows = [r for r in rows_of(document, "break_even") if r["metric"] and r["figures"] == method]
    saved = [1.0 - r["adaptive / model"] / r["full / model"] for r in rows]
    return median(CONFIGS / share for share in saved)


NAMES = {
    "tau_above_random": ("tau above random sampling", "{:+.2f}"),
    "confident_accuracy": ("decided pairs in the true order", "{:.0%}"),
    "share_used": ("share of the items used", "{:.0%}"),
    "tie_f1": ("F1 of ties", "{:.2f}"),
    "item_savings": ("items saved against fixed length", "{:.0%}"),
    "cost_savings": ("cost saved against fixed length", "{:.0%}"),
    "break_even": ("new models until calibration has paid", "{:.0f}"),
}


def page(document: Mapping[str, Any], plots: set[str]) -> str:
    """The page, from the document and the names of the plots that there are."""
    methods = list(
        dict.fromkeys(
            r["figures"] for r in rows_of(document, "ties") if "printed" not in r["figures"]
        )
    )
    ours = {m: headline(document, m, methods[0]) for m in methods}
    lines = []
    for key, stated in printed()["headline"].items():
        name, form = NAMES[key]
        cells = [ours[m].get(key, "–") for m in methods]
        lines.append(
            f"| {name} | {form.format(stated['value'])} | {stated['where']} | {' | '.join(cells)} |"
        )
    text = [
        HEAD.format(
            settings=document["settings"],
            measured_by=document.get("measured_by", ""),
            beside=" " + document["beside"] if "beside" in document else "",
            columns=" | ".join(f"here, `{m}`" for m in methods),
            rule=" ---: |" * len(methods),
            headline="\n".join(lines),
        )
    ]
    for one in document["tables"]:
        # Of the others the means are shown: the plots show their rows, the JSON holds them.
        rows = [row for row in one["rows"] if "no scores" not in str(row[2])]
        if one["name"] != "main":
            rows = [row for row in rows if not row[1]] or rows
        text.append(section(Table(**{**one, "rows": rows}), plots, "experiments/"))
    if document["left_out"]:
        text.append("\n".join(["## Left out", "", *(f"- {t}" for t in document["left_out"]), ""]))
    return "\n".join(text)


def write_docs(argv: Sequence[str]) -> None:
    """What ``--docs`` and ``--beside`` do with docs/evidence/experiments.md and what it is made from."""
    kind, *rest = argv
    if kind == "--beside":
        out, method = rest
        document = json.loads(MEASURED.read_text(encoding="utf-8"))
        other = json.loads(Path(out, "experiments.json").read_text(encoding="utf-8"))
        beside(document, other, method)
        MEASURED.write_text(dump(document), encoding="utf-8")
    elif rest:
        out = Path(rest[0])
        document = json.loads((out / "experiments.json").read_text(encoding="utf-8"))
        document["measured_by"] = f"Measured by {made_by()}."
        MEASURED.write_text(dump(document), encoding="utf-8")
        for old in PLOTS.glob("*.png"):
            old.unlink()
        for plot in out.glob("*.png"):
            shutil.copy(plot, PLOTS / plot.name)
    document = json.loads(MEASURED.read_text(encoding="utf-8"))
    plots = {p.stem for p in PLOTS.glob("*.png")}
    (EVIDENCE / "experiments.md").write_text(page(document, plots), encoding="utf-8")
    print(EVIDENCE / "experiments.md")
