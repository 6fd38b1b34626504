"""``lm-eval-ccat demo``: the whole way, from logs to a ranking, on this computer alone."""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from pathlib import Path
from typing import Any

from ..content import RankingContent
from ..errors import RunError, UsageError
from ..files import replace_text
from .parsing import Opt, Options, add_command

#: Below this the calibration has too few items to tell the demo's systems apart.
LEAST, MOST = 100, 5000

EPILOG = """\
example:
  lm-eval-ccat demo
  lm-eval-ccat demo --dir my_demo --documents 600

It needs no network, no weights and under two minutes. Exit codes: 0 every
decided pair agrees with the full runs, 1 one does not, 2 usage.
"""

COMMANDS = """\
The same for your own models:
  lm-eval-ccat check my_task                                     which metrics can be used
  lm-eval-ccat run --model hf --model_args pretrained=... --tasks my_task \\
      --log_samples --output_path logs                           a full run of each known model
  lm-eval-ccat calibrate logs --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat rank models.yaml                                  the new models, adaptively
What was written here can serve as an example:
  {config}
  {bank}
  {run_dir}
"""


OPTIONS: Options = {
    "--dir DIR": Opt("where to write", "ccat_demo"),
    "--documents N": Opt(f"documents, {LEAST} to {MOST}; fewer decide fewer pairs", 800),
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``demo`` to the command line."""
    what = "Calibrate on some systems, rank others adaptively, compare with the truth."
    add_command(subparsers, "demo", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 if every confident pair agrees with full evaluation."""
    from ..demo.corpus import collect, write_task
    from ..demo.summarisers import CALIBRATING, RANKED
    from ..live.quiet import quiet_harness
    from ..live.ranking import rank
    from .live import Display

    started = time.monotonic()
    if not LEAST <= args.documents <= MOST:
        raise UsageError(f"--documents {args.documents}: the demo takes {LEAST} to {MOST}")
    folder = Path(args.dir)
    if (folder / "rank.run").exists():
        raise RunError(f"{folder} already holds a demo; remove it or choose another --dir")
    documents = collect(limit=args.documents)
    if len(documents) < LEAST:
        raise RunError(
            f"this Python's standard library has {len(documents)} usable docstrings, and the demo "
            f"needs {LEAST}; it was installed without its sources: use another Python"
        )
    if len(documents) < args.documents:
        _say(f"There are {len(documents)} documents, not {args.documents}.")
    tasks = folder / "tasks"
    write_task(tasks, documents)
    _say(f"{len(documents)} docstrings of the standard library: the body is summarised, the "
         "first line is the reference.")  # fmt: skip

    from ..demo.evaluate import evaluate_in_full

    display = Display(yes=True)  # its dollars are play money
    logs = folder / "logs"
    _say(f"Full runs of {len(CALIBRATING)} known systems, to calibrate on:")
    with quiet_harness(None, display.warn), contextlib.redirect_stdout(io.StringIO()):
        known = evaluate_in_full(tasks, logs, CALIBRATING)
    _say("  " + ", ".join(f"{n} {s:.3f}" for n, s in sorted(known.items(), key=lambda x: -x[1])))

    bank_file = folder / "ccat_demo.bank.json"
    _calibrate(logs, bank_file)
    config_file = folder / "rank.yaml"
    replace_text(config_file, _config_text(bank_file.name, RANKED))
    _say(f"\nlm-eval-ccat rank {config_file}\n")
    run_dir = folder / "rank.run"
    content = rank(config_file, run_dir=run_dir, observer=display).content

    _say(f"\nFull runs of the same {len(RANKED)} systems, to see whether that was right:")
    with quiet_harness(None, display.warn), contextlib.redirect_stdout(io.StringIO()):
        truth = evaluate_in_full(tasks, folder / "full_logs", RANKED)
    wrong = _compare(content, truth, len(documents))
    _say(f"\nIt took {time.monotonic() - started:.0f} s.\n")
    _say(COMMANDS.format(config=config_file, bank=bank_file, run_dir=run_dir))
    return 1 if wrong else 0


def _calibrate(logs: Path, bank_file: Path) -> None:
    from ..methods import calibrate
    from ..scores import ScoreTable
    from ..upkeep.words import dated

    table = ScoreTable.read(logs, metric="rougeL", task="ccat_demo")
    bank = dated(calibrate(table))
    bank.save(bank_file)
    _say(f"Bank {bank_file}: {int(bank.kept.sum())} of {bank.n_items} items, method {bank.method}.")


def _config_text(bank: str, systems: Any) -> str:
    lines = [
        "task: ccat_demo",
        f"bank: {bank}",
        "confidence: 0.95",
        "ahead: 1                   # so that every demo on this Python gives the same result",
        "models:",
        *(
            f"  - {{name: {name}, model: ccat-demo, model_args: {{system: {name}}}, "
            "price: {item: 0.001}}"
            for name in systems
        ),
        "harness: {include_path: tasks}",
    ]
    return "\n".join(lines) + "\n"


def _compare(content: RankingContent, truth: dict[str, float], documents: int) -> list[str]:
    """Print estimate beside truth; the confident pairs that are wrong."""
    order = sorted(truth, key=lambda name: -truth[name])
    _say("  " + " > ".join(order))
    _say(f"\n  {'system':<18}{'full run':>10}{'estimate':>10}{'items':>8}{'of':>6}")
    for name in order:
        block = content["models"][name]
        _say(f"  {name:<18}{truth[name]:>10.4f}{block['estimate']:>10.4f}"
             f"{block['n_items']:>8}{documents:>6}")  # fmt: skip
    decided = [p for p in content["pairwise"] if p["decision"] == "decided"]
    sure = [p for p in decided if p["p"] > 0.5]  # each pair is there either way
    wrong = [p for p in sure if truth[p["a"]] < truth[p["b"]]]
    pairs = len(order) * (len(order) - 1) // 2
    used = content["items_administered"]
    _say(
        f"\n{len(sure)} of {pairs} pairs were decided, {len(sure) - len(wrong)} of them correctly, "
        f"with {used} answers instead of {documents * len(order)}."
    )
    for pair in wrong:
        _say(f"  wrong: {pair['a']} over {pair['b']} at {100 * pair['p']:.1f}%")
    return [f"{p['a']}>{p['b']}" for p in wrong]


def _say(text: str) -> None:
    print(text, flush=True)
