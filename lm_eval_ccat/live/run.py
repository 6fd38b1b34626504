"""`Run`: one run, from its options to its `Result`.

A run is *resumed* if its directory holds a journal of it: then it may go on with options that have
changed. A model is *set aside* (asked nothing more) when its server fails: for good, or while the
server is *away*, which may come back by itself. Resuming *takes up* models that were away, so that
the ranking asks them again; those that were set aside for good stay so unless there is a
reason to try them (`Run._to_restore`).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import monotonic as clock
from typing import Any

from ..content import RESULT
from ..errors import HarnessError, JudgeError, PromptMismatchError, RunError, UsageError
from ..harness import internals
from ..harness.evaluation import NotPushed, save_model
from ..harness.judge import keeping_ratings
from ..journal import Journal, JournalFile, read_journal
from ..masking import mask
from ..money import UNKNOWN
from ..records import (
    Accept,
    Answered,
    Change,
    Header,
    Interrupt,
    Item,
    Lost,
    Restore,
    Session,
    Unrated,
    Warn,
)
from ..runs.book import Book
from ..runs.differences import NO_LIMIT, PROMPTS, SCORING_CODE, Differences, differences
from ..runs.directory import BANK_FILE, BANKS_FOLDER, LOG, RATINGS, RunDirectory, save_banks
from ..runs.kept_answers import ModelItem
from ..runs.tally import Tally
from ..scores.answers import EarlierAnswer
from ..scores.configuration import configurations_in
from ..scores.prompts import WRITTEN, compare_prompts
from .copies import CopiesError
from .earlier import latest_prior_answers
from .fields import HUB
from .identity import SCORING_HASH, header_of_plan, identity_of
from .interrupts import Interrupts
from .keep import ModelRuns, grow_banks, growing_banks
from .models import HarnessModel
from .plan import Plan, make_plan
from .quiet import quiet_harness
from .result import Observer, Result, result_of
from .sender import Sender, frozen_heap
from .spec import Spec
from .surfaces import may_change
from .tasks import require_fitting, require_model_types


class Run:
    """A run of one or more models; while open, it holds them, their journal and ranker.

    The attribute `plan` is made when the run is entered; `models` and `book` are made when they are
    first used.

    Parameters
    ----------
    spec : Spec
    run_dir : path, optional
        Directory of the journal and the result; without it the journal is kept in memory.
    observer : Observer, optional
    resume : bool, optional
        Continue the run in `run_dir`: apply the options that may change, and ask models that were
        away again.
    retry : bool or str, optional
        Take up models that were set aside for good: all of them, or the one named.
    asked : collection of str, optional
        Names of the models that may be asked; default: all models of the spec.
    plan : Plan or callable, optional
        The plan, if the harness has loaded the tasks already; or a function that makes it from the
        spec (default: `make_plan`).
    models : callable, optional
        Function that makes the models of the run; default: `harness_models`, in this process.
    book : callable, optional
        Function that makes the book of the run: its ranker and journal. Default: `open_book`, which
        starts or resumes the run directory.
    resumed_by : str, optional
        What the user types to go on after the judge was away.

    Attributes
    ----------
    directory : RunDirectory or None
        None if the journal is kept in memory.
    ended : bool
        Whether the ranking ended by itself, not by an interrupt.

    Examples
    --------
    >>> with Run(Spec.read("models.yaml"), "models.run") as run:       # doctest: +SKIP
    ...     run.ask()
    ...     result = run.finish()
    """

    def __init__(
        self,
        spec: Spec,
        run_dir: str | Path | None = None,
        observer: Observer | None = None,
        *,
        resume: bool = False,
        retry: bool | str = False,
        asked: Collection[str] | None = None,
        plan: Plan | Callable[[Spec], Plan] = make_plan,
        models: Callable[[Run], Sequence[HarnessModel]] | None = None,
        book: Callable[[Run], Book] | None = None,
        resumed_by: str = "--resume",
    ) -> None:
        if resume and run_dir is None:
            raise UsageError("resume needs run_dir, the directory of the run to continue")
        if retry and not resume:
            raise UsageError("retry needs resume: it restores models of a resumed run")
        self.spec = spec
        self.directory = None if run_dir is None else RunDirectory(run_dir)
        self.observer = observer or Observer()
        self.resume, self.retry = resume, retry
        self.asked = [model for model in spec.models if asked is None or model.name in asked]
        self.ended = False
        self.interrupts = Interrupts()
        # How its parts are made, once they are needed.
        self._plan, self._models, self._book = plan, models or harness_models, book or open_book
        self._resumed_by = resumed_by
        self._warned: list[str] = []  # what the journal states once it exists

    def __enter__(self) -> Run:
        with ExitStack() as stack:
            log_file = None
            if self.directory is not None:
                folder = self.directory.path
                self.directory.take()
                stack.callback(self.directory.release)
                if self.resume and not self.directory.journal.exists():
                    raise UsageError(f"{folder} holds no ranking yet; start it without --resume")
                if not self.resume and holds_answers(self.directory, self.spec):
                    raise RunError(
                        f"{folder} already holds a ranking; continue it with --resume, show it "
                        f"with `lm-eval-ccat rank {folder}`, or choose another --run_dir"
                    )
                log_file = folder / LOG
            # Whoever hands over a plan has loaded the tasks, and made these preparations.
            if callable(self._plan):
                _refuse_data_parallel()
                stack.enter_context(quiet_harness(log_file, self.observer.warn))
                require_model_types(self.asked)
            self.plan = self._planned() if callable(self._plan) else self._plan
            judged = any(session.judged for session in self.plan.sessions.values())
            if judged and self.directory is not None:
                stack.enter_context(keeping_ratings(self.directory.path / RATINGS))
            # A bank that cannot grow is refused before anything is asked.
            if self.spec.save_bank:
                growing_banks(self.plan, self.spec.save_bank)
            stack.callback(self._close_models)
            stack.enter_context(self.interrupts)
            # Nothing failed, so all this is undone on leaving the run, not here.
            self._stack = stack.pop_all()
        return self

    def _planned(self) -> Plan:
        """Make the plan; refuse it if its prompts are not those that a run to resume began with."""
        assert callable(self._plan)
        try:
            return self._plan(self.spec)
        except PromptMismatchError as error:
            # A run to resume began with the bank's prompts, so they have changed since. Of a new
            # run, or one that accepted others and no longer does, the error is true as it is.
            if self.directory is None or not self.resume or _takes_other_prompts(self.directory):
                raise
            raise RunError(self._cannot_resume(error.difference)) from None

    def _cannot_resume(self, difference: str) -> str:
        """Return the error of a run whose prompts are not those that it began with."""
        assert self.directory is not None
        return (
            f"cannot resume {self.directory.path}: {difference}. Restore the prompts, or start a "
            "new run with another --run_dir"
        )

    def __exit__(self, *exc: Any) -> None:
        self._stack.close()

    # -- its parts -----------------------------------------------------------------------------

    @cached_property
    def models(self) -> Sequence[HarnessModel]:
        """The models that answer, with their answers in the logs of ``prior:``; none is open yet.

        Making them tells the observer how many such answers there are.

        Raises
        ------
        HarnessError
            A package or key that a model needs is missing.
        UsageError
            A server cannot answer the tasks' requests. ``prior:`` names a model that is not ranked,
            or its logs hold answers of none of the models.
        ScoreTableError
            These logs cannot be read, or answer none of the tasks.
        """
        models = self._models(self)
        if self.spec.prior:
            # All ranked models, as a log may be of one that is not asked now (see `asked`).
            names = [entry.name for entry in self.spec.models]
            header, repeats_by_task = identity_of(self.plan), self.plan.repeats
            configurations = {task: configurations_in(header, task) for task in repeats_by_task}
            by_model = latest_prior_answers(
                self.spec.prior, names, repeats_by_task, self.warn_once, configurations
            )
            self.observer.note(self._prior_in_words(by_model))
            for model in models:
                model.prior_answers = by_model[model.name]
        return models

    def _prior_in_words(self, by_model: Mapping[str, Mapping[Item, EarlierAnswer]]) -> str:
        """Say how many earlier answers there are, and how many of their items are asked anew."""
        counts = {name: len(answers) for name, answers in by_model.items()}
        asked_anew = {
            entry.name: sum(
                self._has_another_prompt(item, answer, bool(self.spec.template_for(entry)))
                for item, answer in by_model[entry.name].items()
            )
            for entry in self.spec.models
        }
        sentences = [f"Earlier answers found: {_counts_in_words(counts)}."]
        if changed := _counts_in_words(asked_anew):
            answers = (
                answer for model_answers in by_model.values() for answer in model_answers.values()
            )
            silent = any(answer.prompt_hash is None for answer in answers)
            prompt = "another prompt" + (" or one that the logs do not state" if silent else "")
            sentences.append(f"Of these {changed} are to {prompt} and are asked anew.")
        # Unless all are asked anew, some are taken over.
        if counts != asked_anew:
            whose = "documents of the others" if changed else "their documents"
            sentences.append(f"When the ranking reaches {whose}, it scores them at no cost.")
        return " ".join(sentences)

    def _has_another_prompt(self, item: Item, answer: EarlierAnswer, templated: bool) -> bool:
        """Whether an earlier answer is to another prompt than this run's, or to an unknown one.

        What a chat template writes is known only once the model is open: it counts as the same
        prompt. A model that is `templated` is asked through one.
        """
        mark = self.plan.sessions[item.task].marks.get(item.doc_id)
        earlier_mark = answer.mark_for(templated)
        # The log may still state the hash of what its template wrote.
        if earlier_mark is None:
            return answer.prompt_hash is None
        return not earlier_mark.startswith(WRITTEN) and mark is not None and earlier_mark != mark

    def warn_once(self, text: str) -> None:
        """Warn the observer, and let every later result warn; a text counts once.

        Several models may give rise to the same warning.
        """
        if text not in self._warned:
            self._warned.append(text)
            self.observer.warn(text)
            # A warning that comes before there is a book is written when the book is made.
            if "book" in vars(self):
                self._write_warnings(self.book)

    def _write_warnings(self, book: Book) -> None:
        """Write the warnings to the journal that it does not have yet.

        A result states them all, also one of a later session that opens no model.
        """
        if new := [text for text in self._warned if text not in book.tally.warnings]:
            book.write([Warn(texts=new)])

    def _close_models(self) -> None:
        """Free the models' connections and weights, and the GPUs that actors hold."""
        for model in vars(self).get("models", ()):
            model.close()

    @cached_property
    def book(self) -> Book:
        """The book: the Ranker and its journal in step, new or resumed from the run directory.

        Raises
        ------
        RunError
            The run directory holds a different run.
        UsageError
            `retry` names a model that was not set aside.
        """
        book = self._book(self)
        self._write_warnings(book)
        return book

    # -- what it does --------------------------------------------------------------------------

    def ask(self) -> bool:
        """Ask models, score their answers and update the Ranker until the ranking ends.

        Returns
        -------
        bool
            Whether the ranking ended by itself. False after Ctrl-C, SIGTERM or SIGHUP, which keep
            every answer that has arrived.

        Raises
        ------
        CcatError
            The journal cannot be written, or no answer can ever be scored.
        """
        sender, is_out_of_time = self._sender(self.models), False
        line, interrupts = sender.line, self.interrupts
        self.observer.begin(self.plan, self.book)
        try:
            with frozen_heap(any(model.memory is not None for model in self.models)):
                sender.open_first()
                sender.start()
                while line.end_reason is None and not is_out_of_time:
                    interrupts.heed()
                    sender.check_servers(clock())
                    sender.take_turns()
                    for channel in sender.channels.values():
                        sender.feed(channel)
                    # To send may end the line, as when the last model that is left fails to open.
                    if line.end_reason is None:
                        sender.collect(sender.pause(clock()), asking=True)
                        sender.tick()
                    is_out_of_time = line.end_reason is None and sender.is_out_of_time()
                sender.finish(is_out_of_time)
            self.ended = True
        except (KeyboardInterrupt, CopiesError, JudgeError) as stopped:
            # A further signal must not cut short what the run now writes.
            interrupts.held = True
            end = Interrupt()
            if isinstance(stopped, JudgeError):
                stopped = self._with_what_is_kept(stopped)
                end = Interrupt(reason=str(stopped))
            sender.leave(end)
            self.ended = False
            if not isinstance(stopped, KeyboardInterrupt):
                raise stopped from None
        finally:
            self.observer.end()
        return self.ended

    def ask_beyond(self, model: HarnessModel, items: Sequence[Item]) -> None:
        """Ask an open model items that the Ranker does not offer; see `Sender.ask_beyond_bank`."""
        # A sender of all models would take longer with each of them, and each is asked in turn.
        try:
            self._sender([model]).ask_beyond_bank(model.name, items)
        except JudgeError as error:
            raise self._with_what_is_kept(error) from None

    def _sender(self, models: Sequence[HarnessModel]) -> Sender:
        """Return a sender for models, which know what a judge has yet to rate.

        It opens the journal, which a refused model must not begin: callers make the models first.
        """
        sender = Sender(self.plan, self.book, models, self.observer, self.interrupts)
        for model in models:
            model.unrated = {
                item: answer
                for (name, item), answer in self.book.unrated.items()
                if name == model.name
            }
        return sender

    def _with_what_is_kept(self, error: JudgeError) -> JudgeError:
        """Return the error of a judge with what has the answers rated that wait for it."""
        if self.directory is None:
            return error
        return JudgeError(f"{error}; all answers are kept for {self._resumed_by}")

    def state(self) -> Result:
        """Return the present result."""
        outcome = self.plan.outcome
        return result_of(
            # Once a run has ended, the files of its models state the same ranking.
            self.model_runs.ranking if self.ended else self.book.ranker.result(),
            header_of_plan(self.plan),
            self.plan.sessions[outcome.task].scorer(outcome.metric.name),
            self.book,
            None if self.directory is None else self.directory.path,
            fail_on_empty=self.spec.fail_on_empty,
        )

    def finish(self, names: dict[str, str] | None = None, further: bool = False) -> Result:
        """Add the scores to the bank that grows, write the result to the run directory; return it.

        Parameters
        ----------
        names : dict, optional
            Names of models in the growing bank, by their names in the ranking.
        further : bool, optional
            Whether the result also reports other metrics of the same answers; only that of a run
            that has ended does.
        """
        # A signal must not leave half a result.
        self.interrupts.held = True
        if self.spec.save_bank:
            grow_banks(self.plan, self.book, self.models, self.observer, names or {})
        result = self.state()
        if further and self.ended:
            result = replace(result, further=self.model_runs.further(self.models))
        # The user sees the result even if the disk is full, and it is written even if the terminal
        # is gone.
        try:
            self.observer.finished(result)
        finally:
            if self.directory is not None:
                self.directory.write_json(RESULT, result.content)
        self.interrupts.held = False
        return result

    @cached_property
    def model_runs(self) -> ModelRuns:
        """The answers of the ended run as the harness has them."""
        return ModelRuns(self.plan, self.book)

    def write_model_files(self) -> None:
        """Write the harness's results and samples files of each model; warn of those that fail."""
        if self.directory is None or not self.ended:
            return
        hub = self.spec.harness.get(HUB) or {}
        model_runs, groups = self.model_runs, self.plan.harness_groups
        for model in (model for model in self.models if self.book.answers.of(model.name)):
            name = model.name
            try:
                save_model(
                    self.directory.path,
                    name,
                    model_runs.of(model),
                    groups=groups,
                    model=str(model.entry.model),
                    model_args=mask(model.entry.model_args),
                    hub=hub,
                )
            except OSError as error:
                self.observer.warn(f"no results files for {name}: {error}")
            except NotPushed as error:
                self.observer.warn(f"the results files of {name} are not on the hub: {error}")

    # -- how it begins and is taken up ---------------------------------------------------------

    def start_book(self) -> Book:
        """Begin the run's journal, in memory without a run directory, and return its book."""
        # A run in memory cannot be resumed, so its header needs no identity to compare with.
        if self.directory is None:
            journal = Journal()
            journal.append([header_of_plan(self.plan)])
            return Book(self.plan.new_ranker(), journal)
        directory, journal = self.directory, self.directory.journal
        # A journal without answers is that of a run that failed at once, after a mistyped metric,
        # say. `__enter__` has refused one with answers.
        if journal.exists():
            journal.path.unlink()
            (directory.path / BANK_FILE).unlink(missing_ok=True)
            shutil.rmtree(directory.path / BANKS_FOLDER, ignore_errors=True)
        # Write the bank first: without it, the journal could not be read back.
        save_banks(self.plan.banks, directory.path)
        by_our_command = Path(sys.argv[0]).name.startswith(
            ("lm-eval-ccat", "lm_eval_ccat", "__main__")
        )
        directory.start(
            replace(identity_of(self.plan), command=sys.argv[1:] if by_our_command else None)
        )
        book = Book(self.plan.new_ranker(), journal)
        book.write([Session(event="start")])
        return book

    def resume_book(self) -> Book:
        """Read the run's journal, write to it what has changed since, and return its book.

        Written are requests that a kill has lost, options that have changed, and models that are
        taken up again.
        """
        plan, directory = self.plan, self.directory
        assert directory is not None
        recorded, records = read_journal(directory.journal.path)
        tally, journal = Tally(), directory.journal
        for record in records:
            tally.count(record)
        changed = self.require_same(recorded.identity, tally.answering)
        book = Book(plan.new_ranker(recorded.header), journal)
        book.read()
        if journal.torn:
            self.observer.warn(
                "a crash cut off the last line of the journal; its document is asked again"
            )
        # These two may refuse, which has to come before anything is written.
        book.require_change(changed.ranker)
        to_restore = self._to_restore(book, changed)
        # A session that ended has closed the book, and may have been killed as it waited for its
        # last answers. One that was killed before it journalled its windows may have sent one.
        default, in_flight = (0, book.tally.unheard) if book.closed else (1, book.tally.wire)
        in_flight = dict.fromkeys((ask.model for ask in book.unanswered), default) | in_flight
        already_lost = book.tally.left_behind
        book.write([Session(event="resume")])
        self._lose_unanswered(book, in_flight, already_lost)
        book.change(changed, identity_of(plan))
        for change in changed.changes:
            # Another version of a library may ask or score in another way.
            tell = self.observer.warn if change.startswith("versions.") else self.observer.note
            tell(f"changed since the run began: {change}")
        self._take_up(book, to_restore)
        return book

    def _take_up(self, book: Book, to_restore: Sequence[str]) -> None:
        """Write that models are asked again: all that were away, and others that were set aside."""
        for name in sorted(book.tally.away):
            book.event(Restore(model=name))
        # Models that were only away have just been taken up, so the others are left.
        still_aside = [name for name in to_restore if name in book.tally.set_aside]
        for name in still_aside:
            book.event(Restore(model=name))
        if still_aside:
            # The ranking may have ended because they were missing. A budget that is stated anew,
            # even the same one, lets it go on.
            changes = [f"{name}: taken up again" for name in still_aside]
            stated_budget = self.plan.charges.budget
            budget = NO_LIMIT if stated_budget is None else stated_budget
            restored = Differences(refused=[], changes=changes, ranker={"budget": budget})
            book.change(restored, identity_of(self.plan))

    def _lose_unanswered(
        self, book: Book, in_flight: Mapping[str, int], already_lost: Container[ModelItem]
    ) -> None:
        """Record that a kill lost the oldest open asks of each model, as many as were in flight.

        Those that count as `already_lost` are left out.

        Their billing is unknown. They do not lower the budget, so that a run that is killed and
        resumed ends as one that was not killed.
        """
        remaining = dict(in_flight)
        for ask in book.unanswered:
            # Its answer is kept, and a judge is to rate it.
            if ask.pair in book.unrated or ask.pair in already_lost:
                continue
            remaining[ask.model] -= 1
            if remaining[ask.model] >= 0:
                usd = self.plan.charges.of_lost_attempt(*ask.pair, UNKNOWN, book.tally).usd
                book.event(
                    Lost(model=ask.model, item=ask.item, why="killed", column=UNKNOWN, usd=usd)
                )

    def _to_restore(self, book: Book, changed: Differences) -> list[str]:
        """Return the models to take up again of those that were set aside.

        These are the models that `retry` names, those whose entry was corrected, and those that
        never answered: a key, a certificate or a server may have been set right where no entry
        shows it. A model that has left the configuration stays aside, as nobody asks for it.

        Raises
        ------
        UsageError
            `retry` names a model that was not set aside.
        """
        entries = {entry.name for entry in self.spec.models}
        aside = [name for name in book.tally.set_aside if name in entries]
        changes = "\n".join(changed.changes)
        retried = aside if self.retry is True else [self.retry] if self.retry else []
        for name in retried:
            if name not in aside:
                listed = ", ".join(aside) or "none"
                raise UsageError(f"model {name!r} was not set aside; set aside: {listed}")
        corrected = [name for name in aside if re.search(rf"{_pattern_of(name)}\.model", changes)]
        unanswering = set(aside) - book.tally.answering
        return [name for name in aside if name in {*retried, *corrected, *unanswering}]

    def require_same(self, old: Header, answering: Collection[str]) -> Differences:
        """Return the allowed changes since the run began; refuse to continue a different run.

        Parameters
        ----------
        old : Header
            Identity of the run so far.
        answering : collection of str
            Models with an answer in its journal. The entries of the others may be corrected.

        Raises
        ------
        RunError
            Something else differs; the message shows each such difference as ``old -> new``.
        """
        assert self.directory is not None
        new, before = identity_of(self.plan), old.task["prompts"]
        for task, session in self.plan.sessions.items():
            marks = dict(zip(session.doc_ids, before.get(task, ())))
            compared = compare_prompts(marks, session.marks, ("the run", f"task {task} now"))
            if compared.difference:
                raise RunError(self._cannot_resume(compared.difference))
        old = _comparable(old, Spec.recorded(old.config))
        new = _comparable(new, self.spec)
        accepted = [rf"task\.{SCORING_HASH}"] if SCORING_CODE in self.spec.accept_change else []
        asked = {entry.name for entry in self.asked}
        recorded = {entry["name"] for entry in old.config["models"]}
        correctable = [rf"{_pattern_of(name)}\.model.*" for name in asked.difference(answering)]
        # A model of another name, a corrected one say, may join; one that never answered may leave.
        correctable += [_pattern_of(name) for name in recorded - asked.union(answering)]
        allowed = may_change(*accepted, *correctable)
        return differences(old, new, allowed).require_same_run(str(self.directory.path))


