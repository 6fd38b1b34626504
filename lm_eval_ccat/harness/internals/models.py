"""What we ask of a model of the harness."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...errors import HarnessError
from .names import resolve

#: Packages that model types import, by the extra that installs them.
_EXTRAS = {
    "hf": ("torch", "transformers", "accelerate", "peft"),
    "api": ("aiohttp", "tenacity", "requests", "tiktoken"),
}
_CONFIG = "lm_eval.config.evaluate_config:EvaluatorConfig"
#: What every model type behind a server needs; the harness finds out when a model is made.
_API_PACKAGES = ("aiohttp", "tenacity", "requests")


@contextmanager
def naming_extras() -> Iterator[None]:
    """Turn a missing package of a model type into an error that names the extra to install.

    Raises
    ------
    HarnessError
        With the remedy.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        for extra, packages in _EXTRAS.items():
            for package in packages:
                if error.name == package or f"'{package}'" in str(error):
                    raise HarnessError(
                        f"the model needs the package {package}, which is not installed; "
                        f"pip install 'lm-eval-ccat[{extra}]'"
                    ) from error
        raise


#: First parts of the names of model types that load weights; others are behind a server.
_WITH_WEIGHTS = frozenset(
    "habana hf huggingface ipex mamba_ssm megatron_lm nemo_lm neuronx onnxruntime openvino sglang "
    "steered trtllm vllm winml".split()
)


def require_backends(models: Iterable[str]) -> None:
    """Refuse registered model types whose packages are not installed; makes no model.

    Raises
    ------
    HarnessError
        With the extra to install.
    """
    for model in models:
        with naming_extras():
            model_class = _model_class(model)
            kinds = {f"{kind.__module__}.{kind.__name__}" for kind in model_class.__mro__}
            if "lm_eval.models.api_models.TemplateAPI" in kinds:
                for package in _API_PACKAGES:
                    if find_spec(package) is None:
                        raise ModuleNotFoundError(f"No module named '{package}'", name=package)


def make_lm(
    model: str, model_args: Mapping[str, Any] | None, additional: Mapping[str, Any] | None = None
) -> Any:
    """Instantiate a registered model type as the harness's own command does.

    Parameters
    ----------
    model : str
        The model type.
    model_args : mapping or None
        What the type takes; a batch size or device among them counts.
    additional : mapping, optional
        ``batch_size``, ``max_batch_size`` and ``device``. What is None or missing is as in the
        harness's command, whose ``device`` is the first card where there is one, and else the CPU.
        (A model type left to its own default may insist on a card.)
    """
    arguments = dict(model_args or {})
    default = {f.name: f.default for f in fields(resolve(_CONFIG))}
    wanted = {
        name: default[name] if (additional or {}).get(name) is None else (additional or {})[name]
        for name in ("batch_size", "max_batch_size", "device")
        if name not in arguments
    }
    with naming_extras():
        return _model_class(model).create_from_arg_obj(arguments, wanted)


def model_types() -> list[str]:
    """Names of the registered model types, those of the harness's own and others'."""
    import_module("lm_eval.models")
    return [str(name) for name in resolve("lm_eval.api.registry:model_registry")]


def holds_weights(name: str) -> bool:
    """Whether a model type loads weights into the memory of this machine, by its name."""
    return name.split("-")[0] in _WITH_WEIGHTS and name != "sglang-generate"


def _model_class(name: str) -> Any:
    # The harness registers its own only while no other is registered.
    import_module("lm_eval.models")
    return resolve("lm_eval.api.registry:get_model")(name)


def known_arguments(name: str) -> set[str] | None:
    """Arguments that a model type reads; None where it hands what it does not know on."""
    with naming_extras():
        kind = _model_class(name)
    kinds = {f"{k.__module__}.{k.__name__}" for k in kind.__mro__}
    if "lm_eval.models.api_models.TemplateAPI" not in kinds:
        return None
    found = {"batch_size", "max_batch_size", "device"}
    for k in kind.__mro__:
        found.update(inspect.signature(k.__init__).parameters if "__init__" in vars(k) else ())
    return found - {"self", "args", "kwargs"}


def with_cache(lm: Any, path: str) -> Any:
    """Wrap a model in the harness's response cache; one file per model, never shared."""
    return resolve("lm_eval.api.model:CachingLM")(lm, path)


def unwrapped(lm: Any) -> Any:
    """The model itself, where the response cache wraps it."""
    return getattr(lm, "lm", lm)


def model_arguments(model_args: Any) -> dict[str, Any]:
    """A model's arguments as a mapping, whichever way they were given."""
    if isinstance(model_args, str):
        model_args = resolve("lm_eval.utils:simple_parse_args_string")(model_args)
    return dict(model_args or {})


def world_size(lm: Any) -> int:
    """Number of processes the model is spread over by data parallelism."""
    return int(getattr(lm, "world_size", 1) or 1)


def token_counter(lm: Any) -> Callable[[str], int] | None:
    """A function that counts a text's tokens by the model's own tokenizer, or None."""
    inner = unwrapped(lm)
    encode = getattr(inner, "tok_encode", None)
    if encode is None or getattr(inner, "tokenizer", None) is None:
        return None

    def count(text: str) -> int:
        return len(encode(text))

    try:
        count("one two")
    except Exception:  # a tokenizer that cannot be called is none; the price is then estimated
        return None
    return count


def generate(lm: Any, prompts: Sequence[Any], gen_kwargs: Mapping[str, Any]) -> list[str]:
    """Texts that a model generates for prompts, outside any task."""
    make = resolve("lm_eval.api.instance:Instance")
    requests = [
        make(request_type="generate_until", doc={}, arguments=(prompt, dict(gen_kwargs)), idx=i)
        for i, prompt in enumerate(prompts)
    ]
    return [str(text) for text in lm.generate_until(requests)]


def model_name(lm: Any) -> str:
    """The name by which a model is known outside the harness, as far as it tells."""
    inner = unwrapped(lm)
    candidates = (
        getattr(inner, "model", None),  # API models
        getattr(inner, "pretrained", None),
        getattr(getattr(inner, "config", None), "_name_or_path", None),
    )
    for name in candidates:
        if isinstance(name, str) and name:
            return name
    return type(inner).__name__


def hear_answers(lm: Any, listen: Callable[[Any], None]) -> None:
    """Have a function told of each answer of a server before the model reads it, once.

    A model whose requests are routed (see `route`) is left alone.
    """

    def listening(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def heard(*args: Any, **kwargs: Any) -> Any:
            listen(kwargs.get("outputs", args[0] if args else None))
            return function(*args, **kwargs)

        return heard

    inner = unwrapped(lm)
    if "generate_until" in vars(inner):
        return
    for name in ("parse_generations", "parse_logprobs"):
        function = getattr(inner, name, None)
        if callable(function) and name not in vars(inner):
            setattr(inner, name, listening(function))


def own_retries(lm: Any, attempts: int) -> int | None:
    """Set how often the model itself repeats a failed request; what it was, None without such."""
    inner = unwrapped(lm)
    before: int | None = getattr(inner, "max_retries", None)
    if before is not None:
        inner.max_retries = attempts
    return before
