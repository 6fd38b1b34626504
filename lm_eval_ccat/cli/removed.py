"""Removed flags, commands and keys, and what to use instead.

An entry stays for one release after the removal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import UsageError

#: A command, an action, a command's flag or (before a colon) a key of a configuration, as typed,
#: and its successor.
REMOVED: dict[str, str] = {
    "audit": "verify RUN --full LOGS",
    "bank build": "calibrate LOGS... --task '*' --metric '*' -o FOLDER",
    "bank card": "bank push, which prints the page before it asks",
    "bank diff": "bank check OLD NEW",
    "bank show --count": "board, whose ledger records every test",
    "bank form --parallel": "bank form, which makes one form",
    "bank simulate": "simulate",
    "bank update --exclude": "bank update --scores LOGS, without the logs of these models",
    "calibrate --executor": "executing(PLACE) of lm_eval_ccat.cluster in Python",
    "calibrate --merge_duplicates": "calibrate --exclude, with all but one of the equal models",
    "calibrate --no_replay": "calibrate, which replays nothing; simulate replays scores",
    "calibrate --ray_address": "executing('ray:ADDRESS') of lm_eval_ccat.cluster in Python",
    "calibrate --rescale": "calibrate(..., 'paper', rescale=) in Python",
    "check --lower_is_better": "metadata: ccat_scales: in the task's YAML file",
    "check --metadata": "check FILE.yaml, whose metadata: holds them",
    "check --probe": "rank CONFIG --dry_run --probe",
    "check --range": "metadata: ccat_scales: in the task's YAML file",
    "compare --html": "compare -o FILE.html",
    "compare --items": "compare(..., items=) of lm_eval_ccat in Python",
    "compare --junit": "compare -o FILE.xml",
    "compare --markdown": "compare -o FILE.md",
    "completion": "lm-eval-ccat --completion SHELL",
    "demo --method": "calibrate --method",
    "demo --quiet": "demo",
    "experiments": "python benchmarks/paper/run, in the source distribution",
    "journal": "verify RUN, with --repair to keep what is sound",
    "lease:": "rank CONFIG --executor ray",
    "ls": "lm_eval ls",
    "rank --gen_kwargs": "harness: {gen_kwargs: ...} in the YAML file",
    "rank --leaderboard": "known: in the YAML file",
    "rank --prepare": "rank CONFIG --executor ray",
    "rank --quiet": "rank, whose lines are plain in a file or a pipe",
    "rank --ray_address": "--executor ray:ADDRESS",
    "rank --report": "report RUN_DIR",
    "rank --system_instruction": "harness: {system_instruction: ...} in the YAML file",
    "report --documents": "write_report(..., most_documents=) of lm_eval_ccat.report in Python",
    "report --watch": "rank --watch",
    "run --accept_change": "adaptive_evaluate(..., accept_change=True) in Python",
    "run --ahead": "rank, with ahead: in the YAML file",
    "run --audit": "adaptive_evaluate(..., audit=) in Python",
    "run --known_sampled": "run --question population",
    "run --leaderboard_out": "board init and board place, which keep a table and its page",
    "run --looks": "rank, with looks: in the YAML file",
    "run --min_difference": "adaptive_evaluate(..., min_difference=) in Python",
    "run --mlflow_args": "rank, with harness: {mlflow_args: ...} in the YAML file",
    "run --name": "rank CONFIG --executor ray",
    "run --order": "rank, with order: in the YAML file",
    "run --prior": "rank --prior",
    "run --ranking": "rank CONFIG --executor ray",
    "run --save_bank": "rank --save_bank",
    "scale": "calibrate --scale_items, which keeps each item's ends in the bank",
    "score --batch_size": "rescore(..., batch_size=) of lm_eval_ccat.upkeep.rescore in Python",
    "score --gpus": "the variable CCAT_COMET_GPUS",
    "score --python": "the variable CCAT_COMET_PYTHON; with --setup, a Python 3.10 to 3.12 on the "
    "PATH, or make_environment(folder, python) of lm_eval_ccat.harness.comet in Python",
    "score-form": "bank form FORM --score LOGS",
    "setup": "score comet --setup",
    "simulate --batch": "python benchmarks/order.py, in the source distribution",
    "simulate --familywise": "Strategy(..., rank={'familywise': True}) of simulate in Python",
    "simulate --items": "simulate(..., units=) in Python",
    "simulate --units_column": "simulate(..., units=) in Python",
    "simulate --calibration_models": "python benchmarks/sample.py, in the source distribution",
    "simulate --holdouts": "replay_fold(Fold(...), ...) of lm_eval_ccat.simulation.stage in Python",
    "simulate --item_scaling": "python benchmarks/paper/run --scales, in the source distribution",
    "simulate --ray_address": "--executor ray:ADDRESS",
    "simulate --wanted_tau": "the sweep of simulate --json",
    "validate": "lm_eval validate",
    **{
        f"{command} --lower_is_better": "--range WORST,BEST, such as --range 25,0"
        for command in ("calibrate", "compare", "simulate")
    },
    **{
        f"rank --{key}": f"{key}: in the YAML file"
        for key in ("ahead", "fail_on_empty", "familywise", "looks", "order", "weights")
    },
    **{
        f"simulate --{name}": f"simulate(..., {name}=) in Python"
        for name in ("confidence", "levels", "prices", "processes", "seeds", "weights")
    },
    **{
        f"bank {action} --{flag}": f"bank {action}, which reads scores as the bank states"
        for action in ("check", "form", "update")
        for flag in ("filter", "lower_is_better", "metric", "range", "task")
    },
    **{
        f"board init --{flag}": "calibrate, and board init --from its banks"
        for flag in ("filter", "lower_is_better", "method", "range")
    },
    **{
        f"compare --{flag}": "compare LOGS CANDIDATE.yaml, a file as rank takes it"
        for flag in (
            *("apply_chat_template", "batch_size", "device", "gen_kwargs", "name", "num_fewshot"),
            *("price", "seed", "system_instruction"),
        )
    },
    **{
        f"board init --{rule}": f"init(..., {rule}=) of lm_eval_ccat.board in Python"
        for rule in ("exposure", "max_items", "name", "reserve", "weights")
    },
    **{f"compare --budget_{unit}": "compare --max_items" for unit in ("items", "seconds", "usd")},
    "verify --names": "audit(..., names=) of lm_eval_ccat.simulation.audit in Python",
    **{
        f"verify --{flag}": "verify RUN --full LOGS, which reads scores as the run states"
        for flag in ("filter", "lower_is_better", "range")
    },
}


def refuse_removed(argv: Sequence[str]) -> None:
    """Refuse removed commands, actions and flags.

    Raises
    ------
    UsageError
        If the command, its action or a flag is in the table; the message names what to use.

    Examples
    --------
    >>> refuse_removed(["rank", "models.yaml"])
    >>> refuse_removed(["ls", "tasks"])
    Traceback (most recent call last):
        ...
    lm_eval_ccat.errors.UsageError: `ls` was removed from lm-eval-ccat; in its place: lm_eval ls
    """
    for command in (argv[0], " ".join(argv[:2])):
        flags = (f"{command} {part.split('=', 1)[0]}" for part in argv if part[:2] == "--")
        for typed in (command, *flags):
            _refuse(typed)


def refuse_removed_keys(keys: Iterable[str]) -> None:
    """Refuse removed keys of a configuration.

    Raises
    ------
    UsageError
        If a key is in the table; the message names what to use.
    """
    for key in keys:
        _refuse(f"{key}:")


def _refuse(typed: str) -> None:
    if typed in REMOVED:
        raise UsageError(f"`{typed}` was removed from lm-eval-ccat; in its place: {REMOVED[typed]}")