def _counts_in_words(counts: Mapping[str, int]) -> str:
    """Say how many of each model there are, as in "3 of a, 12 of b"; "" if there are none."""
    return ", ".join(f"{count} of {name}" for name, count in counts.items() if count)


def harness_models(run: Run) -> list[HarnessModel]:
    """Return the harness's models of a run, in this process; none of them is open yet."""
    types = {entry.name: (str(entry.model), entry.model_args) for entry in run.asked}
    internals.require_backends(types)
    for entry in run.asked:
        require_fitting(entry, run.spec.template_for(entry), run.plan.sessions.values())
    return [
        HarnessModel(entry, run.spec, run.plan.outcomes_by_task, run.warn_once, run.plan.sessions)
        for entry in run.asked
    ]


def open_book(run: Run) -> Book:
    """Start a run's book or resume it, and note the changes that its spec accepts.

    Raises
    ------
    RunError
        The run directory holds a different run.
    UsageError
        The model to restore was not set aside.
    """
    book = run.resume_book() if run.directory and run.resume else run.start_book()
    for kind in run.spec.accept_change:
        if kind not in book.accepted:
            accepted = (change for change in run.plan.accepted if change.change == kind)
            book.write([Accept(change=kind, what=[difference.text for difference in accepted])])
    return book


