"""Whether a bank may be used with a task as it is about to be run.

A bank's parameters are those of its documents under its settings. What would make them another
benchmark is refused; what belongs to how a model is run, and may differ between the calibration
models as well, is told as a warning.

==================================  =====================================================
refused                             warned of
==================================  =====================================================
metric, filter                      chat template applied or not, or another one
documents missing or changed        few-shot examples as turns or as one message
number of few-shot examples         how it is sampled (temperature, top_p, ...)
task version                        a token limit that only one of the two states
system instruction                  seed of drawn few-shot examples
scorer (see below)                  task renamed, documents the same
``until`` and token limits          documents that the bank does not know
greedy answers against sampled      settings that the bank does not record
another task, documents unverified
==================================  =====================================================

Of what scores the answers:

==================================  =====================================================
judge models, rubric, repeats,      a judge's temperature, token limit, further settings
reducer, grades
BERTScore's encoder, layer,         a scorer that only one of the two records
rescaling
COMET's checkpoint                  another version of sacrebleu
sacrebleu's settings
==================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import BankMismatchError
from ..shown import short, some
from .bank import ItemBank

#: Generation settings that cut an answer: with others it is another answer.
_CUTTING = ("until", "max_gen_toks", "max_tokens", "max_new_tokens", "max_length")
#: What the harness does where a task says nothing.
_GENERATION_DEFAULTS = {"temperature": 0.0, "do_sample": False}
#: Settings that decide whether the likeliest answer is given or one is drawn.
_SAMPLING = ("do_sample", "temperature")
#: What of a judge may differ between models that are compared all the same.
_OF_A_JUDGE = ("temperature", "max_tokens", "extra")
#: Settings with a comparison of their own.
_BY_THEMSELVES = ("generation_kwargs", "scorer")


def check_bank(
    bank: ItemBank,
    *,
    task: str,
    filters: Sequence[str],
    settings: Mapping[str, Any],
    doc_ids: Sequence[Any],
    doc_hashes: Sequence[str | None],
) -> list[str]:
    """Compare a bank with a task and the settings it is run with.

    Parameters
    ----------
    bank : ItemBank
    task : str
        Name of the task to be run.
    filters : sequence of str
        Its filter pipelines.
    settings : mapping
        Keys as a bank from harness logs has them: ``task_version``, ``num_fewshot``,
        ``chat_template``, ``chat_template_sha``, ``fewshot_as_multiturn``,
        ``system_instruction``, ``generation_kwargs``, ``fewshot_seed``, ``scorer``.
    doc_ids : sequence
        Every document of the task.
    doc_hashes : sequence of (str or None)
        The hash of each.

    Returns
    -------
    list of str
        Warnings, in plain words.

    Raises
    ------
    BankMismatchError
        Naming everything that differs, and the remedy.

    Examples
    --------
    >>> from lm_eval_ccat import ItemBank
    >>> bank = ItemBank.blank([0, 1], task="t", filter="a")
    >>> check_bank(bank, task="t", filters=["b"], settings={}, doc_ids=[0, 1],
    ...            doc_hashes=[None, None])
    Traceback (most recent call last):
        ...
    lm_eval_ccat.errors.BankMismatchError: the bank of t (score) does not fit task t as it is
    run: its filter is 'a', the task has 'b'. ...
    """
    refusals, warnings = _compare_documents(bank, task, doc_ids, doc_hashes)
    if bank.filter is not None and bank.filter not in filters:
        refusals.append(
            f"its filter is {bank.filter!r}, the task has {', '.join(map(repr, filters))}"
        )
    elif bank.filter is None and len(filters) > 1:
        refusals.append(
            f"it names no filter and the task has several ({', '.join(filters)}); "
            "calibrate with --filter"
        )
    more_refusals, more_warnings = compare_settings(bank.settings, settings)
    if not bank.settings and not bank.models:
        more_warnings = []  # a blank bank: no calibration that settings could differ from
    scorer = compare_scorers(bank.settings.get("scorer"), settings.get("scorer"), bank.metric)
    refusals += more_refusals + scorer[0]
    warnings += more_warnings + scorer[1]
    if refusals:
        raise BankMismatchError(
            f"the bank of {bank.task or 'an unnamed task'} ({bank.metric}) does not fit task "
            f"{task} as it is run: {'; '.join(refusals)}. Run with the bank's documents and "
            "settings, or calibrate a bank on logs with these"
        )
    return warnings


def _compare_documents(
    bank: ItemBank, task: str, doc_ids: Sequence[Any], doc_hashes: Sequence[str | None]
) -> tuple[list[str], list[str]]:
    if isinstance(bank.doc_ids[0], str):
        return [
            f"it names its documents by text ({bank.doc_ids[0]!r}), the harness numbers them"
        ], []
    refusals, warnings = [], []
    found = bank.compare(doc_ids, doc_hashes)
    if found.missing:
        refusals.append(
            f"the task has {len(doc_ids)} documents and lacks {len(found.missing)} of the bank's "
            f"{bank.n_items} (doc_id {some(found.missing, 3)})"
        )
    if found.changed:
        refusals.append(
            f"{len(found.changed)} of {bank.n_items} documents differ from those calibrated "
            f"(doc_hash of doc_id {some(found.changed, 3)})"
        )
    if bank.task not in (None, task) and not refusals:
        if len(found.same) == bank.n_items:
            warnings.append(f"the bank is of task {bank.task}; its documents are the same")
        else:
            refusals.append(
                f"it is of task {bank.task} and has no document hashes to verify that the "
                "documents are the same"
            )
    elif not found.same and not refusals:
        warnings.append(
            "the bank has no document hashes, so it is not verified that its documents are the "
            "task's"
        )
    if len(doc_ids) > bank.n_items and not found.missing:
        warnings.append(
            f"the bank knows {bank.n_items} of the task's {len(doc_ids)} documents; the estimate "
            "is of the mean over those"
        )
    return refusals, warnings


def compare_settings(
    recorded: Mapping[str, Any], run: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Refusals and warnings for settings that differ from those a bank records.

    Parameters
    ----------
    recorded, run : mapping
        As in `check_bank`; a setting that either does not name is not compared.
    """
    if not recorded:
        return [], [
            "the bank records no evaluation settings (it was not calibrated on harness logs), so "
            "it is not verified that few-shot examples, chat template and generation settings "
            "agree"
        ]
    refusals, warnings = [], []
    # A setting in which the calibration runs differed among themselves decides nothing.
    known = {k: v for k, v in recorded.items() if k in run and k not in _BY_THEMSELVES}
    other = {k for k, v in known.items() if not _same(v, run[k])}
    words = {k: f"{k} is {_show(run[k])}, the bank has {_show(known[k])}" for k in other}
    stated = {k for k in other if None not in (known[k], run[k])}
    shots = run.get("num_fewshot")
    refusals += [words[k] for k in ("task_version", "num_fewshot") if k in stated]
    if "fewshot_seed" in stated and shots:
        warnings.append(
            f"{words['fewshot_seed']}, so the few-shot examples differ from those of the "
            "calibration models"
        )
    if "system_instruction" in other:
        refusals.append(words["system_instruction"])
    if "chat_template" in other:
        now, then = ("with a", "without") if run["chat_template"] else ("without a", "with")
        warnings.append(
            f"the run is {now} chat template, the bank's were {then}; continue if each model was "
            "run as it should be, else set --apply_chat_template as the bank has it"
        )
    elif run.get("chat_template") and "chat_template_sha" in other:
        warnings.append(
            "the chat template differs from that of the calibration models, which is right if "
            "the model has its own"
        )
    elif "fewshot_as_multiturn" in other and shots:
        warnings.append(words["fewshot_as_multiturn"])
    generation = _compare_generation(recorded, run)
    return refusals + generation[0], warnings + generation[1]


