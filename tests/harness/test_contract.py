"""The contract with the harness: it has all that we use of it, and nothing else is used."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import datetime
import functools
import hashlib
import importlib
import inspect
import io
import json
import logging
import os
import re
import string
import subprocess
import threading
import types
import urllib.parse
import urllib.request
from pathlib import Path

import aiohttp
import pytest
from packaging.specifiers import SpecifierSet

import lm_eval_ccat
from lm_eval_ccat import ItemBank
from lm_eval_ccat.errors import HarnessError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.internals import IndexEntry, names
from lm_eval_ccat.harness.judge import JudgeSettings
from lm_eval_ccat.harness.judge.rater import Usage
from lm_eval_ccat.harness.served import Served
from lm_eval_ccat.harness.transport import ServerCall, ServerError
from lm_eval_ccat.metrics import Metric, Scale
from lm_eval_ccat.metrics.text_pairs import MetricName
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.ranker import Ranking
from lm_eval_ccat.ranker.rows import ModelRow

ROOT = Path(lm_eval_ccat.__file__).parent
HARNESS = ROOT / "harness"
#: Attributes and methods of the harness's objects, by class.
ATTRIBUTES = {
    "lm_eval.api.task:ConfigurableTask|Task": (
        "MULTIMODAL OUTPUT_TYPE VERSION _filters|_scorers _metric_fn_list? _registry? "
        "_try_process_results? "
        "aggregation build_all_requests config construct_requests doc_to_prefix|_resolve_field "
        "doc_to_target dump_config eval_docs fewshot_cfg|_fewshot_cfg fewshot_context fewshot_rnd "
        "get_config higher_is_better instances multiple_target|_multiple_targets process_results "
        "sampler set_config set_fewshot_seed _qualified_name|task_name UNSAFE_CODE?"
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
    "lm_eval.api.filter:FilterEnsemble": "apply name filters",
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
    "lm_eval.tasks:TaskManager": "load task_index|_task_index",
    "lm_eval.tasks._index:Entry": "cfg kind tags yaml_path",
    "lm_eval.api.model:LM": (
        "apply_chat_template chat_template create_from_arg_obj generate_until loglikelihood "
        "tokenizer_name world_size"
    ),
    "lm_eval.api.model:CacheHook": "add_partial",
    "lm_eval.api.model:CachingLM": "dbdict lm",
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
    "lm_eval.loggers.evaluation_tracker:GeneralConfigTracker": (
        "log_experiment_args model_name_sanitized"
    ),
    "lm_eval._cli.run:Run": "_execute",
    "lm_eval.config.evaluate_config:EvaluatorConfig": (
        "batch_size device load_yaml_config max_batch_size"
    ),
}

#: Methods that must be the harness's own, by the class that defines them.
STOCK = {
    "lm_eval.api.task:ConfigurableTask|Task": f"{names.BUILDING} process_results",
    "lm_eval.models.api_models:TemplateAPI": names.SENDING,
}

#: What is replaced, and for how long.
PATCHED = {
    "lm_eval.evaluator:evaluate": "for good, where a task is run adaptively or scored by a judge",
    "lm_eval.evaluator:get_git_commit_hash": "for good: outside a repository git need not say so",
    "lm_eval.models.api_models:TemplateAPI.generate_until": "of one model, while it is connected",
    "lm_eval.models.api_models:TemplateAPI.loglikelihood": "of one model, likewise",
    "lm_eval.models.api_models:TemplateAPI.parse_generations": "of one model, to hear its server",
    "lm_eval.models.api_models:TemplateAPI.parse_logprobs": "of one model, to hear its server",
    "lm_eval.models.api_models:TemplateAPI.max_retries": "of one model, whose retries are ours",
    "lm_eval.utils:env?.from_string": "for good: it keeps templates that it has compiled",
    "lm_eval.models.huggingface:HFLM.batch_size_per_gpu": "of one model, once its size is found",
}

#: What may read the harness's objects; the rest of the package asks these modules.
READERS = {*HARNESS.rglob("*.py")} - {HARNESS / "comet_worker.py"}


@functools.cache
def trees():
    """The modules that know the harness, parsed."""
    return {path: ast.parse(path.read_text()) for path in sorted(READERS)}


def ours():
    return [n for tree in trees().values() for n in ast.walk(tree)]


def class_of(name):
    try:
        return names.resolve(name)
    except ModuleNotFoundError:
        if name.endswith("?"):
            return None
        raise


def has(kind, attribute):
    """Whether objects of a class have an attribute: defined, annotated, or set by some method."""
    if hasattr(kind, attribute):
        return True
    for one in kind.__mro__[:-1]:
        if attribute in vars(one).get("__annotations__", {}):
            return True
        if re.search(rf"\bself\.{attribute}\b[^=\n]*=", inspect.getsource(one)):
            return True
    return False


def asked():
    """Every name that is looked up in the harness."""
    return sorted({
        node.args[0].value
        for node in ours()
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "resolve"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    })  # fmt: skip


@pytest.mark.parametrize("name", asked())
def test_the_harness_has_every_name(name):
    assert names.resolve(name) is not None or name.endswith("?")


def marked(name):
    """A name; whoever looks up the class of models with weights imports PyTorch, for seconds."""
    return pytest.param(name, marks=[pytest.mark.long] if ":HFLM" in name else [])


@pytest.mark.parametrize("name", map(marked, ATTRIBUTES))
def test_the_harness_s_objects_have_every_attribute(name):
    kind = class_of(name)
    for wanted in ATTRIBUTES[name].split() if kind is not None else ():
        if not wanted.endswith("?"):
            assert any(has(kind, one) for one in wanted.split("|")), f"{name} lacks {wanted}"


@pytest.mark.parametrize("name", STOCK)
def test_the_harness_s_own_classes_count_as_its_own(name):
    kind, stock = class_of(name), STOCK[name]
    module = ".".join(kind.__module__.split(".")[:3])
    changed = type("Changed", (kind,), {stock.split()[0]: lambda self: None})
    assert names.is_stock(kind, stock, module) and not names.is_stock(changed, stock, module)


@pytest.mark.parametrize("name", map(marked, PATCHED))
def test_what_is_patched_is_there(name):
    path, _, attribute = name.rpartition("." if "." in name.split(":")[1] else ":")
    holder = names.resolve(path) if ":" in path else importlib.import_module(path)
    if holder is not None or not path.endswith("?"):  # 0.5 keeps its templates itself
        assert hasattr(holder, attribute) or has(holder, attribute)


def test_every_attribute_that_is_read_is_listed():
    """Attributes that neither Python nor these modules define are the harness's."""
    python = [
        str, bytes, dict, list, set, int, float, type, property(), re.Pattern, json.JSONDecoder,
        logging.Logger,
        inspect.Signature, inspect.BoundArguments, dataclasses.Field, asyncio.AbstractEventLoop,
        asyncio.Future, asyncio.Timeout, aiohttp, aiohttp.ClientSession, aiohttp.ClientResponse,
        aiohttp.StreamReader, aiohttp.TCPConnector, aiohttp.connector.Connection,
        urllib.parse.SplitResult, urllib.request,
        types.CodeType, io.StringIO, os.path, subprocess.Popen, hashlib.sha256(), Path,
        threading.Lock(),
        string.Template(""), datetime.timedelta, functools.partial(int),
        Ranking, ModelRow, ItemBank, Metric, MetricName, Scale, IndexEntry,
        internals.Requests, JudgeSettings, Usage, Served, ServerCall, ServerError("", ""), Tokens,
    ]  # fmt: skip
    listed = set(" ".join([*ATTRIBUTES.values(), *STOCK.values()]).split())
    listed |= {name.split(":")[1] for name in (*asked(), *PATCHED)}
    listed = {part.strip("?") for name in listed for part in re.split(r"[|.]", name)}
    # Marks of ours, then what transformers, aiohttp, ssl and a process that ended name so.
    listed |= {"_ccat", "reused", "_name_or_path", "connector", "force_close"}
    listed |= {"certificate_error", "verify_message", "returncode"}
    unlisted = set()
    for path in READERS:
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        imported = vars(importlib.import_module(module.removesuffix(".__init__"))).values()
        homes = [str(getattr(thing, "__module__", "")) for thing in imported]
        known = {attribute for thing in python for attribute in dir(thing)}
        known |= {f for thing in python for f in getattr(thing, "__dataclass_fields__", ())}
        for thing, home in zip(imported, homes):
            if not home.startswith("lm_eval."):
                known |= {*dir(thing), *getattr(thing, "__dataclass_fields__", ())}
        read = set()
        for node in ast.walk(trees()[path]):
            if isinstance(node, ast.Attribute):
                (known if ast.unparse(node.value) == "self" else read).add(node.attr)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "getattr", "hasattr", "setattr", "attribute"
            ):  # fmt: skip
                read |= {
                    one for a in node.args[1:2] if isinstance(a, ast.Constant)
                    for one in str(a.value).split("|")
                }  # fmt: skip
        unlisted |= {(path.name, name) for name in read - known - listed}
    assert not unlisted, sorted(unlisted)


