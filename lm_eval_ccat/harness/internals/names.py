"""The contract with lm-eval: every name used of it, and the releases that have it.

A release with moved internals is a change of this folder. `NAMES`, `ATTRIBUTES`, `STOCK` and
`PATCHED` list what the folder touches; tests check that the installed harness has all of it, and
that nothing else is touched. Names of other releases stand after ``|``, optional ones end in ``?``.
"""

from __future__ import annotations

import functools
import logging
import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...errors import HarnessError

log = logging.getLogger("lm_eval.ccat")  # under the harness's, so as its user set it

#: Releases whose internals this folder knows: from the first, up to but without the second.
SUPPORTED = ((0, 4, 12), (0, 5))
#: Set to try a release outside `SUPPORTED` all the same; nothing is promised of it.
ANY_VERSION = "CCAT_ANY_HARNESS"

#: Functions, classes and values, as ``module:name``.
NAMES = (
    "lm_eval._cli.run:Run",
    "lm_eval.api.instance:Instance",
    "lm_eval.api.model:CachingLM",
    "lm_eval.api.model:LM",
    "lm_eval.api.registry:DEFAULT_METRIC_REGISTRY",
    "lm_eval.api.registry:get_model",
    "lm_eval.api.registry:model_registry",
    "lm_eval.api.samplers:ContextSampler",
    "lm_eval.api.samplers:FirstNSampler",
    "lm_eval.api.task:ConfigurableTask|Task",
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
    "lm_eval.models.api_models:LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER?",
    "lm_eval.models.api_models:TemplateAPI",
    "lm_eval.tasks._index:TaskIndex.entry_from_path",
    "lm_eval.tasks._yaml_loader:load_yaml",
    "lm_eval.tasks:TaskManager",
    "lm_eval.tasks:__file__",
    "lm_eval.utils:env",
    "lm_eval.utils:handle_non_serializable",
    "lm_eval.utils:hash_dict_images",
    "lm_eval.utils:hash_string",
    "lm_eval.utils:setup_logging",
    "lm_eval.utils:simple_parse_args_string",
)

#: Attributes and methods of the harness's objects, by class.
ATTRIBUTES = {
    "lm_eval.api.task:ConfigurableTask|Task": (
        "MULTIMODAL OUTPUT_TYPE VERSION _filters|_scorers _metric_fn_list? _registry? "
        "_try_process_results? "
        "aggregation build_all_requests config construct_requests doc_to_prefix|_resolve_field "
        "doc_to_target dump_config eval_docs fewshot_cfg|_fewshot_cfg fewshot_context fewshot_rnd "
        "get_config higher_is_better instances multiple_target|_multiple_targets process_results "
        "sampler set_config set_fewshot_seed task_name UNSAFE_CODE?"
    ),
    "lm_eval.config.task:TaskConfig": (
        "description doc_to_audio doc_to_choice doc_to_image doc_to_target doc_to_text "
        "fewshot_config gen_prefix num_fewshot process_docs? repeats task test_split"
    ),
    "lm_eval.config.task:FewshotConfig": (
        "doc_to_choice doc_to_target doc_to_text gen_prefix process_docs split"
    ),
    "lm_eval.api.samplers:ContextSampler": "rnd sample",
    "lm_eval.api.instance:Instance": (
        "args arguments doc doc_id filtered_resps idx repeats request_type resps"
    ),
    "lm_eval.api.filter:FilterEnsemble": "apply name",
    "lm_eval.api.metrics:Metric?": "fn name",
    "lm_eval.api.registry:Registry": "register",
    "lm_eval.scorers:ScoredDoc?": "scores",
    "lm_eval.scorers:Scorer?": ("apply_filter import_reduced metrics name reduce score_instances"),
    "lm_eval.api.group:Group": "aggregate_metric_list get_all_tasks has_aggregation name",
    "lm_eval.config.group:AggMetricConfig": "filter_list metric weight_by_size",
    "lm_eval.evaluator_utils:EvalAcc|_EvalAcc": (
        "_to_eval_results configs groups higher_is_better metrics n_samples num_fewshot samples "
        "versions"
    ),
    "lm_eval.tasks:TaskManager": "load match_tasks task_index|_task_index",
    "lm_eval.tasks._index:Entry": "cfg kind tags yaml_path",
    "lm_eval.api.model:LM": (
        "apply_chat_template chat_template create_from_arg_obj generate_until loglikelihood "
        "tokenizer_name world_size"
    ),
    "lm_eval.api.model:CacheHook": "add_partial",
    "lm_eval.api.model:CachingLM": "lm",
    "lm_eval.models.api_models:TemplateAPI": (
        "api_key "
        "_batch_size _concurrent _create_payload _loglikelihood_tokens _max_gen_toks _seed "
        "add_bos_token base_url batch_loglikelihood_requests ca_cert_path cache_hook "
        "create_message eos_string header max_length max_retries model parse_generations "
        "parse_logprobs timeout tok_encode tokenized_requests tokenizer "
        "tokenizer_backend verify_certificate"
    ),
    "lm_eval.models.huggingface:HFLM": (
        "_detect_batch_size batch_size batch_size_per_gpu config max_length pretrained tok_encode "
        "tokenizer"
    ),
    "lm_eval.loggers:EvaluationTracker": (
        "general_config_tracker push_results_to_hub push_samples_to_hub recreate_metadata_card "
        "save_results_aggregated save_results_samples"
    ),
    "lm_eval.loggers.evaluation_tracker:GeneralConfigTracker": "log_experiment_args",
    "lm_eval._cli.run:Run": "_execute",
    "lm_eval.config.evaluate_config:EvaluatorConfig": (
        "batch_size device load_yaml_config max_batch_size"
    ),
}

