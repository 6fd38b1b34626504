"""The names we use of lm-eval, the releases that have them, and how one is reached."""

from __future__ import annotations

import functools
import logging
import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...errors import HarnessError

#: Releases whose internals this module knows: from the first, up to but without the second.
SUPPORTED = ((0, 4, 12), (0, 5))
#: Set to try a release outside `SUPPORTED` all the same; nothing is promised of it.
ANY_VERSION = "CCAT_ANY_HARNESS"

#: "module:attribute" of everything used in this folder; names of other releases stand after "|".
USED = (
    "lm_eval._cli.run:Run",
    "lm_eval.api.instance:Instance",
    "lm_eval.api.model:CachingLM",
    "lm_eval.api.model:LM",
    "lm_eval.api.registry:DEFAULT_METRIC_REGISTRY",
    "lm_eval.api.registry:get_model",
    "lm_eval.api.registry:model_registry",
    "lm_eval.api.samplers:FirstNSampler",
    "lm_eval.api.task:ConfigurableTask|Task",
    "lm_eval.api.task:Task",
    "lm_eval.api.task:Task.build_all_requests",
    "lm_eval.api.task:Task.set_fewshot_seed",
    "lm_eval.config.evaluate_config:EvaluatorConfig",
    "lm_eval.defaults:LMEVAL_HASHMM",
    "lm_eval.evaluator:evaluate",
    "lm_eval.evaluator:simple_evaluate",
    "lm_eval.evaluator_utils:EvalAcc|_EvalAcc",
    "lm_eval.evaluator_utils:_collect_results|_agg_and_collect",
    "lm_eval.evaluator_utils:_handle_back_comp",
    "lm_eval.evaluator_utils:aggregate_groups|_aggregate_groups",
    "lm_eval.evaluator_utils:print_writeout|_print_writeout",
    "lm_eval.loggers:EvaluationTracker",
    "lm_eval.models.api_models:LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER",
    "lm_eval.models.api_models:TemplateAPI",
    "lm_eval.tasks._index:TaskIndex.entry_from_path",
    "lm_eval.tasks._yaml_loader:load_yaml",
    "lm_eval.tasks:TaskManager",
    "lm_eval.tasks:__file__",
    "lm_eval.utils:handle_non_serializable",
    "lm_eval.utils:hash_dict_images",
    "lm_eval.utils:hash_string",
    "lm_eval.utils:setup_logging",
    "lm_eval.utils:simple_parse_args_string",
)


log = logging.getLogger("lm_eval.ccat")


def resolve(name: str) -> Any:
    """The object named ``module:attribute`` (one of `USED`), or ``module:new|old`` by either name.

    Raises
    ------
    HarnessError
        The installed harness is not one whose internals are known here.
    """
    _require_once()
    module, _, paths = name.partition(":")
    there = import_module(module)
    missing: AttributeError | None = None
    for path in paths.split("|"):
        value: Any = there
        try:
            for part in path.split("."):
                value = getattr(value, part)
            return value
        except AttributeError as error:
            missing = missing or error
    assert missing is not None
    raise missing


@functools.cache
def harness_version() -> str:
    """The installed harness's version, ``"not installed"`` without one."""
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return "not installed"


def require_supported_version() -> None:
    """Refuse a harness whose internals this module does not know.

    Every use of the harness's inside comes through `resolve`, which asks this first.

    Raises
    ------
    HarnessError
        The installed version lies outside `SUPPORTED`, or there is none.
    """
    found = harness_version()
    numbers = tuple(int(p) for p in found.split("+")[0].split(".")[:3] if p.isdigit())
    low, high = SUPPORTED
    if low <= numbers < high:
        return
    trouble = (
        f"lm-eval {found} is not one whose internals are known here; "
        f"install 'lm-eval>={'.'.join(map(str, low))},<{'.'.join(map(str, high))}'"
    )
    if found == "not installed" or not os.environ.get(ANY_VERSION):
        raise HarnessError(trouble)
    log.warning("%s (going on because %s is set)", trouble, ANY_VERSION)


@functools.cache
def _require_once() -> None:
    require_supported_version()
