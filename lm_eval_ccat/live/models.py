"""One model of a ranking, as the scheduler drives it: a harness session with prices and tokens."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.harness_passthrough import shipped_tasks
from ..demo import register_models
from ..errors import CcatError, UsageError
from ..harness.prices import Tokens, estimate_tokens
from ..runs.journaled import DocId
from .config import ModelConfig, RankConfig
from .worker import Answer

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..harness import Administered, TaskSession
    from ..metrics.registry import Metric

log = logging.getLogger("lm_eval.ccat")  # under the harness's, so as its user set it

#: Settings of the harness's --config that decide how requests are built.
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
    """Stands where the harness wants a model while a task's requests are only looked at."""

    MULTIMODAL = True
    tokenizer_name = ""

    def chat_template(self, chat_template: bool | str = False) -> str:
        """No template."""
        return ""


def task_and_path(config: RankConfig) -> tuple[str, list[str]]:
    """What to ask the harness for, and the folders in which it shall look.

    ``task:`` may be a name or the path of a YAML file.  A name that a file of ``include_path``
    carries is asked for by that file: the harness would else take this very configuration, which
    has a ``task:`` too, for a second task of that name.
    """
    given = config.harness.get("include_path")
    folders = [given] if isinstance(given, str) else list(given or [])
    for folder in folders:
        if not Path(folder).is_dir():
            raise UsageError(f"`harness.include_path`: there is no folder {folder}")
    file = Path(config.task)
    if file.suffix in (".yaml", ".yml"):
        if not file.is_file():
            raise UsageError(f"`task:` names a file that does not exist: {file}")
        return str(file.absolute()), []
    found = [f for folder in folders for f in _files_of_task(Path(folder), config.task)]
    if len(found) == 1:
        return str(found[0].absolute()), []
    shipped = shipped_tasks()
    return config.task, [*([str(shipped)] if shipped is not None else []), *folders]


def _files_of_task(folder: Path, name: str) -> list[Path]:
    """YAML files that define a task of this name; configurations of rankings are none."""
    found = []
    wanted = re.compile(rf"^task:\s*[\"']?{re.escape(name)}[\"']?\s*$", re.MULTILINE)
    for file in sorted(_yaml_files(folder)):
        text = file.read_text(encoding="utf-8", errors="replace")
        if wanted.search(text) and not re.search(r"^models:", text, re.MULTILINE):
            found.append(file)
    return found


def _yaml_files(folder: Path) -> Iterator[Path]:
    # Linked folders too, as the harness looks into them, but each once.
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        if os.path.realpath(here) in seen:
            folders.clear()
            continue
        seen.add(os.path.realpath(here))
        yield from (Path(here, name) for name in files if name.endswith((".yaml", ".yml")))


def session_options(config: RankConfig) -> dict[str, Any]:
    """Arguments of `open_session` from the ``harness:`` block.

    Raises
    ------
    UsageError
        For a setting that `rank` does not know.
    """
    for key in config.harness:
        if key not in (*SESSION_KEYS, *RANK_KEYS, *IDLE_KEYS):
            known = ", ".join(sorted((*SESSION_KEYS, *RANK_KEYS)))
            raise UsageError(f"`harness.{key}` is not a setting that rank uses; it knows: {known}")
    options = {k: config.harness[k] for k in SESSION_KEYS if config.harness.get(k) is not None}
    if isinstance(options.get("gen_kwargs"), str):
        raise UsageError("`harness.gen_kwargs` must be a mapping such as {temperature: 0}")
    seed = config.harness.get("seed")
    if seed is not None:
        options["fewshot_seed"] = seed[-1] if isinstance(seed, list) else int(seed)
    if config.harness.get("trust_remote_code"):
        import datasets

        datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = True
    return options


def probe_session(config: RankConfig) -> TaskSession:
    """The task's documents and requests, without any model and without its chat template."""
    from ..harness import open_session
    from ..harness.session import ignored_fewshot

    options = session_options(config)
    options.pop("apply_chat_template", None)
    options.pop("fewshot_as_multiturn", None)
    name, folders = task_and_path(config)
    probe = open_session(name, PlaceholderLM(), include_path=folders, **options)
    ignored = ignored_fewshot(probe.task, options.get("num_fewshot"))
    if ignored is not None:
        log.warning(ignored)
    return probe