def _compare_generation(
    recorded: Mapping[str, Any], run: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    then, now = recorded.get("generation_kwargs"), run.get("generation_kwargs")
    if not isinstance(then, Mapping) or not isinstance(now, Mapping):
        return [], []
    mixed = {str(d) for d in recorded.get("differing") or ()}
    if "generation_kwargs" in mixed:
        return [], []
    refusals, warnings = [], []
    varied = {key.removeprefix("generation_kwargs.") for key in mixed}
    if not varied & set(_SAMPLING) and _samples(then) != _samples(now):
        what = ("greedy", "sampled")
        refusals.append(
            f"its answers are {what[_samples(now)]} (temperature {_temperature(now)}), the bank's "
            f"were {what[_samples(then)]} (temperature {_temperature(then)}): set gen_kwargs alike"
        )
        varied |= set(_SAMPLING)
    for key in sorted((set(then) | set(now)) - varied):
        default = _GENERATION_DEFAULTS.get(key)
        a, b = then.get(key, default), now.get(key, default)
        if _same(a, b):
            continue
        words = f"generation setting {key} is {_show(b)}, the bank has {_show(a)}"
        if key in _CUTTING and a is not None and b is not None:
            refusals.append(words)
        else:
            warnings.append(f"{words}, the only value that the calibration saw")
    return refusals, warnings


def _samples(settings: Mapping[str, Any]) -> bool:
    """Whether answers are drawn: at a temperature above 0, or at the model's own."""
    try:
        return float(_temperature(settings)) > 0.0
    except (TypeError, ValueError):
        return bool(settings.get("do_sample"))


def _temperature(settings: Mapping[str, Any]) -> Any:
    given = settings.get("temperature")
    if given is None:
        return "of the model" if settings.get("do_sample") else 0.0
    return given


def _same(a: Any, b: Any) -> bool:
    """Whether two values mean the same: 1 and "1.0" do, and a list of one text and that text."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return value[0] if len(value) == 1 else list(value)
        return None if value == "" else value

    a, b = plain(a), plain(b)
    return bool(a == b) or str(a) == str(b)


def _show(value: Any, width: int = 60) -> str:
    return "none" if value is None else short(repr(value), width)


def compare_scorers(recorded: object, run: object, metric: str) -> tuple[list[str], list[str]]:
    """Refusals and warnings for a scorer that is another than the bank's.

    Parameters
    ----------
    recorded, run : mapping of metric to mapping, or None
        The setting ``scorer`` of the bank and of the run; None where nothing is known of it.
    metric : str
        The bank's metric; other metrics' scorers do not matter.

    Examples
    --------
    >>> compare_scorers({"comet": {"checkpoint": "a"}}, {"comet": {"checkpoint": "b"}}, "comet")
    (["the scorer's checkpoint is 'b', the bank has 'a'"], [])
    """
    then, now = (s.get(metric) if isinstance(s, Mapping) else None for s in (recorded, run))
    if then is None and now is None:
        return [], []
    if then is None or now is None:
        if set(then or now or {}) <= {"sacrebleu"}:  # older logs do not say, and it rarely changes
            return [], []
        known, other = ("run", "bank") if then is None else ("bank", "run")
        return [], [
            f"only the {known} records what scores {metric}, so it is not verified that the "
            f"{other} is scored alike"
        ]
    refusals: list[str] = []
    warnings: list[str] = []
    for key in dict.fromkeys([*then, *now]):
        a, b = then.get(key), now.get(key)
        if a == b:
            continue
        words = f"the scorer's {key} is {_show(b, 160)}, the bank has {_show(a, 160)}"
        soft = (key == "judges" and _models(a) == _models(b)) or (
            key == "sacrebleu" and _without_version(a) == _without_version(b)
        )
        (warnings if soft else refusals).append(words)
    return refusals, warnings


def _models(judges: Any) -> list[Any]:
    return [{k: v for k, v in judge.items() if k not in _OF_A_JUDGE} for judge in judges or ()]


def _without_version(signature: Any) -> list[str]:
    return [part for part in str(signature).split("|") if not part.startswith("version:")]
