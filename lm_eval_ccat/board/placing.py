"""Place models among those of a board, by some of the documents."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..bank import ItemBank, SuiteBank
from ..errors import OtherSettingsError, PromptMismatchError, RunError, UsageError
from ..files import safe_name
from ..harness import internals
from ..journal import JOURNAL, read_journal
from ..live.scored import has_sampled_answers
from ..options import Values
from ..plugins import existing
from ..records import Asks, Header, Item, Record, Tell
from ..runs.differences import PROMPTS
from ..runs.directory import RunDirectory, banks_at
from ..runs.tally import Tally
from ..scores import ScoreTable
from ..scores.configuration import configuration_of, model_name_of
from ..scores.prompts import compare_prompts
from ..scores.reading import YAML
from ..shown import one_line_per_kind, plural
from .admission import OTHER_PROMPTS, Added, InLedger, leave_out_by_documents, notes_of, tables_of
from .checking import bank_hashes_of, rows_of_journal
from .folder import (
    CONFIDENCE,
    JOURNALS,
    OTHER_WEIGHTS,
    RULES,
    RUNS,
    SUITE_FOLDER,
    Board,
    Reserve,
    keep_hashes,
    standing,
    without_reserve,
)  # fmt: skip
from .ledger import BoardRow, sha256_of
from .scoring import other_scoring

if TYPE_CHECKING:
    from ..live.spec import Spec

#: Settings of the harness that are part of every model's configuration: they change its answers.
_HARNESS_SETTINGS = (
    "num_fewshot", "gen_kwargs", "apply_chat_template", "fewshot_as_multiturn",
    "system_instruction",
)  # fmt: skip
#: Share of empty answers and refusals above which a model gets no row, without `fail_on_empty`.
_MAX_EMPTY = 0.9
#: What to do with a model of which so many answers are empty.
_PLACE_AGAIN = (
    "and no row can be withdrawn: correct its entry (chat template, token limit, stop sequences) "
    "and place it again; a configuration with `fail_on_empty: 1` places it as it is"
)
#: What to do with a run that accepted other prompts than its bank's.
_WITHOUT_ACCEPTING = f"`rank` it without `accept_change: {PROMPTS}`, which widens the bank's prior"


def place(
    board: Board | str | Path,
    source: Mapping[str, Any] | str | Path,
    *,
    name: str | None = None,
    observer: Any = None,
) -> Added:
    """Place models among those of a board.

    A model of which over 90% of the answers are empty or refusals gets no row, which could not be
    withdrawn; `fail_on_empty` of the configuration sets another share, and 1 accepts all.

    Parameters
    ----------
    board : Board or path
    source : mapping or path
        One of three: a configuration as for `rank`, whose models are asked (the board sets tasks,
        banks, confidence, ``max_items`` and ``exposure``; ``task:`` may name the YAML files of its
        tasks; an interrupted run is continued); the directory of a run that `rank` or `run` made
        with the board's banks; or logs of models that were run on some of the documents.
    name : str, optional
        The model's name on the board, if the source holds one model.
    observer : Observer, optional
        Follows the progress of a live run.

    Returns
    -------
    Added

    Raises
    ------
    UsageError
        If the run is of none of the board's tasks, `name` is given for several models, a
        configuration accepts other prompts than the board's, or a model of it stands on the board
        (asked again and again, the luckiest row would stay).
    CcatError
        If the run cannot be read, or a model cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import calibrate
    >>> from lm_eval_ccat.board import init
    >>> scores = np.random.default_rng(0).random((8, 40))
    >>> table = ScoreTable.from_arrays(scores, models=list("abcdefgh"))
    >>> some = ScoreTable.from_arrays(scores[:1, :10], models=["new"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrate(table, "paper").save(Path(folder, "bank.json"))
    ...     some.write(Path(folder, "some.csv"))
    ...     board = init(Path(folder, "board"), Path(folder, "bank.json"))
    ...     [row] = place(board, Path(folder, "some.csv")).rows
    >>> row.model, row.kind, row.documents
    ('new', 'estimate', 40)
    """
    board = board if isinstance(board, Board) else Board(board)
    _require_weights(board)
    if isinstance(source, Mapping) or Path(source).suffix in YAML:
        return _ask(board, source, name, observer)
    existing(source, "configuration, run directory or logs")
    add_from = _add_run if Path(source, JOURNAL).is_file() else _add_logs
    return add_from(board, Path(source), name)


def _require_weights(board: Board) -> None:
    """Refuse to place models beside rows none of which has the weights that the board has now."""
    state = standing(board)
    rows = [row for row, reason in state.apart if reason == OTHER_WEIGHTS]
    if rows and not state.placed:
        of_rows, of_board = (
            ", ".join(f"{task} {share:.3g}" for task, share in shares.items())
            for shares in (rows[0].shares, board.shares)
        )
        raise UsageError(
            f"{board.path / RULES} has `weights: {board.rules.weights}` ({of_board}), and all of "
            f"its {plural(len(rows), 'row')} have other weights ({of_rows}), so that none would be "
            "comparable: write the weights that they have, or add their full results again "
            f"(`lm-eval-ccat board add {board.path} LOGS`), which gives them rows of these"
        )


def _ask(
    board: Board, config: Mapping[str, Any] | str | Path, name: str | None, observer: Any
) -> Added:
    """Ask the models in a run directory of the board and add the results.

    The file ``newcomers.yaml`` has the run directory ``runs/newcomers``, a mapping ``runs/run``. A
    run that an earlier call left there is resumed. The directory is removed once a row stands, or
    if no model answered anything. `name` is the model's on the board, if there is one model.
    """
    from ..live.result import Observer
    from ..live.spec import Spec

    spec = Spec.read(config)
    stem = "run" if isinstance(config, Mapping) else safe_name(Path(config).stem)
    run_dir = board.path / RUNS / stem
    # A kill came after the rows of an earlier call and before the end of its run directory.
    if (run_dir / JOURNAL).is_file() and _has_rows(board, run_dir):
        shutil.rmtree(run_dir)
    _require_newcomers(board, spec, name)
    max_share = _MAX_EMPTY if spec.fail_on_empty is None else spec.fail_on_empty
    resume = (run_dir / JOURNAL).is_file()
    # If too many answers of every model were empty or refusals, the run is begun anew: the user has
    # corrected the entries since, maybe by something that no setting shows (a server's template).
    if resume and {model.name for model in spec.models} <= _mostly_empty(run_dir, max_share).keys():
        _put_aside(run_dir)
        resume = False
    options = _options_of_board(board, spec, run_dir if resume else None)
    for text in _overruled(board, spec, options):
        (observer or Observer()).warn(text)
    # The known models' scores lie beside the run directory: `rank` takes a directory only if it is
    # new, or as an earlier `rank` left it.
    known_file = run_dir.with_name(f"{stem}.known.parquet")
    if _write_known(board, known_file):
        options["known"] = str(known_file)
    _rank(spec, run_dir, resume, observer, options)
    added = _add_run(board, run_dir, name, max_share)
    # The board's copy of the journal is evidence enough. Without a row there is none: answers that
    # were paid for stay here, and the same command goes on from them.
    if added.rows or not _tally_of(run_dir).answered:
        shutil.rmtree(run_dir)
    known_file.unlink(missing_ok=True)
    return added


def _has_rows(board: Board, run_dir: Path) -> bool:
    """Whether rows of the board name this run's journal, as it is, as their evidence."""
    evidence = _RunToAdd(run_dir, None).evidence
    return any(evidence in row.evidence for row in board.ledger.rows())


def _rank(
    spec: Spec, run_dir: Path, resume: bool, observer: Any, options: Mapping[str, Any]
) -> None:
    """Rank the models in a run directory of the board, and refuse in the words of a board.

    Raises
    ------
    UsageError
        The prompts of the run are not those of the board.
    RunError
        The run to resume has other settings, or was interrupted.
    """
    from ..live.ranking_run import rank

    try:
        # A model that was set aside gets another chance: without it, there may be no row at all.
        result = rank(
            spec, run_dir=run_dir, resume=resume, retry=resume, observer=observer, **options
        )
    except PromptMismatchError as error:
        raise UsageError(f"{error.difference}; {OTHER_PROMPTS}") from None
    except OtherSettingsError as error:
        raise RunError(
            f"{error.args[0]}. Use those, or give this configuration a file of another name and "
            f"`prior: {run_dir.resolve()}`: a new run that takes over the answers which still hold"
        ) from None
    if result.interrupted:
        raise RunError(
            f"interrupted; answers are kept in {run_dir}: run the same command to continue"
        )


def _require_newcomers(board: Board, spec: Spec, name: str | None) -> None:
    """Refuse a configuration that accepts other prompts, or names a model that the board has."""
    if PROMPTS in spec.accept_change:
        raise UsageError(
            f"rows of a board answer the same prompts; leave out `accept_change: {PROMPTS}`"
        )
    # Those of the models before, which no later one may repeat.
    configurations: dict[str, Values] = {}
    for model in spec.models:
        name_on_board = name if name and len(spec.models) == 1 else model.name
        configuration = _configuration_of(spec.public(), model.name)
        if reason := _why_not_placed(board, name_on_board, configuration, configurations):
            raise UsageError(reason)
        if configuration is not None:
            configurations[name_on_board] = configuration


def _options_of_board(board: Board, spec: Spec, resumed: Path | None) -> dict[str, Any]:
    """Return what the board sets of a run, whatever its configuration says.

    A run that is `resumed` keeps its seed and the items that it held back.
    """
    reserve, seed = board.current_reserve(board.ledger.rows()), randbits(32)
    if resumed is not None:
        header = RunDirectory(resumed).read_header()
        seed, reserve = header.ranker["seed"], _reserve_of(board, bank_hashes_of(header), reserve)
    banks = {task: without_reserve(bank, task, reserve) for task, bank in board.banks.items()}
    options: dict[str, Any] = {
        "tasks": _as_stated(list(banks), spec.tasks),
        "confidence": CONFIDENCE,
        "bank": banks if len(banks) > 1 else next(iter(banks.values())),
        "max_items": board.rules.max_items,
        # Items at random can be guessed by nobody, so that none need be spared.
        "exposure": 1 if board.draws_at_random else board.rules.exposure,
        "seed": seed,
        # A board compares intervals, which need more items than the pairs of one run, and no model
        # is placed twice to get them.
        "stop": "limits" if spec.stop == "decided" else spec.stop,
    }
    if len(banks) > 1:
        options["weights"] = board.rules.weights
    return options


def _overruled(board: Board, spec: Spec, options: Values) -> list[str]:
    """Say what a configuration states and the board sets otherwise.

    Parameters
    ----------
    board : Board
    spec : Spec
        The configuration.
    options : mapping
        What the board sets, as `_options_of_board` returns it.
    """
    suite = board.path / SUITE_FOLDER
    is_ours = isinstance(spec.bank, str | Path) and Path(spec.bank).resolve() == suite.resolve()
    tasks = [task for task in spec.tasks if not task.endswith(YAML)]
    # Values as the messages show them; the bank that runs use is an object, here it is its folder.
    of_board = {
        "max_items": options["max_items"], "confidence": options["confidence"],
        "exposure": options["exposure"], "task": ", ".join(board.banks), "bank": suite,
        "weights": board.rules.weights, "known": "its full results", "seed": "a random one",
    }  # fmt: skip
    stated = {
        **{key: getattr(spec, key, "") for key in of_board},
        "task": "" if set(tasks) <= set(board.banks) else ", ".join(tasks),
        "bank": suite if is_ours else spec.bank,
    }
    # Only what the configuration states is worth a word; defaults were not asked for.
    defaults = type(spec)()
    return [
        f"the board sets {key}: {value}, not {stated[key]}"
        for key, value in of_board.items()
        if stated[key] not in (getattr(defaults, key, ""), value, "")
    ]


def _why_not_placed(
    board: Board, model: str, configuration: Values | None, newcomers: Mapping[str, Values]
) -> str:
    """Return why a model is not placed; "" if it is.

    A comparable row of it stands already, under whatever name: the same configuration asked again
    may only be luckier.

    Parameters
    ----------
    board : Board
    model : str
        The model's name on the board.
    configuration : mapping or None
        The model's type, arguments and settings; None if they are not known.
    newcomers : mapping of str to mapping
        The configurations that were looked at before, of models that come together, by name.
    """
    for peer, peer_configuration in newcomers.items():
        if configuration == peer_configuration:
            return (
                f"{peer} and {model} are one configuration, of which the luckier row would lead: "
                "place one of them"
            )
    for row in (placed.row for placed in standing(board).placed):
        same_name = row.model == model
        if same_name or (
            configuration is not None and configuration == _configuration_of_row(board, row)
        ):
            known_as = "" if same_name else f", as {row.model} in the same configuration,"
            return (
                f"{model} stands on the board since {row.date}{known_as} and is not placed again; "
                "only another configuration of it takes a name of its own (`name:`, or --name), "
                "and other weights behind another URL another `model=`"
            )
    return ""


def _configuration_of_row(board: Board, row: BoardRow) -> Values | None:
    """Return the configuration by which a row's answers were asked; None if it is not known."""
    # Only a run's journal states how its models were asked.
    for evidence in row.evidence if row.estimated else ():
        with suppress(RunError):  # `check` reports what is lost
            journal, _ = read_journal(board.path / evidence)
            return _configuration_of(journal.header.config, row.in_journal or row.model)
    return None


def _configuration_of(config: Mapping[str, Any], model: str) -> Values | None:
    """Return type, arguments and settings of a model in the file for `rank`; None without them.

    Two models for which these are the same are one configuration.
    """
    for entry in config.get("models") or ():
        if entry["name"] == model:
            model_type, arguments, harness = entry["model"], entry["model_args"], config["harness"]
            return {
                **configuration_of(model_name_of(model_type, arguments), arguments, {}),
                "type": model_type,
                **{key: harness.get(key) or None for key in _HARNESS_SETTINGS},
            }
    return None


def _as_stated(tasks: Sequence[str], entries: Sequence[str]) -> list[str]:
    """Return a board's tasks, each as the YAML file that a configuration names for it, if any."""
    files = [Path(file) for file in entries if file.endswith(YAML)]
    paths = {
        task: str(file)
        for task in tasks
        for file in files
        if file.is_file() and internals.defines_task(file, task)
    }
    for file in files:
        if str(file) not in paths.values():
            raise UsageError(f"`task:` {file} defines no task of the board ({', '.join(tasks)})")
    return [paths.get(task, task) for task in tasks]


def _write_known(board: Board, target: Path) -> bool:
    """Write the full results to place newcomers among as one table; False if there are none.

    They are read from the files that prove the rows, each of which holds the scores on one task of
    the models that were added together.
    """
    import pyarrow as pa
    from pyarrow import parquet

    # Estimates would pass their errors on to the newcomers.
    full = [placed.row for placed in standing(board).placed if not placed.row.estimated]
    if not full:
        return False
    tables = []
    for file in sorted({file for row in full for file in row.evidence}):
        # Other models of the file stand apart, or by a row of later results.
        models = [row.model for row in full if file in row.evidence]
        tables.append(parquet.read_table(board.path / file, filters=[("model", "in", models)]))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Files may differ in their columns; a column that a file lacks is filled with nulls.
    parquet.write_table(pa.concat_tables(tables, promote_options="default"), target)
    return True


class _MostlyEmpty(str):
    """The reason of a model that can be placed all the same, if its user accepts such answers."""


def _mostly_empty(run_dir: Path, max_share: float) -> dict[str, _MostlyEmpty]:
    """Say of which models of a run more answers than this share are empty or refusals.

    A wrong chat template or token limit makes such answers, and a row cannot be withdrawn. A
    refusal is here an answer that begins like one (`Tally.refusals`).
    """
    tally = _tally_of(run_dir)
    counts = {model: tally.empty_outputs[model] + tally.refusals[model] for model in tally.answered}
    return {
        model: _MostlyEmpty(f"{n} of {tally.answered[model]} answers are empty or refusals")
        for model, n in counts.items()
        if n > max_share * tally.answered[model]
    }


def _tally_of(run_dir: Path) -> Tally:
    """Return the counts of a run's answers."""
    tally = Tally()
    _, records = read_journal(run_dir / JOURNAL)
    for record in records:
        if isinstance(record, Tell):
            tally.count_answer(record)
    return tally


def _put_aside(run_dir: Path) -> None:
    """Give a run directory of the board the next free name, so that its answers are kept."""
    # Nothing is overwritten: answers were paid for.
    number = 1
    while (aside := run_dir.with_name(f"{run_dir.name}.{number}")).exists():
        number += 1
    run_dir.rename(aside)


def _add_run(board: Board, run_dir: Path, name: str | None, max_share: float = _MAX_EMPTY) -> Added:
    """Copy a run's journal into the board's folder, and add a row for each of its models.

    Parameters
    ----------
    board : Board
    run_dir : Path
    name : str or None
        The name on the board, if the run has one model.
    max_share : float, optional
        A model of which a larger share of the answers are empty or refusals is left out.

    Returns
    -------
    Added
        The rows, and the models that get none, each with the reason.
    """
    run = _RunToAdd(run_dir, name)
    bank_hashes = bank_hashes_of(run.header)
    if not set(bank_hashes) & set(board.banks):
        raise UsageError(
            f"{run_dir} is a run of {', '.join(bank_hashes)}; "
            f"the board is of {', '.join(board.banks)}"
        )
    with board.locked():
        # The run's banks may be the board's without the items held back: their hashes are others.
        reserve = _reserve_of(board, bank_hashes, board.current_reserve(board.ledger.rows()))
        if reserve is not None:
            bank_hashes = {task: board.banks[task].sha256 for task in bank_hashes}
        _keep_other_banks(board, run_dir, bank_hashes)
        rows, left_out = rows_of_journal(board, run.journal, bank_hashes, reserve)
        # A name for several models would make them one.
        if name is not None and len(rows) != 1:
            raise UsageError(f"--name is for one model; here are {', '.join(rows) or 'none'}")
        reason_for_all, notes = _judge_prompts(board, run.header)
        mostly_empty = _mostly_empty(run_dir, max_share)
        # Prompts are those of the run, so that all its models are refused for them.
        reasons = dict.fromkeys(rows, reason_for_all)
        if not reason_for_all:
            reasons = _why_not_added(board, run, list(rows), mostly_empty)
        new_rows = [run.with_evidence(row) for model, row in rows.items() if not reasons[model]]
        # The user can place a model with many empty answers all the same, so the reason says where
        # its answers are: with the board if another model of the run has a row, else in the run.
        kept_in = board.path / run.evidence if new_rows else run_dir
        for model, reason in reasons.items():
            if isinstance(reason, _MostlyEmpty):
                reason += f" (kept in {kept_in}), {_PLACE_AGAIN}"
            if reason:
                left_out[run.name_on_board(model)] = reason
        if new_rows:
            (board.path / JOURNALS).mkdir(exist_ok=True)
            _delete_earlier_copies(board, run.journal)
            shutil.copyfile(run.journal, board.path / run.evidence)
            board.ledger.append(new_rows)
    return Added(new_rows, left_out, notes)


def _delete_earlier_copies(board: Board, journal: Path) -> None:
    """Delete copies that a kill left before their rows: no row names them, and the run goes on."""
    content, named = journal.read_bytes(), {f for row in board.ledger.rows() for f in row.evidence}
    for file in board.evidence_files:
        is_unnamed_journal = file.startswith(JOURNALS) and file not in named
        if is_unnamed_journal and content.startswith((board.path / file).read_bytes()):
            (board.path / file).unlink()


class _RunToAdd:
    """A run whose models get rows on a board.

    Attributes
    ----------
    journal : Path
    header : Header
    sha256 : str
        Of the journal.
    evidence : str
        The file of the board's folder that the journal is copied to.
    """

    def __init__(self, run_dir: Path, name: str | None) -> None:
        self._name, self.journal = name, run_dir / JOURNAL
        self.header = RunDirectory(run_dir).read_header()
        self.sha256 = sha256_of(self.journal)
        self.evidence = f"{JOURNALS}/{self.sha256[:16]}.jsonl"

    def name_on_board(self, model: str) -> str:
        """Return what the board calls a model of the journal."""
        return self._name or model

    def proves(self, row: BoardRow, model: str) -> bool:
        """Whether a row of the board is that of this model of the journal."""
        return self.evidence in row.evidence and model == (row.in_journal or row.model)

    def with_evidence(self, row: BoardRow) -> BoardRow:
        """Return a row of today under its name on the board, with the journal that proves it."""
        name = self.name_on_board(row.model)
        in_journal = "" if name == row.model else row.model
        tasks = {
            task: replace(task_score, evidence=self.evidence, sha256=self.sha256)
            for task, task_score in row.tasks.items()
        }
        today = date.today().isoformat()
        return replace(row, model=name, in_journal=in_journal, tasks=tasks, date=today)


def _why_not_added(
    board: Board, run: _RunToAdd, models: Sequence[str], mostly_empty: Mapping[str, _MostlyEmpty]
) -> dict[str, str]:
    """Return why models of a run get no row; "" for each that gets one.

    Parameters
    ----------
    board : Board
    run : _RunToAdd
    models : sequence of str
        As the journal names them.
    mostly_empty : mapping of str to _MostlyEmpty
        Models of which too many answers are empty, each with the reason.
    """
    rows = board.ledger.rows()
    configurations: dict[str, Values] = {}
    reasons: dict[str, str] = {}
    for model in models:
        # The same journal may be placed again after another of its models was left out.
        if any(run.proves(row, model) for row in rows):
            reasons[model] = InLedger("this run of it stands")
        elif model in mostly_empty:
            reasons[model] = mostly_empty[model]
        else:
            name = run.name_on_board(model)
            configuration = _configuration_of(run.header.config, model)
            reasons[model] = _why_not_placed(board, name, configuration, configurations)
            # Whether this model gets a row or not, a later model of the run that has the same
            # configuration under another name gets none.
            if configuration is not None:
                configurations[name] = configuration
    return reasons


def _keep_other_banks(board: Board, run: Path, bank_hashes: Mapping[str, str]) -> None:
    """Save those of a run's banks that are not the board's.

    Rows made with other banks are shown apart, but can be verified.
    """
    ours = {bank.sha256 for bank in board.banks.values()}
    if ours.issuperset(bank_hashes.values()):
        return
    for entry in SuiteBank.load(banks_at(run)).banks():
        if entry.bank.sha256 not in ours:
            file = board.old_bank(entry.bank.sha256)
            entry.bank.save(file)
            keep_hashes(board.path, [file])


def _judge_prompts(board: Board, header: Header) -> tuple[str, list[str]]:
    """Compare a run's prompts with the board's, whose rows all answer the same ones.

    Returns
    -------
    reason : str
        Why the run gets no row; "" if it may get one.
    doubts : list of str
        What is not known of the prompts.
    """
    # The models of logs were compared one by one, before a run was made of them (`_header_of`).
    if "logs" in header.config:
        return "", []
    tasks = sorted(bank_hashes_of(header).keys() & board.banks.keys())
    doubts: dict[str, list[str]] = {task: [] for task in tasks}
    for task in tasks:
        # The header has a mark (short hash) of each document's prompt, by doc_id, from 0.
        marks = dict(enumerate(header.task.get("prompts", {}).get(task, ())))
        names = "the bank", "the run"
        compared = compare_prompts(board.banks[task].marks, marks, names)
        if compared.difference:
            return f"{task}: {compared.difference}; {OTHER_PROMPTS}", []
        # A run that accepted it has widened its prior, which the board's other rows have not.
        if (doubt := compared.doubt) and PROMPTS in header.report.get("accepted", ()):
            return f"{task}: {doubt}, and the run accepted that: {_WITHOUT_ACCEPTING}", []
        doubts[task] += [doubt] if doubt else []
    return "", one_line_per_kind(doubts)


def _reserve_of(
    board: Board, bank_hashes: Mapping[str, str], current: Reserve | None
) -> Reserve | None:
    """Return the part of the board's items that a run held back.

    That is None if it held back nothing, or its banks are not made of the board's. A run states no
    part: it is the one without which the board's banks have the hashes of the run's.

    Parameters
    ----------
    board : Board
    bank_hashes : mapping of task to str
        Of the run's banks.
    current : Reserve or None
        The part that is held back now.
    """
    parts = board.rules.reserve
    # Most runs held back the current part, which is tried first, as a hash takes time.
    for reserve in [current, *(Reserve(part, parts) for part in range(parts))]:
        if reserve is not None and all(
            task in board.banks
            and without_reserve(board.banks[task], task, reserve).sha256 == sha256
            for task, sha256 in bank_hashes.items()
        ):
            return reserve
    return None


def _add_logs(board: Board, source: Path, name: str | None) -> Added:
    """Turn logs of other runs into a run of the board, and add its models."""
    # Without a bank, only draws that the board made itself are known to be random.
    if board.draws_at_random:
        raise UsageError(
            "the board's banks know nothing about the items, so answers to chosen items say "
            "nothing about the others; ask the models live: `board place DIR MODELS.yaml`"
        )
    tables = tables_of(board, source, partial=True)
    if set(tables) != set(board.banks):
        # An estimate of some tasks would stand apart from every row.
        lacking = next(task for task in board.banks if task not in tables)
        raise UsageError(f"{source}: no results on {lacking}")
    refused = _left_out_of_logs(board, source, tables)
    models = [
        model for model in next(iter(tables.values())).models if model not in refused.left_out
    ]
    # No run is made of no models.
    if not models:
        return refused
    with TemporaryDirectory() as folder:
        run = RunDirectory(folder)
        run.start(_header_of(board, source, tables, models))
        for task, table in tables.items():
            for model in models:
                run.journal.append(_records(board.banks[task], task, model, table))
        run.journal.close()
        added = _add_run(board, run.path, name)
    left_out = {**refused.left_out, **added.left_out}
    return replace(added, left_out=left_out, notes=[*refused.notes, *added.notes])


def _left_out_of_logs(board: Board, source: Path, tables: Mapping[str, ScoreTable]) -> Added:
    """Return the models of logs that get no row, each with the reason, and what is doubtful.

    They come as what is `Added` of these logs so far, without rows.
    """
    compared = other_scoring(board, source, tables)
    refused = Added(left_out=compared.refused, notes=[*notes_of(tables), *compared.notes])
    models = dict.fromkeys(model for table in tables.values() for model in table.models)
    for task, table in tables.items():
        for model in models:
            if model not in table.models:
                refused.left_out[model] = f"no results on {task}"
    leave_out_by_documents(board, source, tables, refused, in_full=False)
    return refused


def _header_of(
    board: Board, source: Path, tables: Mapping[str, ScoreTable], models: Sequence[str]
) -> Header:
    """Return the header of a run that has asked models what logs hold of them."""
    drawn = any(has_sampled_answers(table, model) for table in tables.values() for model in models)
    outcomes = {task: {bank.metric: {"weight": 1.0}} for task, bank in board.banks.items()}
    weights = {task: {board.banks[task].metric: share} for task, share in board.shares.items()}
    return Header(
        bank_sha256="+".join(bank.sha256 for bank in board.banks.values()),
        task={
            "name": "+".join(board.banks),
            "settings": {task: dict(table.settings) for task, table in tables.items()},
        },
        versions={"lm_eval_ccat": __version__, "lm_eval": None},
        report={"outcomes": outcomes},
        config={
            "logs": source.name,
            "configurations": {task: table.configurations for task, table in tables.items()},
        },
        ranker={
            "models": dict.fromkeys(models, 1.0),
            "stop": "limits",
            "warmup": 0,
            "weights": weights,
            "options": {},
            **({"sampled": True} if drawn else {}),
        },
    )


def _records(bank: ItemBank, task: str, model: str, table: ScoreTable) -> list[Record]:
    """Return what a journal says of a model's scores on the items that the bank keeps."""
    [scores] = table.select([model]).model_scores()
    scores_of_items = [
        (Item((task, doc_id)), float(score))
        for doc_id, score in zip(table.doc_ids, scores)
        if np.isfinite(score) and doc_id in bank.index and bank.kept[bank.index[doc_id]]
    ]
    n = len(scores_of_items)
    pairs = [(model, item) for item, _ in scores_of_items]
    # Logs say neither with which probability an item was drawn, nor after which answers.
    asks = Asks(pairs=pairs, draws=[None] * n, after=[0] * n)
    tells = [
        Tell(model=model, item=item, score={bank.metric: score}, cost=1.0)
        for item, score in scores_of_items
    ]
    return [asks, *tells]
