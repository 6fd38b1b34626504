"""The tasks of a run, loaded through the harness, and checks of model types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..bank.settings import sampling
from ..errors import UsageError
from ..harness import TaskSession, internals, open_sessions
from ..harness.internals.names import log
from ..harness.opening import ignored_fewshot, with_shipped_tasks
from ..integrations.trackers import SETTINGS as TRACKERS
from ..methods.belief import RUN
from ..options import OptionPlace, Values, whole
from ..plugins import did_you_mean, existing, near_path
from ..scores.reading import YAML
from .fields import HUB, IDLE_KEYS, RANK_KEYS, SESSION_KEYS, own_task
from .spec import ModelSpec, Spec


def tasks_and_folders(spec: Spec) -> tuple[list[str], list[str]]:
    """Return names or YAML files, as the harness takes them, and the folders to search for names.

    ``task:`` may be a name, or the path of a YAML file: of a task, or of a group beside its tasks.
    There are no folders if all are files of tasks, as then there is nothing to search for.

    Raises
    ------
    UsageError
        A folder of ``include_path``, or a file of ``task:``, does not exist.
    """
    folders = list(spec.harness.get("include_path") or [])
    for folder in folders:
        existing(folder, "folder of tasks")
    names = []
    for name in spec.tasks:
        group, folder = _group_in(Path(name)), Path(name).absolute().parent
        if group and folder not in [Path(searched).absolute() for searched in folders]:
            folders.append(str(folder))
        names.append(group or _file_of(name, folders))
    if all(Path(name).suffix in YAML for name in names):
        return names, []
    return names, with_shipped_tasks(folders)


def _group_in(file: Path) -> str:
    """Return the name of the group of tasks that a YAML file defines; "" if it defines none."""
    if file.suffix not in YAML or not file.is_file():
        return ""
    text = file.read_text(encoding="utf-8", errors="replace")
    definition = re.search(r"^group:[ \t]*([\"']?)(\w.*?)\1[ \t]*(#.*)?$", text, re.MULTILINE)
    return "" if definition is None else definition[2]


def own_file(name: str, folders: list[str]) -> str:
    """Return the YAML file in a folder, or beside the command, that defines a task; else `name`.

    A configuration of a ranking is no such file, although the harness's own command would take it
    for the task that its ``task:`` names.
    """
    file = internals.file_of_task(name, folders)
    return own_task(name, Path(), folders) if file is None else str(file.absolute())


def _file_of(name: str, folders: list[str]) -> str:
    """Return the YAML file that `name` is or that defines a task of this name, else `name`."""
    file = Path(name)
    if file.suffix not in YAML:
        in_folder = internals.file_of_task(name, folders)
        return name if in_folder is None else str(in_folder.absolute())
    if not file.is_file():
        raise UsageError(f"`task:` names a file that does not exist: {file}{near_path(file)}")
    return str(file.absolute())


def session_options(spec: Spec) -> Values:
    """Return the arguments of `open_session` from the ``harness:`` block.

    Its ``trust_remote_code`` is set here, for the whole process.

    Raises
    ------
    UsageError
        `rank` does not know a setting.
    """
    for key in spec.harness:
        if key not in (*SESSION_KEYS, *RANK_KEYS, *IDLE_KEYS, *TRACKERS, HUB):
            known = sorted((*SESSION_KEYS, *RANK_KEYS, *TRACKERS, HUB))
            raise UsageError(f"`harness.{key}` is not a setting of rank{did_you_mean(key, known)}")
    options = {k: spec.harness[k] for k in SESSION_KEYS if spec.harness.get(k) is not None}
    # The last of the harness's seeds draws the few-shot examples.
    if seeds := spec.harness.get("seed"):
        options["fewshot_seed"] = seeds[-1]
    if spec.harness.get("trust_remote_code"):
        import datasets

        datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = True
    return options


def open_tasks(
    spec: Spec, lm: Any, **overrides: Any
) -> tuple[dict[str, TaskSession], dict[str, Any]]:
    """Return a session for each task of a ranking, and the harness's groups among them.

    Parameters
    ----------
    spec : Spec
    lm : LM
    **overrides
        Further arguments of `open_sessions`, which override those of ``harness:``.
    """
    names, folders = tasks_and_folders(spec)
    options = {**session_options(spec), **overrides}
    sessions, groups = open_sessions(names, lm, include_path=folders, **options)
    for session in sessions.values():
        session.scores_each_answer = not internals.scores_answers_together(session.task)
    return sessions, groups


def repeats_of(spec: Spec, session: TaskSession) -> int:
    """Return the most answers of an item of a task: as the spec or the task states.

    Raises
    ------
    UsageError
        Repeats are stated for a task that compares log-likelihoods, or that scores all its answers
        to an item together.
    """
    stated_by_task = int(session.config.get("repeats") or 1)
    by_task = spec.repeats is None
    repeats = spec.repeats or stated_by_task
    # One answer to each item settles the question "run", which is about these very answers.
    if repeats == 1 or (by_task and spec.question == RUN):
        return 1
    if trouble := _why_not_repeated(session, stated_by_task):
        # Only what the user wrote is refused: what a task states may be meant for other models.
        if not by_task:
            raise UsageError(f"repeats {repeats}: {trouble}; leave repeats out")
        # Log-likelihoods lose nothing by it, so that a user need not know.
        if internals.output_type(session.task) == "generate_until":
            log.warning("%s", trouble)
        return 1
    # Copies of one answer would pass for as many draws.
    if not is_sampled(spec, [session]):
        log.warning(
            "task %s: at temperature 0 a second answer repeats the first, so only one of %d is "
            "asked; set gen_kwargs: {temperature: ..}",
            session.name,
            repeats,
        )
        return 1
    if by_task:
        log.warning(
            "task %s: up to %d answers to a document, which the task states as its repeats; "
            "repeats: 1 asks one",
            session.name,
            repeats,
        )
    return repeats


def _why_not_repeated(session: TaskSession, n_answers: int) -> str:
    """Return why a task asks no item repeatedly; "" if it may.

    `n_answers` is the number of answers to a document that the task itself states.
    """
    if internals.output_type(session.task) != "generate_until":
        return (
            f"task {session.name} compares log-likelihoods, which are not sampled: every answer "
            "would be the first"
        )
    if internals.scores_answers_together(session.task):
        return (
            f"task {session.name} scores its {n_answers} answers to a document together, so a "
            f"document is one item of {n_answers} requests"
        )
    return ""


def is_sampled(spec: Spec, sessions: Iterable[TaskSession]) -> bool:
    """Return whether a model may answer a document in another way when it is asked again.

    The harness sends servers temperature 0 where a task sets none, whatever `do_sample` says.
    """
    generating = [
        session for session in sessions if internals.output_type(session.task) == "generate_until"
    ]
    # Where the harness runs a model itself there is no entry, and the model that it opened decides.
    model_types = [model.model for model in spec.models] or [None]
    drawn = any(
        _is_drawn(session.config.get("generation_kwargs") or {}, model_type, session.lm)
        for session in generating
        for model_type in model_types
    )
    always = any(
        internals.always_samples(model.model or "", model.model_args) for model in spec.models
    )
    return bool(generating) and (drawn or always)


def _is_drawn(settings: Mapping[str, Any], model_type: str | None, lm: Any) -> bool:
    """Whether a task's settings sample, as they are sent to a model type, or else to a model."""
    if model_type:
        temperature_alone = internals.sends_temperature_alone(model_type)
    else:
        temperature_alone = internals.is_api(type(internals.unwrapped(lm)))
    if temperature_alone:
        settings = {key: value for key, value in settings.items() if key != "do_sample"}
    return sampling(settings).is_sampled


