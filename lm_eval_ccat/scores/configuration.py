"""What makes one configuration of a model, and how its name says so.

One model is one configuration: the harness names a model by its path alone, so runs that differ in
revision, dtype, quantization, peft or token limits, or on one task in chat template, system
instruction or examples as turns, get names that say what differs (``Qwen3-4B@step2000``,
``Qwen3-4B+4bit``). Generation settings tell the configs of a model apart.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..records import Header
from .prompts import DIGITS, hash_of

# The arguments by which the harness names a model.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
# The name that it makes up without them; one that has no digit is rare, and looks like a word.
_MADE_UP_NAME = re.compile(r"(?=.*\d)[a-z0-9]{8}")


class _Naming(NamedTuple):
    """How the name of a configuration states a setting.

    Attributes
    ----------
    template : str
        What is added to the model's name, with ``{}`` for the value; "" for ``+setting={}``.
    usual : str
        The value that says as much as none, in lower case.
    """

    template: str
    usual: str


#: Arguments of which another value is another configuration of a model, and how its name says so.
_CONFIGURING = {
    "pretrained": ("+{}", ""),  # of one adapter on several models
    "revision": ("@{}", "main"), "subfolder": ("/{}", ""), "dtype": ("+{}", "auto"),
    "load_in_4bit": ("+4bit", "false"), "load_in_8bit": ("+8bit", "false"),
    "quantization": ("+{}", "none"), "gguf_file": ("+{}", ""), "autogptq": ("+gptq", "false"),
    "gptqmodel": ("+gptq", "false"), "peft": ("+{}", ""), "delta": ("+{}", ""),
    "lora_local_path": ("+{}", ""),
    **dict.fromkeys(
        (
            "max_length", "max_model_len", "context_length", "max_gen_toks", "max_tokens",
            "bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "kv_cache_dtype", "enable_thinking",
            "mixed_precision_dtype", "softmax_dtype", "think_end_token",
            "tokenizer", "add_bos_token", "reasoning_effort", "system_prompt", "steer_path",
        ),
        ("", ""),
    ),
}  # fmt: skip
#: Settings that say how its prompts were written, in the same form.
WRITING = {
    "chat_template": ("", ""), "system_instruction": ("", ""),
    "fewshot_as_multiturn": ("+multiturn", "false"),
}  # fmt: skip
#: How a name states each of these settings.
_NAMINGS = {key: _Naming(*naming) for key, naming in {**_CONFIGURING, **WRITING}.items()}
#: Generation settings that say nothing, as the harness assumes them.
_USUAL_GENERATION = {"temperature": "0", "do_sample": "false"}
#: Settings of which a model has one value each: another one is another configuration, or config.
ONE_OF_A_MODEL = (*_CONFIGURING, *_USUAL_GENERATION)
#: A chat template whose text is not known: that of a server, or of weights that are not open.
UNKNOWN_TEMPLATE = "yes"


def names_by_configuration(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Name the model of each run, by what differs between the configurations of one model.

    Parameters
    ----------
    runs : sequence of (str, dict)
        The harness's name of the model, and the results file.

    Examples
    --------
    >>> arguments = ["", ",revision=step2000", ",load_in_4bit=True,dtype=auto"]
    >>> results = [{"config": {"model_args": f"pretrained=org/m{text}"}} for text in arguments]
    >>> names_by_configuration([("org/m", content) for content in results])
    ['org/m', 'org/m@step2000', 'org/m+4bit']
    """
    configurations = [_configuring(model, model_args_of(results)) for model, results in runs]
    writings = [
        _writing(results, any((results.get("n-shot") or {}).values())) for _, results in runs
    ]
    values: dict[tuple[str, str], set[str]] = {}
    values_on_task: dict[tuple[str, str, str], set[str]] = {}
    for (model, results), configuration, writing in zip(runs, configurations, writings):
        # A run without a results file may be of any configuration: it tells none apart.
        for key in _CONFIGURING if results else ():
            values.setdefault((model, key), set()).add(configuration.get(key, ""))
        for key in WRITING:
            for task in results.get("configs") or ():
                values_on_task.setdefault((model, key, task), set()).add(writing.get(key, ""))
    # Tasks may be asked in different ways. Configurations differ if the same task was asked in two.
    for (model, key, _), texts in values_on_task.items():
        if len(texts) > 1:
            values.setdefault((model, key), set()).update(texts)
    names = []
    for (model, _), configuration, writing in zip(runs, configurations, writings):
        differing = [
            _named_value(key, value, values[model, key])
            for key, value in {**configuration, **writing}.items()
            if len(values.get((model, key), ())) > 1
        ]
        names.append("".join([model, *differing]))
    return names