def _takes_other_prompts(directory: RunDirectory) -> bool:
    """Whether a run accepted, as it began, prompts other than its bank's or known results'."""
    return PROMPTS in directory.read_header().report.get("accepted", ())


def _comparable(header: Header, spec: Spec) -> Header:
    """Return a header as `differences` compares it: prompts have been compared before."""
    task = {name: value for name, value in header.task.items() if name != "prompts"}
    return replace(header, config=spec.comparable(), task=task)


def _pattern_of(model: str) -> str:
    """Return a pattern of a model's path in a run's identity, as in ``config.models[a]``."""
    return rf"config\.models\[{re.escape(model)}\]"


def holds_answers(directory: RunDirectory, spec: Spec | None = None) -> bool:
    """Whether the journal holds what a new run must not overwrite: answers, or what is unreadable.

    Answers that a judge has yet to rate are paid as well. But if the new run, of this `spec`, has
    other metrics, a mistyped one may have ended the old run before any was rated: they then count
    only after an interrupt.
    """
    if not directory.journal.exists():
        return False
    is_corrected = has_unrated = False
    try:
        for record in JournalFile(directory.journal.path).read_new():
            match record:
                case Header() if spec is not None:
                    is_corrected = record.config.get("metrics") != spec.comparable()["metrics"]
                case Unrated() if is_corrected:
                    has_unrated = True
                case Interrupt() if has_unrated:
                    return True
                # A run that was resumed is no failed start.
                case Answered() | Restore() | Change():
                    return True
    except RunError:
        return True
    return False


def _refuse_data_parallel() -> None:
    """Refuse to run in one of several data-parallel processes, before loading anything."""
    size = os.environ.get("WORLD_SIZE", "1")
    if size.isdigit() and int(size) > 1:
        raise HarnessError(
            f"this is one of {size} processes of accelerate or torchrun, each of which would run "
            "the ranking; start `rank` once, and spread models over GPUs and machines by "
            "`rank CONFIG --executor ray`"
        )