#: Methods that must be the harness's own, by the module that defines them, for what it does with
#: them to be done in parts: building one document's requests, and sending requests to a server.
STOCK = {
    "lm_eval.api.task:ConfigurableTask|Task": (
        "build_all_requests build_qa_turn|_build_qa_turn construct_requests doc_iterator "
        "doc_to_choice doc_to_prefix|_resolve_field doc_to_target doc_to_text eval_docs "
        "fewshot_context fewshot_docs multiple_input_context|_multiple_input_context "
        "process_results"
    ),
    "lm_eval.models.api_models:TemplateAPI": (
        "_loglikelihood_tokens amodel_call batch_loglikelihood_requests generate_until "
        "get_batched_requests model_call"
    ),
}

#: What is replaced, and for how long.
PATCHED = {
    "lm_eval.evaluator:evaluate": "for good, where a task is run adaptively or scored by a judge",
    "lm_eval.evaluator:get_git_commit_hash": "for good: outside a repository git need not say so",
    "lm_eval.models.api_models:TemplateAPI.generate_until": "of one model, while it is connected",
    "lm_eval.models.api_models:TemplateAPI._loglikelihood_tokens": "of one model, likewise",
    "lm_eval.models.api_models:TemplateAPI.parse_generations": "of one model, to hear its server",
    "lm_eval.models.api_models:TemplateAPI.parse_logprobs": "of one model, to hear its server",
    "lm_eval.models.api_models:TemplateAPI.max_retries": "of one model, whose retries are ours",
    "lm_eval.utils:env.from_string": "for good: it keeps templates that it has compiled",
    "lm_eval.models.huggingface:HFLM.batch_size_per_gpu": "of one model, once its size is found",
}


def resolve(name: str) -> Any:
    """Look up one of `NAMES` under any of its spellings; None for an absent optional one.

    Raises
    ------
    HarnessError
        The installed harness is not one whose internals are known here.
    """
    _require_once()
    module, _, paths = name.rstrip("?").partition(":")
    place = import_module(module)
    missing: AttributeError | None = None
    for path in paths.split("|"):
        try:
            return functools.reduce(getattr, path.split("."), place)
        except AttributeError as error:
            missing = missing or error
    if name.endswith("?"):
        return None
    assert missing is not None
    raise missing


def attribute(thing: Any, names: str) -> Any:
    """Return an object's attribute under any of its spellings (``_filters|_scorers``)."""
    *first, last = names.split("|")
    for name in first:
        if hasattr(thing, name):
            return getattr(thing, name)
    return getattr(thing, last)


def is_stock(kind: type, names: str, module: str) -> bool:
    """Whether methods of a class (those of `STOCK`) are defined by a module of the harness."""
    for name in names.split():
        member = attribute(kind, name)
        function = member.fget if isinstance(member, property) else member
        if not str(getattr(function, "__module__", "")).startswith(module):
            return False
    return True


@functools.cache
def harness_version() -> str:
    """The installed harness's version, ``"not installed"`` without one."""
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return "not installed"


def require_supported_version() -> None:
    """Refuse a harness whose internals this folder does not know.

    Every use of the harness's inside comes through `resolve`, which asks this first.

    Raises
    ------
    HarnessError
        The installed version lies outside `SUPPORTED`, or there is none.
    """
    installed = harness_version()
    numbers = tuple(int(p) for p in installed.split("+")[0].split(".")[:3] if p.isdigit())
    low, high = SUPPORTED
    if low <= numbers < high:
        return
    trouble = (
        f"lm-eval {installed} is not one whose internals are known here; "
        f"install 'lm-eval>={'.'.join(map(str, low))},<{'.'.join(map(str, high))}'"
    )
    if installed == "not installed" or not os.environ.get(ANY_VERSION):
        raise HarnessError(trouble)
    log.warning("%s (continuing because %s is set)", trouble, ANY_VERSION)


@functools.cache
def _require_once() -> None:
    require_supported_version()