def _named_value(key: str, value: str, values: Collection[str]) -> str:
    """Return how a name states an argument: as shortly as keeps all of its values apart.

    Examples
    --------
    >>> _named_value("revision", "a/step1", {"a/step1", "a/step2"})
    '@step1'
    >>> _named_value("revision", "a/step1", {"a/step1", "b/step1"})
    '@a/step1'
    """
    template = _NAMINGS.get(key, _Naming("", "")).template or f"+{key}={{}}"
    named = {template.format(text.rpartition("/")[2]) for text in values if text}
    # The last part of a path is enough where it tells the values apart.
    if len(named) == len(set(values) - {""}):
        return template.format(value.rpartition("/")[2])
    # ``+4bit`` has no place for a value; of several values other than the usual one, it gets one.
    return template.format(value) if "{}" in template else f"{template}={value}"


def named_apart(name: str, differing: Mapping[str, Sequence[str]], taken: Collection[str]) -> str:
    """Name a configuration of a model by what differs from others of it that have names.

    Parameters
    ----------
    name : str
        The model's name.
    differing : mapping of str to sequence of str
        What differs: the value of this configuration, and those of the others.
    taken : collection of str
        Names of the others. Usual values are named only where the name is taken without them.

    Examples
    --------
    >>> named_apart("m", {"revision": ["step2000", ""]}, ["m"])
    'm@step2000'
    >>> named_apart("m", {"revision": ["", "step2000"], "peft": ["", "org/a"]}, ["m"])
    'm@main+peft=none'
    """
    short_name, full_name = name, name
    for key, values in differing.items():
        usual = _NAMINGS[key].usual if key in _NAMINGS else _USUAL_GENERATION.get(key)
        value, *_ = values
        if value:
            short_name += (part := _named_value(key, value, values))
        # The name stays short, unless a configuration of usual values has it already.
        else:
            part = _named_value(key, usual, [usual, *values]) if usual else f"+{key}=none"
        full_name += part
    return full_name if short_name in taken else short_name


def _configuring(name: str, model_args: Any) -> dict[str, str]:
    """Return the arguments that make a model's configuration, without those that say nothing."""
    arguments = _arguments(model_args)
    # The argument that has the model's name says nothing more, nor does a usual value.
    return {
        key: arguments[key]
        for key in _CONFIGURING
        if arguments.get(key, "") != name
        and arguments.get(key, "").lower() not in ("", "none", _NAMINGS[key].usual)
    }


