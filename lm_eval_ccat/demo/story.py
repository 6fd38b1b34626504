"""The demonstration as a whole: calibrate, rank, and compare with full runs."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..content import RankingContent
from ..errors import RunError, UsageError
from ..files import replace_text
from ..harness import internals
from ..harness.evaluation import save_results
from ..live.quiet import quiet_harness
from ..live.ranking_run import rank
from ..live.result import Observer
from ..methods import calibrate
from ..scores import ScoreTable
from ..upkeep.words import dated
from . import DEMO_TYPE, MAX_DOCUMENTS, MIN_DOCUMENTS, N_DOCUMENTS, register_models
from .systems import CALIBRATING, RANKED, stored_documents, write_task

TASK_NAME = "ccat_demo"

CONFIG = """\
task: {task}
bank: {bank}
confidence: 0.95
ahead: 1                   # so that every demo gives the same result
models:
{models}
harness: {{include_path: tasks}}
"""
MODEL = "  - {{name: {0}, model: {1}, model_args: {{system: {0}}}, price: {{item: 0.001}}}}"


@dataclass(frozen=True)
class DemoResult:
    """The result of `demo`: its files, and the decided pairs that full runs contradict."""

    config: Path
    bank: Path
    run_dir: Path
    wrong: list[str]


def demo(
    folder: str | Path,
    documents: int = N_DOCUMENTS,
    *,
    say: Callable[[str], None] = print,
    observer: Observer | None = None,
) -> DemoResult:
    """Calibrate on some systems, rank others adaptively, compare with full runs of them.

    Parameters
    ----------
    folder : path
        Receives all files.
    documents : int, optional
        Number of documents, 100 to 1792; fewer decide fewer pairs.
    say : callable, optional
        Called with each line of the story.
    observer : Observer, optional
        Observer of the ranking.

    Raises
    ------
    UsageError
        If the number of documents is out of range.
    RunError
        If the folder already holds a demo.
    """
    if not MIN_DOCUMENTS <= documents <= MAX_DOCUMENTS:
        raise UsageError(
            f"{documents} documents: the demo takes {MIN_DOCUMENTS} to {MAX_DOCUMENTS}"
        )
    folder = Path(folder)
    run_dir, logs, bank_file = (
        folder / name for name in ("rank.run", "logs", f"{TASK_NAME}.bank.json")
    )
    if run_dir.exists():
        raise RunError(f"{folder} already holds a demo; remove it or choose another --dir")
    write_task(folder / "tasks", stored_documents(documents))
    say(f"{documents} docstrings of the standard library: systems summarise the body, the "
        "first line is the reference.")  # fmt: skip
    observer = observer or Observer()

    def run_in_full(systems: tuple[str, ...], logs: Path) -> dict[str, float]:
        with quiet_harness(None, observer.warn), contextlib.redirect_stdout(io.StringIO()):
            return _evaluate_in_full(folder / "tasks", logs, systems)

    say(f"Full runs of {len(CALIBRATING)} known systems, for calibration:")
    known = run_in_full(tuple(CALIBRATING), logs)
    order = sorted(known, key=lambda name: -known[name])
    say("  " + ", ".join(f"{name} {known[name]:.3f}" for name in order))
    bank = dated(calibrate(ScoreTable.read(logs, metric="rougeL", task=TASK_NAME)))
    bank.save(bank_file)
    n_kept = int(bank.kept.sum())
    say(f"Bank {bank_file}: {n_kept} of {bank.n_items} items, method {bank.method}.")
    config = folder / "rank.yaml"
    models = "\n".join(MODEL.format(name, DEMO_TYPE) for name in RANKED)
    replace_text(config, CONFIG.format(task=TASK_NAME, bank=bank_file.name, models=models))
    say(f"\nlm-eval-ccat rank {config}\n")
    content = rank(config, run_dir=run_dir, observer=observer).content
    say(f"\nFull runs of the same {len(RANKED)} systems, to check the ranking:")
    truth = run_in_full(tuple(RANKED), folder / "full_logs")
    wrong = _compare(content, truth, documents, say)
    return DemoResult(config, bank_file, run_dir, wrong)


def _evaluate_in_full(task_folder: Path, logs: Path, systems: Sequence[str]) -> dict[str, float]:
    """Run systems on every document and write results and samples files.

    Parameters
    ----------
    task_folder : Path
        Where the task's YAML lies.
    logs : Path
        Receives one folder per system.
    systems : sequence of str
        Names of summarisers.

    Returns
    -------
    dict of str to float
        Mean ROUGE-L of each system over all documents.
    """
    register_models()
    scores = {}
    internals.compile_templates_once()
    with _quiet_children():
        manager = internals.task_manager([TASK_NAME], str(task_folder))
        for system in systems:
            results = internals.stock_simple_evaluate(
                model=DEMO_TYPE,
                model_args={"system": system},
                tasks=[TASK_NAME],
                task_manager=manager,
                log_samples=True,
                bootstrap_iters=0,
            )
            scores[system] = float(results["results"][TASK_NAME]["rougeL,none"])
            samples = results.pop("samples")
            save_results(str(logs), system, results, samples, options={})
    return scores


@contextlib.contextmanager
def _quiet_children() -> Iterator[None]:
    """Silence child processes: git, which the harness calls, complains outside a repository."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def _compare(
    content: RankingContent, truth: Mapping[str, float], documents: int, say: Callable[[str], None]
) -> list[str]:
    """Print estimates next to the truth; return the decided pairs that are wrong."""
    order = sorted(truth, key=lambda name: -truth[name])
    say("  " + " > ".join(order))
    say(f"\n  {'system':<18}{'full run':>10}{'estimate':>10}{'items':>8}{'of':>6}")
    for name in order:
        block = content["models"][name]
        say(f"  {name:<18}{truth[name]:>10.4f}{block['estimate']:>10.4f}"
            f"{block['n_items']:>8}{documents:>6}")  # fmt: skip
    decided = [pair for pair in content["pairwise"] if pair["decision"] == "decided"]
    # `a` of a pair is the model that the ranking puts first, `p` the probability that it is better.
    wrong = [pair for pair in decided if truth[pair["a"]] < truth[pair["b"]]]
    pairs, used = len(order) * (len(order) - 1) // 2, content["items_administered"]
    say(
        f"\n{len(decided)} of {pairs} pairs were decided, {len(decided) - len(wrong)} of them "
        f"correctly, with {used} answers instead of {documents * len(order)}."
    )
    for pair in wrong:
        say(f"  wrong: {pair['a']} over {pair['b']} at {100 * pair['p']:.1f}%")
    return [f"{pair['a']}>{pair['b']}" for pair in wrong]
