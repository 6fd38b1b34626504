"""Checks whether a bank fits a task as it is about to be run.

A bank's parameters hold for its documents under its settings. Differences that would make another
benchmark are refused. Differences in how a model is run, which may exist between the calibration
models as well, only cause a warning.

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

For the scorer of the answers:

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

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import BankMismatchError, PromptMismatchError
from ..scores.numbering import OTHER_ORDER
from ..scores.prompts import PromptComparison, compare_prompts
from ..shown import short, some
from .bank import PUBLISHED_ELSEWHERE, DocumentComparison, ItemBank

#: Names of the largest number of tokens of an answer; the last one counts the prompt, too.
TOKEN_LIMITS = (
    "max_gen_toks", "max_tokens", "max_completion_tokens", "max_new_tokens", "max_length",
)  # fmt: skip
#: All settings that cut an answer off.
_CUTTING = ("until", *TOKEN_LIMITS)
#: The one name by which the limits of an answer alone are compared, by each name that the harness
#: takes.
_ONE_NAME = dict.fromkeys(TOKEN_LIMITS[:-1], TOKEN_LIMITS[0])
#: What the harness assumes if a task says nothing.
_DEFAULTS = {"temperature": 0.0, "do_sample": False}
#: How `sampling` names settings at which a second answer may differ from the first.
SAMPLED, GREEDY = "sampled", "greedy"
#: Settings that decide between the likeliest answer and a sampled one.
_SAMPLING = {"do_sample", "temperature"}
#: Settings of a judge that may differ between models that are still compared.
_OF_A_JUDGE = ("temperature", "max_tokens", "extra")


class Fit(NamedTuple):
    """How a run fits a bank.

    Attributes
    ----------
    refusals : list of str
        Differences for which the run is refused.
    warnings : list of str
        Differences that may be right, and what could not be compared.
    """

    refusals: list[str]
    warnings: list[str]


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
        The bank does not fit; the message names everything that differs, and the remedy.

    Examples
    --------
    >>> from lm_eval_ccat import ItemBank
    >>> bank = ItemBank.blank([0, 1], task="t", filter="a")
    >>> check_bank(bank, task="t", filters=["b"], settings={}, doc_ids=[0, 1],
    ...            doc_hashes=[None, None])
    Traceback (most recent call last):
        ...
    lm_eval_ccat.errors.BankMismatchError: the bank of t (score) does not fit task t as run:
    its filter is 'a', the task has 'b'. ...
    """
    refusals, warnings = _compare_documents(bank, task, doc_ids, doc_hashes)
    if bank.filter is None and len(filters) > 1:
        refusals.append(
            f"it names no filter and the task has several ({', '.join(filters)}); "
            "calibrate with --filter"
        )
    elif bank.filter not in (None, *filters):
        refusals.append(
            f"its filter is {bank.filter!r}, the task has {', '.join(map(repr, filters))}"
        )
    by_settings = compare_settings(bank.settings, settings)
    by_scorer = compare_scorers(bank.settings.get("scorer"), settings.get("scorer"), bank.metric)
    refusals += [*by_settings.refusals, *by_scorer.refusals]
    # A blank bank has no calibration settings to differ from: that it lacks them is no news.
    if bank.settings or bank.models:
        warnings += by_settings.warnings
    warnings += by_scorer.warnings
    if bank.provenance.get("prompts") == PUBLISHED_ELSEWHERE:
        warnings.append(
            f"the bank's models answered prompts {PUBLISHED_ELSEWHERE}, not this task's: every "
            "item is drawn at random, and the bank only lowers the errors"
        )
    if refusals:
        raise BankMismatchError(
            f"the bank of {bank.task or 'an unnamed task'} ({bank.metric}) does not fit task "
            f"{task} as run: {'; '.join(refusals)}. Run as the bank has it or calibrate "
            "anew: `accept_change` does not help"
        )
    return warnings