def configuration_of(name: str, model_args: Any, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what makes a model's configuration: its name, its arguments, how it is asked.

    Parameters
    ----------
    name : str
    model_args : str, mapping or None
    settings : mapping
        Settings of a run, by their names in harness logs: ``generation_kwargs``,
        ``num_fewshot``, ``chat_template`` (whether one was applied), ``chat_template_sha``,
        ``system_instruction``, ``fewshot_as_multiturn``; others do not matter.

    Examples
    --------
    >>> settings = {"generation_kwargs": {"temperature": 0.0}, "system_instruction": "Be brief."}
    >>> configuration_of("m", "pretrained=m,revision=step2000,dtype=auto", settings)
    {'model': 'm', 'revision': 'step2000', 'system_instruction': '213c22ed'}
    """
    return {
        "model": name,
        **_configuring(name, model_args),
        **_generating(settings.get("generation_kwargs") or {}),
        **_writing(settings, settings.get("num_fewshot")),
    }


def sampling_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the part of generation settings by which answers are sampled; {} if they are not.

    Examples
    --------
    >>> sampling_settings({"until": [], "temperature": 0.8}), sampling_settings({"temperature": 0})
    ({'temperature': '0.8'}, {})
    """
    return _generating({key: settings.get(key) for key in _USUAL_GENERATION})


def _generating(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return generation settings as texts, without those that say nothing."""
    # 0 and 0.0 are one value. A truth value is an int, too, and becomes "true" or "false".
    texts = {
        key: f"{value:g}" if type(value) in (int, float) else json.dumps(value).lower()
        for key, value in sorted(settings.items())
        if value is not None
    }
    usual = _USUAL_GENERATION.items()
    return {key: text for key, text in texts.items() if (key, text) not in usual}


def _writing(settings: Mapping[str, Any], n_shots: Any) -> dict[str, str]:
    """Return how prompts were written, as settings or a results file have it.

    Texts are cut to the first digits of their hashes. `n_shots` is the number of examples in a
    prompt, or whether there are any.
    """
    template, instruction = settings.get("chat_template"), settings.get("system_instruction")
    writing = {}
    # Results files have the template or null, settings whether there was one.
    if template not in (None, False):
        writing["chat_template"] = settings.get("chat_template_sha") or UNKNOWN_TEMPLATE
    if instruction:
        writing["system_instruction"] = hash_of(str(instruction))
    # Without examples there is nothing to be put into turns.
    if settings.get("fewshot_as_multiturn") and n_shots:
        writing["fewshot_as_multiturn"] = "true"
    return {key: str(text)[:DIGITS] for key, text in writing.items()}


def configurations_in(header: Header, task: str) -> dict[str, dict[str, str]]:
    """Return what makes the configuration of each model of a run's journal on a task."""
    # A run of several tasks has the settings of each, by the task's name.
    settings = header.task.get("settings") or {}
    # A board's journal of what logs held has models that nobody opened, in place of `models`.
    logged: dict[str, dict[str, str]] = header.config.get("configurations", {}).get(task, {})
    return logged | {
        str(entry.get("name")): configuration_of(
            model_name_of(str(entry.get("model")), entry.get("model_args")),
            entry.get("model_args"),
            settings.get(task) or settings,
        )
        for entry in header.config.get("models") or ()
    }


def names_by_model(configurations: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the name of the one configuration of each model, by the model's name in logs.

    Parameters
    ----------
    configurations : mapping of str to mapping
        What makes the configuration of each model, by its name in a run.

    Examples
    --------
    >>> names_by_model({"step-300": {"model": "ck/step-300"}, "a": {"model": "m"},
    ...                 "b": {"model": "m", "dtype": "float16"}})
    {'ck/step-300': 'step-300'}
    """
    # A model with two configurations in a run has no one name.
    models = Counter(configuration["model"] for configuration in configurations.values())
    return {
        configuration["model"]: name
        for name, configuration in configurations.items()
        if models[configuration["model"]] == 1
    }


class DifferingSetting(NamedTuple):
    """A setting in which two configurations differ, with the value of each; "" if it has none."""

    key: str
    value: str
    peer_value: str


def differing_configurations(
    configuration: Mapping[str, str], peer: Mapping[str, str]
) -> list[DifferingSetting]:
    """Return the settings that make two configurations differ.

    Examples
    --------
    >>> written = {"model": "m", "chat_template": UNKNOWN_TEMPLATE}
    >>> differing_configurations(written, {"model": "m", "chat_template": "70b499c5"})
    []
    >>> differing_configurations(written, {"model": "m"})
    [DifferingSetting(key='chat_template', value='yes', peer_value='')]
    """
    settings = [
        DifferingSetting(key, configuration.get(key, ""), peer.get(key, ""))
        for key in {**configuration, **peer}
    ]
    return [setting for setting in settings if _differs(setting)]


def _differs(setting: DifferingSetting) -> bool:
    """Whether the two values of a setting make two configurations."""
    values = {setting.value, setting.peer_value}
    # A template whose text is not known may be any.
    may_be_any = setting.key == "chat_template" and "" not in values and UNKNOWN_TEMPLATE in values
    return len(values) > 1 and not may_be_any


def model_args_of(results: Mapping[str, Any]) -> Any:
    """Return the arguments of the model that a results file states, a text or an object."""
    config = results.get("config")
    return config.get("model_args") if isinstance(config, dict) else None


def _arguments(arguments: Any) -> dict[str, str]:
    """Return the arguments of a model, which results files hold as a text or an object."""
    if not isinstance(arguments, Mapping):
        parts = arguments.split(",") if isinstance(arguments, str) else ()
        arguments = dict(part.partition("=")[::2] for part in parts)
    return {str(key).strip(): str(value).strip() for key, value in arguments.items()}


def model_name_of(model: str, arguments: Any) -> str:
    """Return the name of a model by its arguments as the harness does, else by type and arguments.

    Examples
    --------
    >>> model_name_of("hf", "dtype=auto,pretrained=gpt2")
    'gpt2'
    >>> model_name_of("echo", {"system": 3})
    'echo:system=3'
    """
    if isinstance(arguments, Mapping):
        arguments = ",".join(f"{key}={value}" for key, value in arguments.items())
    text, values = arguments if isinstance(arguments, str) else "", _arguments(arguments)
    named = next((values[key] for key in _NAMING if values.get(key)), None)
    return named or (f"{model}:{text}" if text else model)


def model_of(results: Mapping[str, Any], folder: Path) -> str:
    """Return the name of a run's model, from its results file and the folder that holds it.

    Where the model's arguments name nothing (a registered system without weights), the harness
    makes up a new random name for every run; there the model type and its arguments name it, so
    that two runs of one system are one model.
    """
    name, source = results.get("model_name"), results.get("model_source")
    config, arguments = results.get("config"), model_args_of(results)
    # The harness calls a model object that a program hands to it "CUSTOM".
    made_up = bool(_MADE_UP_NAME.fullmatch(str(name))) and str(name) not in str(arguments)
    if made_up and source and source != "CUSTOM":
        return model_name_of(str(source), arguments)
    if not name and isinstance(config, dict) and arguments:  # before 0.4.3 results named no model
        return model_name_of(str(config.get("model")), arguments)
    # The harness files a model object that has no name under "None".
    return str(name).strip() if name else (folder.parent if folder.name == "None" else folder).name
