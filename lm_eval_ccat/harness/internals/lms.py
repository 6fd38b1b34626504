"""The harness's models: instantiation, batching and requests."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import HarnessError
from ...plugins import near_path, our_extra
from ..served import Served, note_served
from .names import log, resolve

#: Module of the harness's models behind servers.
API_MODELS = "lm_eval.models.api_models"
#: Packages that model types import, by the extra that installs them.
_EXTRAS = {
    "hf": ("torch", "transformers", "accelerate", "peft"),
    "api": ("aiohttp", "tenacity", "requests", "tiktoken"),
}
#: How to do without a package, if that is possible.
_INSTEAD = {
    "transformers": ". For a model behind a server, tokenizer_backend=none in its model_args sends "
    "text instead, which is enough for tasks that generate text"
}
#: Packages that every model type behind a server needs; the harness checks only on instantiation.
_API_PACKAGES = ("aiohttp", "tenacity", "requests")
#: First parts of the names of model types that load weights; the others use a server.
_WITH_WEIGHTS = frozenset(
    "habana hf huggingface ipex mamba_ssm megatron_lm nemo_lm neuronx onnxruntime openvino sglang "
    "steered trtllm vllm winml".split()
)
#: Model types that take only chat messages and whose names do not end so.
_CHAT = ("anthropic-chat", "litellm", "litellm-chat")
#: The model type under which the harness finds the demo's systems (``--model ccat-demo``).
DEMO_TYPE = "ccat-demo"
#: Requests per call to a model with its own queue (offline vLLM, SGLang).
QUEUE = 64


class PlaceholderLM:
    """A stand-in for a model of the harness, for reading a task's requests without one."""

    MULTIMODAL = True
    tokenizer_name = "none"  # in the harness's cache of requests no model's own

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Return no template."""
        return ""

    def apply_chat_template(self, chat: list[dict[str, str]], *_: Any, **__: Any) -> str:
        """Return the messages in the form that models behind a server get."""
        return json.dumps(chat, ensure_ascii=False)

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Return an empty text for each request."""
        return [""] * len(requests)

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Return the same log-likelihood for each request."""
        return [(-1.0, False)] * len(requests)


# -- model types ----------------------------------------------------------------------------------


@contextmanager
def naming_extras() -> Iterator[None]:
    """Turn the error of a package that is not installed into one that says what to install.

    Raises
    ------
    HarnessError
        If a package, or a module of an installed one, is missing: of a model type or of a task.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        text = " ".join(str(error).split())
        for extra, packages in _EXTRAS.items():
            for package in packages:
                # The harness wraps some of these errors in its own, which only quote the name.
                if error.name == package or f"'{package}'" in text or f"`{package}`" in text:
                    raise HarnessError(
                        f"the model needs the package {package}, which is not installed; "
                        f"pip install '{our_extra(extra)}'" + _INSTEAD.get(package, "")
                    ) from error
        # A sentence of the harness, of a model type or a task, which says itself what to install.
        if error.name is None:
            raise HarnessError(text) from error
        package = error.name.partition(".")[0]
        # An older version has no such module, or a newer one no longer.
        if package != error.name and find_spec(package) is not None:
            raise HarnessError(
                f"the installed version of {package} has no module {error.name}: install another"
            ) from error
        raise HarnessError(
            f"the package {error.name} is needed and not installed: pip install it"
        ) from error