def _compare_documents(
    bank: ItemBank, task: str, doc_ids: Sequence[Any], doc_hashes: Sequence[str | None]
) -> Fit:
    """Compare the documents of a bank with those of a task."""
    if isinstance(bank.doc_ids[0], str):
        named = f"it names its documents by text ({bank.doc_ids[0]!r})"
        return Fit([f"{named}, the harness numbers them"], [])
    compared, n = bank.compare(doc_ids, doc_hashes), bank.n_items
    refusals, warnings = _other_documents(compared, n, len(doc_ids)), []
    # Of the same documents, a bank serves a task of another name.
    if not refusals and bank.task not in (None, task):
        if len(compared.same) == n:
            warnings.append(f"the bank is of task {bank.task}; its documents are the same")
        else:
            refusals.append(
                f"it is of task {bank.task} and has no document hashes to verify that the "
                "documents are the same"
            )
    elif not refusals and not compared.same:
        warnings.append(
            "the bank has no document hashes, so it is not verified that its documents are the "
            "task's"
        )
    if len(doc_ids) > n and not compared.missing:
        warnings.append(
            f"the bank knows {n} of the task's {len(doc_ids)} documents; the estimate "
            "is of the mean over those"
        )
    return Fit(refusals, warnings)


def _other_documents(compared: DocumentComparison, n: int, n_of_task: int) -> list[str]:
    """Say in what the documents of a task are not those of a bank.

    Parameters
    ----------
    compared : DocumentComparison
    n, n_of_task : int
        Documents of the bank, and of the task.
    """
    differences = []
    if compared.missing:
        differences.append(
            f"the task has {n_of_task} documents and lacks {len(compared.missing)} of the "
            f"bank's {n} (doc_id {some(compared.missing, 3)})"
        )
    if compared.renumbered:
        differences.append(
            f"the task has {OTHER_ORDER} than the bank (doc_hash of doc_id "
            f"{some(compared.changed, 3)}), as after a shuffle or from another revision of the data"
        )
    elif compared.changed:
        differences.append(
            f"{len(compared.changed)} of {n} documents differ from those calibrated "
            f"(doc_hash of doc_id {some(compared.changed, 3)})"
        )
    return differences


def check_prompts(
    bank: ItemBank, marks: Mapping[Any, str | None], accepted: bool = False
) -> PromptComparison:
    """Compare a bank's prompts with those of a run.

    Parameters
    ----------
    bank : ItemBank
    marks : mapping of doc_id to (str or None)
        Mark of each item's prompt in the run.
    accepted : bool, optional
        Whether the user accepts other prompts.

    Returns
    -------
    PromptComparison
        Its difference is accepted.

    Raises
    ------
    PromptMismatchError
        A prompt differs, and that is not accepted; the message names one document.

    Examples
    --------
    >>> bank = ItemBank.blank([3], task="t", prompts=["0a1b2c3d"])
    >>> check_prompts(bank, {3: "0a1b2c3d"})
    PromptComparison(difference='', doubt='')
    >>> check_prompts(bank, {3: "4e5f6a7b"})
    Traceback (most recent call last):
        ...
    lm_eval_ccat.errors.PromptMismatchError: the prompt of document 3 is 0a1b2c3d in the bank and
    4e5f6a7b in the run. Ask as the bank's models were asked, calibrate again, or accept other
    prompts: --accept_change prompts
    """
    # A blank bank knows nothing of its items.
    if not (bank.prompts or bank.models):
        return PromptComparison()
    compared = compare_prompts(bank.marks, marks)
    if compared.difference and not accepted:
        raise PromptMismatchError(
            compared.difference,
            "Ask as the bank's models were asked, calibrate again, or accept other prompts: "
            "--accept_change prompts",
        )
    return compared


def compare_settings(recorded: Mapping[str, Any], run: Mapping[str, Any]) -> Fit:
    """Compare the settings of a run with those that a bank records.

    Parameters
    ----------
    recorded, run : mapping
        As in `check_bank`; a setting is compared only if both name it.
    """
    if not recorded:
        warning = (
            "the bank records no evaluation settings (it was not calibrated on harness logs), so "
            "it is not verified that few-shot examples, chat template and generation settings agree"
        )
        return Fit([], [warning])
    # A bank does not record settings in which its calibration runs differ from one another.
    differing = {
        key for key, value in recorded.items() if key in run and not _same(value, run[key])
    }
    stated_by_both = {key for key in differing if None not in (recorded[key], run[key])}
    text_of = {
        key: f"{key} is {_show(run[key])}, the bank has {_show(recorded[key])}" for key in differing
    }
    refusals = [text_of[key] for key in ("task_version", "num_fewshot") if key in stated_by_both]
    # None is a setting here: a run without a system instruction is another one.
    if "system_instruction" in differing:
        refusals.append(text_of["system_instruction"])
    warnings: list[str] = []
    if "fewshot_seed" in stated_by_both and run.get("num_fewshot"):
        warnings.append(
            f"{text_of['fewshot_seed']}, so the few-shot examples differ from those of the "
            "calibration models"
        )
    if doubt := _other_template(run, differing):
        warnings.append(doubt)
    elif "fewshot_as_multiturn" in differing and run.get("num_fewshot"):
        warnings.append(text_of["fewshot_as_multiturn"])
    generation = _compare_generation(recorded, run)
    return Fit([*refusals, *generation.refusals], [*warnings, *generation.warnings])