def test_no_other_module_imports_the_harness_or_reads_its_objects():
    # Attributes that have no other meaning in this package.
    theirs = (
        "OUTPUT_TYPE|MULTIMODAL|UNSAFE_CODE|doc_to_target|dump_config|eval_docs|fewshot_context|"
        "filtered_resps|get_config|process_results|request_type|resps|set_config|"
        "set_fewshot_seed|task_name"
    )
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if path != HARNESS / "internals" / "bases.py":
            assert not re.search(r"^\s*(?:import|from) lm_eval\b", text, re.M), path
        if path not in READERS and re.search(rf"\.(?:{theirs})\b", text):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "internals":
                    assert not re.fullmatch(theirs, node.attr), f"{path}:{node.lineno}"


def test_the_requirement_is_the_range_we_know():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    [specifier] = re.findall(r'"lm-eval(>=[^"]+)"', project)
    low, high = (".".join(map(str, bound)) for bound in names.SUPPORTED)
    assert SpecifierSet(specifier).contains(low) and not SpecifierSet(specifier).contains(high)


@pytest.mark.parametrize("version", ["0.4.11", "0.5", "not installed"])
def test_another_version_is_refused_unless_it_is_to_be_tried(version, monkeypatch, caplog):
    monkeypatch.delenv(names.ANY_VERSION, raising=False)
    monkeypatch.setattr(names, "harness_version", lambda: version)
    require = names.require_supported_version.__wrapped__
    with pytest.raises(HarnessError, match=r"install 'lm-eval>=0\.4\.12,<0\.5'"):
        require()
    monkeypatch.setenv(names.ANY_VERSION, "1")
    if version != "not installed":
        require()
        assert f"lm-eval {version}" in caplog.text


