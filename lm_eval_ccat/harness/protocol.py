"""What an adaptive run needs of an evaluation: four calls, and the harness's hook as their backend.

Whoever decides which documents are run is a `Selector`. An evaluation starts it, asks it again and
again which documents come next and tells it their scores, and has it finish with an estimate for
each task. Nothing else of an adaptive run depends on how a release of the harness evaluates, and a
harness that makes these four calls itself needs no hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from . import internals
from .opening import refuse_unsafe
from .session import Administered, TaskSession

if TYPE_CHECKING:
    from .assembly import Results, TaskRun

#: A document: its task and its number there.
Item = tuple[str, int]

_SESSION_OPTIONS = (
    "system_instruction",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "cache_requests",
    "rewrite_requests_cache",
    "write_out",
)


class Selector(Protocol):
    """Decides which documents of an evaluation are run, and says what their scores amount to."""

    def start(self, evaluation: Evaluation) -> None:
        """Take note of model, tasks and documents; refuse what cannot be, before any request."""

    def next(self) -> Sequence[Item]:
        """Documents to be run now, each once in an evaluation; none ends it."""

    def scored(self, answers: Mapping[Item, Administered]) -> None:
        """Learn what the documents that were asked for gave."""

    def finish(self) -> Mapping[str, TaskRun]:
        """Return the result of each selected task."""


@dataclass
class Evaluation:
    """One call of the harness's `evaluate`: a model, its tasks, and how they are put to it.

    Parameters
    ----------
    stock : callable
        The harness's own `evaluate`.
    arguments : mapping
        Of the call, by name, defaults included.

    Attributes
    ----------
    lm : LM
    tasks : dict of str to Task
    groups : dict of str to Group
    sessions : dict of str to TaskSession
        Of the tasks that were opened.
    """

    stock: Callable[..., Any]
    arguments: Mapping[str, Any]
    sessions: dict[str, TaskSession] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lm = self.arguments["lm"]
        task_dict = self.arguments["task_dict"]
        if "tasks" in task_dict:
            self.groups, self.tasks = dict(task_dict.get("groups") or {}), dict(task_dict["tasks"])
        else:  # its old form
            read = internals.resolve("lm_eval.evaluator_utils:_handle_back_comp")
            self.groups, self.tasks = map(dict, read(task_dict))

    def open(self, name: str, count_tokens: bool = False) -> TaskSession:
        """Bind a task to the model, as this evaluation puts it; the harness does not run it then.

        Raises
        ------
        HarnessError
            The task or the model cannot be used document by document.
        """
        task = self.tasks[name]
        refuse_unsafe(task, self.arguments["confirm_run_unsafe_code"])
        options = {key: self.arguments[key] for key in _SESSION_OPTIONS}
        self.sessions[name] = TaskSession(task, self.lm, options, count_tokens=count_tokens)
        return self.sessions[name]

    def administer(self, items: Sequence[Item]) -> dict[Item, Administered]:
        """Run documents of opened tasks, those of one task in one call of the model."""
        answers: dict[Item, Administered] = {}
        for name in dict.fromkeys(task for task, _ in items):
            docs = [doc for task, doc in items if task == name]
            for one in self.sessions[name].administer(docs):
                answers[name, one.doc_id] = one
        return {item: answers[item] for item in items}

    def results(self, runs: Mapping[str, TaskRun]) -> Results:
        """The harness's results: estimates of these tasks, and the others as it runs them itself.

        Parameters
        ----------
        runs : mapping of str to TaskRun
            Of every task that was opened.
        """
        from .assembly import assemble

        rest = {name: task for name, task in self.tasks.items() if name not in self.sessions}
        ordinary = None
        if rest:
            others = {"task_dict": {"tasks": rest, "groups": {}}}
            ordinary = self.stock(**{**self.arguments, **others})
        return assemble(
            self.lm,
            self.tasks,
            self.groups,
            ordinary,
            runs,
            bootstrap_iters=self.arguments["bootstrap_iters"],
            log_samples=self.arguments["log_samples"],
        )

    def conduct(self, selector: Selector) -> dict[str, object]:
        """Make the four calls; the harness's results."""
        selector.start(self)
        while items := selector.next():
            selector.scored(self.administer(items))
        return self.results(selector.finish())


def install(evaluate: Callable[[Evaluation], Mapping[str, object] | None]) -> None:
    """Route the harness's evaluations through a function; a second call changes nothing.

    Parameters
    ----------
    evaluate : callable
        Returns an evaluation's results (those of `Evaluation.conduct` with a selector of its own,
        say), or None where the harness is to run it as ever.
    """
    internals.require_supported_version()

    def around(stock: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        return evaluate(Evaluation(stock, arguments))

    internals.hook("around", around)