def _other_template(run: Mapping[str, Any], differing: Collection[str]) -> str:
    """Say how a run's chat template differs from that of the bank's models; "" if it does not.

    A template belongs to its model, so that another one is no reason to refuse a run.
    """
    if "chat_template" in differing:
        run_has, bank_had, remedy = (
            ("with a", "without", "leave out") if run["chat_template"] else
            ("without a", "with", "set")
        )  # fmt: skip
        return (
            f"the run is {run_has} chat template, the bank's models were run {bank_had}; go on if "
            f"that is right for each model, else {remedy} `apply_chat_template`"
        )
    if run.get("chat_template") and "chat_template_sha" in differing:
        return (
            "the chat template differs from that of the calibration models, which is right if "
            "the model has its own"
        )
    return ""


class GenerationDifference(NamedTuple):
    """A generation setting in which a run differs from what is recorded; None if not stated."""

    name: str
    recorded: Any
    run: Any

    @property
    def cuts(self) -> bool:
        """Whether both values cut answers off, each in its own place."""
        return self.name in _CUTTING and None not in (self.recorded, self.run)

    def in_words(self, names: tuple[str, str]) -> str:
        """Return both values, with the names of whose they are."""
        values = zip((self.recorded, self.run), names)
        texts = " and ".join(f"{_show(value)} in {name}" for value, name in values)
        return f"generation setting {self.name} is {texts}"


def differing_generation(
    recorded: Mapping[str, Any], run: Mapping[str, Any], varied: Collection[str] = ()
) -> Iterator[GenerationDifference]:
    """Yield the generation settings that differ, but for those in `varied`, in the order of names.

    A setting that one side does not state has the harness's default, if that is known, or None.

    Examples
    --------
    >>> [difference] = differing_generation({"max_gen_toks": 256}, {"max_tokens": 512})
    >>> difference.cuts, difference.in_words(("the bank", "the run"))
    (True, 'generation setting max_gen_toks is 256 in the bank and 512 in the run')
    """
    recorded_by_name, run_by_name = (
        {_ONE_NAME.get(name, name): value for name, value in settings.items()}
        for settings in (recorded, run)
    )
    for name in sorted({*recorded_by_name, *run_by_name} - {*varied}):
        values = (
            settings.get(name, _DEFAULTS.get(name)) for settings in (recorded_by_name, run_by_name)
        )
        difference = GenerationDifference(name, *values)
        if not _same(difference.recorded, difference.run):
            yield difference


def _compare_generation(recorded: Mapping[str, Any], run: Mapping[str, Any]) -> Fit:
    """Compare how answers are generated: sampled or greedily, and where they are cut off."""
    of_bank, of_run = recorded.get("generation_kwargs"), run.get("generation_kwargs")
    # Settings in which the calibration runs differ from one another.
    varied = {
        str(name).removeprefix("generation_kwargs.") for name in recorded.get("differing") or ()
    }
    refusals: list[str] = []
    warnings: list[str] = []
    # Compare only what both sides state and what is the same in all calibration runs.
    if (
        not (isinstance(of_bank, Mapping) and isinstance(of_run, Mapping))
        or "generation_kwargs" in varied
    ):
        return Fit(refusals, warnings)
    bank_sampling, run_sampling = sampling(of_bank), sampling(of_run)
    if bank_sampling.how != run_sampling.how and not varied & _SAMPLING:
        refusals.append(
            f"its answers are {run_sampling.how} (temperature {run_sampling.temperature}), the "
            f"bank's were {bank_sampling.how} (temperature {bank_sampling.temperature}): set "
            "gen_kwargs alike"
        )
        varied |= _SAMPLING
    for difference in differing_generation(of_bank, of_run, varied):
        # An answer that is cut off elsewhere is another answer. Other settings change it only a
        # little.
        words = difference.in_words(("the bank", "the run"))
        if difference.cuts:
            refusals.append(words)
        else:
            warnings.append(f"{words}, the only value that the calibration saw")
    return Fit(refusals, warnings)


