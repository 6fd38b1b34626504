"""The tasks of a run, loaded through the harness, and checks of model types."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..demo import register_models
from ..errors import UsageError
from ..harness import TaskSession, internals, open_sessions
from ..harness.internals.names import log
from ..harness.opening import ignored_fewshot, with_shipped_tasks
from ..integrations.trackers import SETTINGS as TRACKERS
from ..options import Values
from ..plugins import did_you_mean
from .fields import HUB
from .spec import ModelSpec, Spec

#: Settings of the harness's --config that determine how requests are built.
SESSION_KEYS = (
    "num_fewshot",
    "gen_kwargs",
    "metadata",
    "confirm_run_unsafe_code",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "system_instruction",
    "cache_requests",
)
#: Settings that `rank` reads itself.
RANK_KEYS = ("include_path", "use_cache", "batch_size", "max_batch_size", "device", "seed")
#: Settings that change neither requests nor scores; accepted so that a --config can be reused.
IDLE_KEYS = ("log_samples", "verbosity", "show_config", "write_out", "trust_remote_code")


class PlaceholderLM:
    """A stand-in for a model of the harness, for reading a task's requests without one."""

    MULTIMODAL = True
    tokenizer_name = ""

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Return no template."""
        return ""

    def apply_chat_template(self, chat: list[dict[str, str]], *_: Any, **__: Any) -> str:
        """Return the messages in the form that models behind a server get."""
        return json.dumps(chat, ensure_ascii=False)


def tasks_and_path(spec: Spec) -> tuple[list[str], list[str]]:
    """Return the task names for the harness and the folders to search for them.

    ``task:`` may be a name or the path of a YAML file. If a file in ``include_path`` defines the
    name, the path of that file is returned: otherwise the harness would take this configuration,
    which has a ``task:`` too, for a second task of that name.
    """
    folders = list(spec.harness.get("include_path") or [])
    for folder in folders:
        if not Path(folder).is_dir():
            raise UsageError(f"`harness.include_path`: there is no folder {folder}")
    names = [_by_file(name, folders) for name in spec.tasks]
    if all(Path(name).suffix in (".yaml", ".yml") for name in names):
        return names, []
    return names, with_shipped_tasks(folders)


def _by_file(name: str, folders: list[str]) -> str:
    """Return the YAML file that `name` is or that defines a task of this name, else `name`."""
    file = Path(name)
    if file.suffix in (".yaml", ".yml"):
        if not file.is_file():
            raise UsageError(f"`task:` names a file that does not exist: {file}")
        return str(file.absolute())
    files = [f for folder in folders for f in _files_of_task(Path(folder), name)]
    return str(files[0].absolute()) if len(files) == 1 else name


def _files_of_task(folder: Path, name: str) -> list[Path]:
    """Return the YAML files that define a task of this name, not configurations of rankings."""
    files = []
    wanted = re.compile(rf"^task:\s*[\"']?{re.escape(name)}[\"']?\s*$", re.MULTILINE)
    for file in sorted(_yaml_files(folder)):
        text = file.read_text(encoding="utf-8", errors="replace")
        if wanted.search(text) and not re.search(r"^models:", text, re.MULTILINE):
            files.append(file)
    return files


def _yaml_files(folder: Path) -> Iterator[Path]:
    # Follow links to folders, as the harness does, but visit each folder once.
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        if os.path.realpath(here) in seen:
            folders.clear()
            continue
        seen.add(os.path.realpath(here))
        yield from (Path(here, name) for name in files if name.endswith((".yaml", ".yml")))


def session_options(spec: Spec) -> Values:
    """Return the arguments of `open_session` from the ``harness:`` block.

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
    seed = spec.harness.get("seed")
    if seed is not None:
        options["fewshot_seed"] = seed[-1] if isinstance(seed, list) else int(seed)
    if spec.harness.get("trust_remote_code"):
        import datasets

        datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = True
    return options


def open_tasks(spec: Spec, lm: Any, **more: Any) -> tuple[dict[str, TaskSession], dict[str, Any]]:
    """Return a session for each task of a ranking, and the harness's groups among them.

    Parameters
    ----------
    spec : Spec
    lm : LM
    **more
        Further arguments of `open_sessions`, which override those of ``harness:``.
    """
    names, folders = tasks_and_path(spec)
    options = {**session_options(spec), **more}
    return open_sessions(names, lm, include_path=folders, **options)


def open_plain(spec: Spec) -> tuple[dict[str, TaskSession], dict[str, Any]]:
    """Open the tasks to read documents and requests, without a model or its chat template."""
    plain = {"apply_chat_template": False, "fewshot_as_multiturn": False}
    sessions, groups = open_tasks(spec, PlaceholderLM(), **plain)
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
        A model type or argument is unknown; the message names the entry and similar names.
    """
    register_models()
    types = internals.model_types()
    for entry in entries:
        if entry.model is None:
            raise UsageError(
                f"model {entry.name} has no `model:` (a model type of lm_eval such as hf)"
            )
        if entry.model not in types:
            near = did_you_mean(entry.model, sorted(types))
            raise UsageError(f"model {entry.name}: lm_eval has no model type {entry.model!r}{near}")
        known = internals.known_arguments(entry.model)
        if known is None:
            continue
        for key in entry.model_args:
            if key not in known:
                near = did_you_mean(key, sorted(known))
                raise UsageError(
                    f"model {entry.name}: {entry.model} has no argument {key!r} (model_args){near}"
                )