@pytest.mark.parametrize("command", ["check {task}", "run --model dummy --tasks {task}"])
def test_every_command_that_needs_the_harness_refuses_another_version(
    command, monkeypatch, bench, capsys
):
    from lm_eval_ccat.cli.main import main

    monkeypatch.delenv(names.ANY_VERSION, raising=False)
    monkeypatch.setattr(names, "harness_version", lambda: "0.4.10")
    names.require_supported_version.cache_clear()
    try:
        code = main(command.format(task=bench.tasks / "texts.yaml").split())
    finally:
        names.require_supported_version.cache_clear()
    error = capsys.readouterr().err
    assert code == 1 and "lm-eval 0.4.10" in error and "Traceback" not in error


def test_a_name_that_moved_is_found_under_either_name():
    assert names.resolve("lm_eval.utils:absent|hash_string")("") == internals.hash_text("")
    assert names.resolve("lm_eval.utils:absent?") is None
    with pytest.raises(AttributeError, match="no lm_eval"):
        names.resolve("lm_eval.utils:absent|gone")


def test_the_proposal_to_the_harness_states_how_much_is_used():
    attributes, stock = (sum(len(v.split()) for v in of.values()) for of in (ATTRIBUTES, STOCK))
    stated = " ".join((ROOT.parent / "docs/evidence/upstream.md").read_text().split())
    assert f"lists {attributes} attributes and methods, {stock} more" in stated
    assert f"and {len(PATCHED)} places" in stated