def require_backends(models: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Refuse models that cannot answer, before any is instantiated.

    Parameters
    ----------
    models : mapping
        Model type and ``model_args`` of each model.

    Raises
    ------
    HarnessError
        If a package or key is missing; the message names the remedy.
    """
    for name, (model, arguments) in models.items():
        with naming_extras():
            model_class = _model_class(model)
            if not is_api(model_class):
                continue
            for package in _API_PACKAGES:
                if find_spec(package) is None:
                    raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        if arguments.get("header"):
            continue  # sent in place of the key
        try:
            object.__new__(model_class).api_key  # noqa: B018 - the harness looks in the environment
        except ValueError as error:
            raise HarnessError(f"{name}: {error}") from None


def model_types() -> list[str]:
    """Return the names of all registered model types, the harness's own and those of plugins."""
    import_module("lm_eval.models")
    return [str(name) for name in resolve("lm_eval.api.registry:model_registry")]


def register_models() -> None:
    """Register the demo's systems with the harness; their class is imported on use."""
    import_module("lm_eval.models")  # registers the harness's own, without loading them
    registry = resolve("lm_eval.api.registry:model_registry")
    if DEMO_TYPE not in registry:
        registry.register(DEMO_TYPE, target="lm_eval_ccat.demo.systems:DemoSystem")


def holds_weights(name: str) -> bool:
    """Whether a model type loads weights into the memory of this machine, by its name."""
    # That type asks a server.
    return name.split("-")[0] in _WITH_WEIGHTS and name != "sglang-generate"


def takes_messages(name: str) -> bool:
    """Whether a model type takes only chat messages, by its name.

    >>> takes_messages("local-chat-completions"), takes_messages("local-completions")
    (True, False)
    """
    return name.endswith("chat-completions") or name in _CHAT


def known_arguments(name: str) -> set[str] | None:
    """Return the arguments that a model type reads; None if it passes unknown ones on."""
    with naming_extras():
        model_class = _model_class(name)
    # Others hand unknown arguments on to the library that loads their weights.
    if not is_api(model_class):
        return None
    arguments = {"batch_size", "max_batch_size", "device"}
    for base in model_class.__mro__:
        arguments.update(
            inspect.signature(base.__init__).parameters if "__init__" in vars(base) else ()
        )
    return arguments - {"self", "args", "kwargs"}


def seed_of(lm: Any) -> int | None:
    """Return the seed that a model's requests carry; None if its server takes none."""
    make = getattr(type(unwrapped(lm)), "_create_payload", None)
    if make is None or "seed" not in inspect.signature(make).parameters:
        return None
    return int(getattr(unwrapped(lm), "_seed", 1234))


#: Parts of names of OpenAI's models for which the harness sends temperature 1 whatever a task sets.
_REASONING = ("o1", "5", "o3", "o4")


def always_samples(name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a model type samples its answers even if temperature 0 is set."""
    # Other types send what the task sets, whatever the model is called.
    if name not in ("openai-chat-completions", "azure-openai-chat-completions"):
        return False
    model = str(arguments.get("model", ""))
    return any(part in model for part in _REASONING)


def sends_temperature_alone(name: str) -> bool:
    """Whether a model type is sent the temperature, by default 0, and no ``do_sample``."""
    return name == "sglang" or is_api(_model_class(name))


def _model_class(name: str) -> Any:
    """Return the class of a registered model type."""
    # The harness registers its own types only while no others are registered.
    import_module("lm_eval.models")
    return resolve("lm_eval.api.registry:get_model")(name)


def is_api(model_class: type) -> bool:
    """Whether a class is a model behind a server."""
    # By name: the module needs packages that may be missing.
    return f"{API_MODELS}.TemplateAPI" in {
        f"{base.__module__}.{base.__name__}" for base in model_class.__mro__
    }


# -- models ---------------------------------------------------------------------------------------


def make_lm(
    model: str, model_args: Mapping[str, Any] | None, additional: Mapping[str, Any] | None = None
) -> Any:
    """Instantiate a registered model type as the harness's own command does.

    Parameters
    ----------
    model : str
        The model type.
    model_args : mapping or None
        Arguments of the type; a batch size or device among them takes precedence.
    additional : mapping, optional
        ``batch_size``, ``max_batch_size`` and ``device``. A missing value, or None, means the
        default of the harness's command, not of the model type, which may insist on a GPU.
    """
    arguments, overrides = dict(model_args or {}), dict(additional or {})
    config = resolve("lm_eval.config.evaluate_config:EvaluatorConfig")
    default = {field.name: field.default for field in fields(config)}
    settings = {
        name: default[name] if overrides.get(name) is None else overrides[name]
        for name in ("batch_size", "max_batch_size", "device")
        if name not in arguments
    }
    with naming_extras():
        try:
            return _model_class(model).create_from_arg_obj(arguments, settings)
        # The hub's own error says that a repository is missing, where a folder was mistyped.
        except OSError as error:
            if absent := _absent_folder(arguments):
                raise FileNotFoundError(f"{absent} ({error})") from error
            raise


def _absent_folder(arguments: Mapping[str, Any]) -> str:
    """Say which argument looks like a folder of weights and is none; else "".

    Examples
    --------
    >>> Path("weights/good").mkdir(parents=True)
    >>> _absent_folder({"pretrained": "weights/godo"})
    'there is no folder weights/godo; did you mean weights/good?'
    >>> _absent_folder({"pretrained": "EleutherAI/pythia-70m"}), _absent_folder({})
    ('', '')
    """
    for value in arguments.values():
        path = Path(str(value)).expanduser()
        # The name of a hub's repository, ``EleutherAI/pythia-70m``, looks like a path, too.
        is_path = len(path.parts) > 1 and (path.parent.is_dir() or str(value)[:1] in "./~")
        if isinstance(value, str) and is_path and not path.exists():
            return f"there is no folder {value}{near_path(path)}"
    return ""


def model_arguments(model_args: Any) -> dict[str, object]:
    """Return a model's arguments as a mapping, whether given as text or as a mapping."""
    if isinstance(model_args, str):
        model_args = resolve("lm_eval.utils:simple_parse_args_string")(model_args)
    return dict(model_args or {})


def pairs_of(text: str) -> dict[str, object]:
    """Return what ``a=b,c=d`` stands for on the harness's command line."""
    return dict(resolve("lm_eval._cli.utils:key_val_to_dict")(text))


def with_cache(lm: Any, path: str) -> Any:
    """Wrap a model in the harness's response cache; one file per model, never shared."""
    return resolve("lm_eval.api.model:CachingLM")(lm, path)


def in_cache(lm: Any, request: Any) -> bool:
    """Whether the harness's response cache, if it wraps the model, answers a request."""
    kind, arguments = request.request_type, request.args
    # The harness's cache never answers what is sampled.
    if unwrapped(lm) is lm or (kind == "generate_until" and arguments[1].get("do_sample", False)):
        return False
    return resolve("lm_eval.api.model:hash_args")(kind, arguments) in lm.dbdict


def unwrapped(lm: Any) -> Any:
    """Return the model without the response cache that may wrap it."""
    return getattr(lm, "lm", lm)


def model_name(lm: Any) -> str:
    """Return the name by which a model is known outside the harness, or its class."""
    inner = unwrapped(lm)
    candidates = (
        getattr(inner, "model", None),  # API models
        getattr(inner, "pretrained", None),
        getattr(getattr(inner, "config", None), "_name_or_path", None),
    )
    named = (name for name in candidates if isinstance(name, str) and name)
    return next(named, type(inner).__name__)


def token_counter(lm: Any) -> Callable[[str], int] | None:
    """Return a function that counts tokens by the model's own tokenizer; None if it has none."""
    inner = unwrapped(lm)
    encode = getattr(inner, "tok_encode", None)
    if encode is None or getattr(inner, "tokenizer", None) is None:
        return None

    def count(text: str) -> int:
        return len(encode(text))

    try:
        count("one two")
    except Exception:  # without a working tokenizer, tokens are estimated
        return None
    return count


def set_client_attempts(lm: Any, attempts: int) -> int | None:
    """Set how often a model's client sends a request; return the old number, None without one."""
    inner = unwrapped(lm)
    before: int | None = getattr(inner, "max_retries", None)
    if before is not None:
        inner.max_retries = attempts
    return before


def note_server_reports(lm: Any) -> None:
    """Note what a server reports with each answer to a model that sends its own requests.

    Models whose requests go through a `Transport` are left unchanged.
    """

    def with_note(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            outputs = kwargs.get("outputs", args[0] if args else None)
            bodies = outputs if isinstance(outputs, list) else [outputs]
            note_served([Served.of(body) for body in bodies])  # headers are not at hand
            return function(*args, **kwargs)

        return noted

    inner = unwrapped(lm)
    # It goes through a `Transport`, which notes the answers itself.
    if "generate_until" in vars(inner):
        return
    for name in ("parse_generations", "parse_logprobs"):
        function = getattr(inner, name, None)
        if callable(function) and name not in vars(inner):
            setattr(inner, name, with_note(function))


# -- answers --------------------------------------------------------------------------------------


def requests_for(prompts: Sequence[Any], gen_kwargs: Mapping[str, Any]) -> list[Any]:
    """Make requests that generate texts for prompts, outside any task."""
    make = resolve("lm_eval.api.instance:Instance")
    return [
        make(
            request_type="generate_until",
            doc={},
            arguments=(prompt, dict(gen_kwargs)),
            idx=0,
            metadata=("", number, 1),  # task, document and number of answers
        )
        for number, prompt in enumerate(prompts)
    ]


def send(lm: Any, instances: Sequence[Any]) -> None:
    """Run requests through the model and store each response with its request.

    As `lm_eval.evaluator.evaluate` does: per request type one call, each request repeated
    ``repeats`` times in a row, the responses appended in order.
    """
    by_type: dict[str, list[Any]] = {}
    for instance in instances:
        by_type.setdefault(instance.request_type, []).extend([instance] * instance.repeats)
    answers = {kind: _answer(lm, kind, requests) for kind, requests in by_type.items()}
    for kind, requests in by_type.items():
        # Answers are told apart by their position, so a missing one would shift all others.
        if len(answers[kind]) != len(requests):
            raise HarnessError(
                f"the model answered {len(answers[kind])} of {len(requests)} {kind} requests"
            )
    # Stored only once every answer is there: a call that fails leaves no half-asked document.
    for kind, requests in by_type.items():
        store(requests, answers[kind])


def store(requests: Sequence[Any], answers: Sequence[Any]) -> None:
    """Store each answer with its request; a request may occur several times."""
    for request in requests:
        request.resps = []
    for request, answer in zip(requests, answers):
        request.resps.append(answer)


def _answer(lm: Any, kind: str, requests: list[Any]) -> list[Any]:
    """Return a model's answers to requests of a type, in smaller batches if memory runs out."""
    method = getattr(lm, kind)
    # Progress bars for a few documents at a time are useless.
    has_bar = "disable_tqdm" in inspect.signature(method).parameters
    while True:
        try:
            return list(method(requests, disable_tqdm=True) if has_bar else method(requests))
        except RuntimeError as error:
            if "out of memory" not in str(error).lower() or not halve_batch_size(lm):
                raise


# -- how many requests a model takes at once ------------------------------------------------------


class Width(NamedTuple):
    """How many calls a model takes at the same time, and how many requests per call."""

    calls: int
    requests: int


def requests_at_once(lm: Any) -> Width:
    """Return how many requests a model takes at the same time.

    API models take ``num_concurrent`` calls of ``batch_size`` prompts; local ones one call of
    ``batch_size``. A model that fills its batches itself takes calls of `QUEUE`.
    """
    inner = unwrapped(lm)
    # Only models behind a server take several calls at a time.
    if hasattr(inner, "_concurrent"):
        return Width(max(1, int(inner._concurrent)), max(1, int(getattr(inner, "_batch_size", 1))))
    size = getattr(inner, "batch_size", 1)
    if str(size).startswith("auto"):
        return Width(1, QUEUE)
    try:
        return Width(1, max(1, int(size)))
    except (TypeError, ValueError):  # a model without a batch size
        return Width(1, 1)


def halve_batch_size(lm: Any) -> bool:
    """Halve a local model's batch size after it ran out of memory; False if that is impossible."""
    size = getattr(unwrapped(lm), "batch_size_per_gpu", 1)
    if not isinstance(size, int) or size < 2:
        return False
    log.warning("out of memory with a batch of %d; continuing with %d", size, size // 2)
    unwrapped(lm).batch_size_per_gpu = size // 2
    return True