class Sampling(NamedTuple):
    """How answers are drawn: "sampled", "greedy", or "" if unknown; and at which temperature.

    The temperature may be in words, as it may be that of the model.
    """

    how: str
    temperature: Any

    @property
    def is_sampled(self) -> bool:
        """Whether answers are draws."""
        return self.how == SAMPLED


def sampling(settings: Mapping[str, Any]) -> Sampling:
    """Return how answers are drawn by generation settings.

    With local weights the harness does as they say, and ``do_sample: false`` means temperature 0.
    To a server it sends the temperature alone.

    Examples
    --------
    >>> sampling({"do_sample": True})
    Sampling(how='sampled', temperature='of the model')
    >>> sampling({"temperature": 0.6}).is_sampled, sampling({}).is_sampled
    (True, False)
    """
    drawn, temperature = settings.get("do_sample"), settings.get("temperature")
    if temperature is None:
        temperature = "of the model" if drawn else 0.0
    if drawn is not False:
        # "of the model" leaves the answer to `do_sample`.
        try:
            drawn = float(temperature) > 0.0
        except (TypeError, ValueError):
            pass
    return Sampling(SAMPLED if drawn else GREEDY, temperature)


def _same(a: Any, b: Any) -> bool:
    """Return whether two values of a setting mean the same.

    Equal in this sense are 1 and "1.0", ["a"] and "a", None and "". Two texts have to be the same.
    """

    def plain(value: Any) -> Any:
        """Return a value in the form in which it is compared."""
        if isinstance(value, (list, tuple)):
            return value[0] if len(value) == 1 else list(value)
        return None if value == "" else value

    a, b = plain(a), plain(b)
    if bool(a == b) or str(a) == str(b):
        return True
    # A file states a number, a flag the text of one.
    try:
        return isinstance(a, str) != isinstance(b, str) and float(a) == float(b)
    except (TypeError, ValueError):
        return False


def _show(value: Any, width: int = 60) -> str:
    """Write the value of a setting, cut to a width."""
    return "none" if value is None else short(repr(value), width)


def compare_scorers(recorded: object, run: object, metric: str) -> Fit:
    """Return how a run's scorer of `metric` differs from the bank's, as refusals and warnings.

    The second table of this module says which differences are refused.

    Parameters
    ----------
    recorded, run : mapping of metric to mapping, or None
        The setting ``scorer`` of the bank and of the run; None if unknown.
    metric : str
        The bank's metric; scorers of other metrics do not matter.

    Examples
    --------
    >>> compare_scorers({"comet": {"checkpoint": "a"}}, {"comet": {"checkpoint": "b"}}, "comet")
    Fit(refusals=["the scorer's checkpoint is 'b', the bank has 'a'"], warnings=[])
    """
    refusals: list[str] = []
    warnings: list[str] = []
    of_bank, of_run = (
        settings.get(metric) if isinstance(settings, Mapping) else None
        for settings in (recorded, run)
    )
    if of_bank is None or of_run is None:
        # Older logs do not record sacrebleu's settings, which rarely change.
        if not set(of_bank or of_run or {}) <= {"sacrebleu"}:
            known, silent = ("run", "bank") if of_bank is None else ("bank", "run")
            warnings.append(
                f"only the {known} records what scores {metric}, so it is not verified that the "
                f"{silent} is scored alike"
            )
        return Fit(refusals, warnings)
    for key in dict.fromkeys([*of_bank, *of_run]):
        bank_value, run_value = of_bank.get(key), of_run.get(key)
        if bank_value == run_value:
            continue
        text = (
            f"the scorer's {key} is {_show(run_value, 160)}, the bank has {_show(bank_value, 160)}"
        )
        # Another version of sacrebleu, or other settings of a judge, hardly change scores.
        if key in ("judges", "sacrebleu") and _essence(bank_value) == _essence(run_value):
            warnings.append(text)
        else:
            refusals.append(text)
    return Fit(refusals, warnings)


def _essence(value: Any) -> list[Any]:
    """Return judges without settings that may differ (a list), or a signature without version.

    A text is sacrebleu's signature, of which each part is one of the list.
    """
    if isinstance(value, str):
        return [part for part in value.split("|") if not part.startswith("version:")]
    return [
        {key: value for key, value in judge.items() if key not in _OF_A_JUDGE}
        for judge in value or ()
    ]