def require_model_types(config: RankConfig) -> None:
    """Refuse a model type that the harness does not know, before anything is loaded.

    Raises
    ------
    UsageError
        Naming the entry and close names.
    """
    import difflib

    from ..harness import internals

    register_models()
    types = internals.model_types()
    for entry in config.models:
        if entry.model is None:
            raise UsageError(
                f"model {entry.name} has no `model:` (a model type of lm_eval such as hf); only "
                "a ranking made with --prepare can do without"
            )
        if entry.model not in types:
            close = difflib.get_close_matches(entry.model, types, n=3) or sorted(types)
            raise UsageError(
                f"model {entry.name}: lm_eval has no model type {entry.model!r}; "
                f"there is: {', '.join(close)}"
            )


class HarnessWorker:
    """A model of the ranking behind the harness.

    Parameters
    ----------
    entry : ModelConfig
    config : RankConfig
    bank : ItemBank
    metric : Metric
    filter : str
        Filter pipeline whose value of the metric counts.
    cost_of : callable
        ``(tokens, seconds) -> cost`` in the budget's currency.
    check : callable
        Called with the open session; raises where the bank does not fit.
    cache : path, optional
        Stem of the harness's response cache; the model's name is added.
    """

    def __init__(
        self,
        entry: ModelConfig,
        config: RankConfig,
        bank: ItemBank,
        metric: Metric,
        filter: str,
        cost_of: Callable[[Tokens | None, float], float],
        check: Callable[[TaskSession], None],
        cache: str | None = None,
    ) -> None:
        self.name = entry.name
        self.entry = entry
        self.memory = entry.memory
        self.slots = entry.concurrency or 1
        self.batch = 1
        self._requests_per_call = 1
        self.session: TaskSession | None = None
        self.administered: dict[DocId, Administered] = {}
        self._config = config
        self._bank = bank
        self._metric = metric
        self._filter = filter
        self._cost_of = cost_of
        self._check = check
        self._cache = cache
        self._meter: Any = None

    # -- opening and closing ---------------------------------------------------------------

    def open(self) -> None:
        """Load the model and bind it to the task; the second time only load the model."""
        from ..harness import internals
        from ..harness.usage import UsageMeter

        lm = self._make_lm()
        if "max_retries" not in self.entry.model_args:
            # Retries belong to one place, which journals them and knows when to give up.
            internals.own_retries(lm, 1)
        self._meter = UsageMeter(lm)
        if self._cache:
            lm = internals.with_cache(lm, f"{self._cache}_{_safe_name(self.name)}.db")
        if self.session is None:
            self.session = self._open_session(lm)
            self._check(self.session)
        else:
            self.session.lm = lm
        calls, size = internals.requests_at_once(lm)
        self._requests_per_call = size
        per_document = max(1, self.session.n_requests(self.session.doc_ids[0]))
        if self.entry.concurrency is not None:
            calls = self.entry.concurrency
        if calls > 1:
            # The requests of one document go out together; they count against the limit.
            calls = max(1, calls * size // max(per_document, size))
        self.slots, self.batch = calls, max(1, size // per_document)

    def _open_session(self, lm: Any) -> TaskSession:
        from ..harness import open_session

        name, folders = task_and_path(self._config)
        return open_session(
            name,
            lm,
            include_path=folders,
            count_tokens=self.entry.price.by_tokens,
            **session_options(self._config),
        )

    def _make_lm(self) -> Any:
        from ..harness import internals

        register_models()
        harness = self._config.harness
        additional = {
            "batch_size": self.entry.batch_size or harness.get("batch_size"),
            "max_batch_size": harness.get("max_batch_size"),
            "device": self.entry.device or harness.get("device"),
        }
        return internals.make_lm(str(self.entry.model), self.entry.model_args, additional)

    def close(self) -> None:
        """Drop the model's weights; the task's requests stay."""
        if self.session is not None:
            self.session.lm = None
        self._meter = None
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    # -- documents -------------------------------------------------------------------------

    def administer(self, doc_ids: Sequence[DocId]) -> list[Answer]:
        """Run documents through the harness and score them."""
        assert self.session is not None and self._meter is not None
        self._meter.reset()
        given = self.session.administer([int(d) for d in doc_ids])
        requests = sum(self.session.n_requests(int(d)) for d in doc_ids)
        calls = -(-requests // self._requests_per_call)
        used = self._meter.read(calls) if self.entry.price.by_tokens else None
        return [self._answer(one, used, given) for one in given]

    def _answer(
        self, one: Administered, used: tuple[int, int] | None, given: Sequence[Administered]
    ) -> Answer:
        raw = self._score(one)
        tokens = self._tokens(one, used, given)
        answer = Answer(
            doc_id=one.doc_id,
            raw=raw,
            unit=float(self._metric.scale.normalise(raw)),
            # Documents that run at the same time share the hour that is paid for.
            cost=self._cost_of(tokens, one.seconds / self.slots),
            seconds=one.seconds,
            tokens=tokens,
            prompt_hash=one.samples[self._filter]["prompt_hash"],
            responses=_plain(one.samples[self._filter]["resps"]),
            empty=bool(one.responses) and all(not r.strip() for r in one.responses),
        )
        self.administered[one.doc_id] = one
        return answer

    def _score(self, one: Administered) -> float:
        key = (self._metric.name, self._filter)
        if key not in one.values:
            there = ", ".join(f"{m},{f}" for m, f in one.values)
            raise CcatError(
                f"document {one.doc_id} reports no {','.join(key)}; the task gives: {there}"
            )
        filtered = one.samples[self._filter]["filtered_resps"][0]
        return self._metric.score(
            one.values[key],
            task=self.session.name if self.session else "",
            prediction=filtered if isinstance(filtered, str) else None,
        )

    def _tokens(
        self, one: Administered, used: tuple[int, int] | None, given: Sequence[Administered]
    ) -> Tokens | None:
        if not self.entry.price.by_tokens:
            return None
        if used is not None:
            if len(given) == 1:
                return Tokens(used[0], used[1], "usage")
            # The server bills the batch; a document's share follows the length of its texts.
            read = sum(len("".join(g.prompts)) for g in given) or 1
            written = sum(len("".join(g.responses)) for g in given) or 1
            return Tokens(
                used[0] * len("".join(one.prompts)) / read,
                used[1] * len("".join(one.responses)) / written,
                "usage",
            )
        if one.input_tokens is not None and one.output_tokens is not None:
            return Tokens(one.input_tokens, one.output_tokens, "tokenizer")
        return Tokens(
            sum(map(estimate_tokens, one.prompts)),
            sum(map(estimate_tokens, one.responses)),
            "estimate",
        )

    # -- after a resume --------------------------------------------------------------------

    def restore(self, answers: Mapping[DocId, Mapping[str, Any]]) -> None:
        """Score recorded answers again, so that results files hold them; asks the model nothing."""
        if self.session is None:
            # The model need not be loaded for that, unless its template shapes the prompts.
            templated = self._config.harness.get("apply_chat_template")
            self.session = self._open_session(self._make_lm() if templated else PlaceholderLM())
        missing = [d for d in answers if d not in self.administered]
        if not missing:
            return
        model, self.session.lm = self.session.lm, _Recorded()
        try:
            for doc in missing:
                self.session.lm.answers = _unplain(answers[doc]["responses"])
                [one] = self.session.administer([int(doc)])
                self.administered[doc] = one
        finally:
            self.session.lm = model


class _Recorded:
    """Plays recorded answers back where a model is expected."""

    world_size = 1

    def __init__(self) -> None:
        self.answers: list[list[Any]] = []

    def _play(self, requests: Sequence[Any]) -> list[Any]:
        return [answer for group in self.answers for answer in group]

    generate_until = loglikelihood = _play


def _plain(responses: Any) -> list[Any]:
    return [[list(r) if isinstance(r, tuple) else r for r in group] for group in responses]


def _unplain(responses: Any) -> list[Any]:
    return [[tuple(r) if isinstance(r, list) else r for r in group] for group in responses]


def _safe_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