def open_plain(spec: Spec) -> tuple[dict[str, TaskSession], dict[str, Any]]:
    """Open the tasks to read documents and requests, without a model or its chat template.

    Requests are chat messages, before any template, if no model of the run takes plain texts.
    """
    chat = bool(spec.models) and all(spec.template_for(entry) for entry in spec.models)
    lm = internals.PlaceholderLM()
    sessions, groups = open_tasks(spec, lm, apply_chat_template=chat)
    for session in sessions.values():
        ignored = ignored_fewshot(session.task, session_options(spec).get("num_fewshot"))
        if ignored is not None:
            log.warning(ignored)
    return sessions, groups


def require_model_types(entries: Iterable[ModelSpec]) -> None:
    """Refuse a model type that the harness does not know, before anything is loaded.

    Raises
    ------
    UsageError
        A model type or argument is unknown, or `num_concurrent` no number; the message names the
        entry and similar names.
    """
    internals.register_models()
    types = internals.model_types()
    for entry in entries:
        if entry.model is None:
            raise UsageError(
                f"model {entry.name} has no `model:` (a model type of lm_eval such as hf)"
            )
        if entry.model not in types:
            hint = did_you_mean(entry.model, sorted(types))
            raise UsageError(f"model {entry.name}: lm_eval has no model type {entry.model!r}{hint}")
        known = internals.known_arguments(entry.model)
        # A type that takes any argument hands it to another library.
        if known is None:
            continue
        for key in entry.model_args:
            if key not in known:
                hint = did_you_mean(key, sorted(known))
                raise UsageError(
                    f"model {entry.name}: {entry.model} has no argument {key!r} (model_args){hint}"
                )
        if "num_concurrent" in entry.model_args:
            place = OptionPlace(f"{entry.name}.model_args.num_concurrent")
            whole(1).read(entry.model_args["num_concurrent"], place)


def require_fitting(
    entry: ModelSpec, template: bool | str, sessions: Iterable[TaskSession]
) -> None:
    """Refuse a model behind a server that cannot answer the requests of the tasks.

    Raises
    ------
    UsageError
        Its address takes messages, and its type sends prompts; it takes only messages and a task
        compares log-likelihoods; or that, or a chat template, needs a tokenizer, and it has none.
    """
    kind = str(entry.model)
    address = str(entry.model_args.get("base_url", "")).rstrip("/")
    # Some servers refuse such a request and others drop the connection, as if they were away.
    if address.endswith("/chat/completions") and not internals.takes_messages(kind):
        raise UsageError(
            f"model {entry.name}: base_url ends with /chat/completions, which takes messages, and "
            f"{kind} sends prompts; use the type local-chat-completions, or end it with "
            "/completions"
        )
    without_tokenizer = str(entry.model_args.get("tokenizer_backend", "")).lower() == "none"
    if template and without_tokenizer and not internals.takes_messages(kind):
        raise UsageError(
            f"model {entry.name}: {kind} applies a chat template only with the model's tokenizer; "
            "leave tokenizer_backend out, or send messages with the type local-chat-completions"
        )
    for session in sessions:
        if internals.output_type(session.task) == "generate_until":
            continue
        if internals.takes_messages(kind):
            raise UsageError(
                f"task {session.name} compares log-likelihoods, and {kind} returns texts alone; "
                "use the type local-completions, or choose a task that generates text"
            )
        if without_tokenizer:
            raise UsageError(
                f"task {session.name} compares log-likelihoods, for which {kind} needs the model's "
                "tokenizer; leave tokenizer_backend out"
            )
