"""The contract with the harness: the names we use exist, and its version is one we know."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import lm_eval_ccat
from lm_eval_ccat.errors import HarnessError, UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.shipped import shipped_tasks, with_shipped_tasks


@pytest.mark.parametrize("name", internals.USED)
def test_the_installed_harness_has_every_internal_name_we_use(name):
    assert internals.resolve(name) is not None


def test_every_name_that_is_resolved_is_listed():
    folder = Path(internals.__file__).parent
    names = [
        node.value
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("lm_eval.")
        and ":" in node.value
    ]
    assert set(names) == set(internals.USED)


def test_no_other_module_names_an_internal_of_the_harness():
    root = Path(lm_eval_ccat.__file__).parent
    allowed = {
        "harness/internals/bases.py": {"lm_eval.api.task", "lm_eval.api.model"},  # for types only
    }
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root).as_posix()
        if where in allowed and allowed[where] is None:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            for module in modules:
                if module.split(".")[0] == "lm_eval":
                    assert module in (allowed.get(where) or set()), f"{where} imports {module}"


def test_the_requirement_is_the_range_we_know():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    [specifier] = re.findall(r'"lm-eval(>=[^"]+)"', project)
    ours = SpecifierSet(specifier)
    low, high = (".".join(map(str, bound)) for bound in internals.SUPPORTED)
    assert ours.contains(low) and not ours.contains(high)
    internals.require_supported_version()


#: Attributes of the harness's tasks, models and requests that have no other meaning here.
THEIRS = {
    "OUTPUT_TYPE", "MULTIMODAL", "UNSAFE_CODE", "VERSION", "doc_to_target",
    "dump_config", "eval_docs", "fewshot_context", "filtered_resps", "get_config",
    "process_results", "request_type", "resps", "set_config", "set_fewshot_seed", "task_name",
}  # fmt: skip


def test_tasks_models_and_requests_are_read_in_one_folder_only():
    root = Path(lm_eval_ccat.__file__).parent
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root).as_posix()
        if where.startswith("harness/internals/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            ours = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "internals"
            if isinstance(node, ast.Attribute) and not ours:
                assert node.attr not in THEIRS, f"{where}:{node.lineno} reads .{node.attr}"


@pytest.mark.parametrize("version", ["0.4.11", "0.5", "0.5.1", "1.0", "not installed"])
def test_another_version_is_refused(version, monkeypatch):
    monkeypatch.setattr(internals.names, "harness_version", lambda: version)
    with pytest.raises(HarnessError, match=r"install 'lm-eval>=0\.4\.12,<0\.5'"):
        internals.require_supported_version()


@pytest.mark.parametrize(
    "command",
    [
        "check {task}",
        "run --model dummy --tasks {task}",
        "ls tasks",
        "bank check {bank} --documents_of {task}",
    ],
)
def test_every_command_that_needs_the_harness_refuses_another_version(
    command, monkeypatch, bench, capsys
):
    from lm_eval_ccat.cli.main import main

    bank, task = bench.folder / "version.bank.json", bench.tasks / "texts.yaml"
    bench.bank("texts", "bleu").save(bank)
    monkeypatch.setattr(internals.names, "harness_version", lambda: "0.4.10")
    internals.names._require_once.cache_clear()
    try:
        code = main(command.format(task=task, bank=bank).split())
    finally:
        internals.names._require_once.cache_clear()
    assert code == 1
    error = capsys.readouterr().err
    assert "lm-eval 0.4.10" in error and "Traceback" not in error


def test_a_release_outside_the_range_can_be_tried(monkeypatch, caplog):
    monkeypatch.setattr(internals.names, "harness_version", lambda: "0.5.0.dev1")
    monkeypatch.setenv(internals.ANY_VERSION, "1")
    internals.require_supported_version()
    assert "0.5.0.dev1" in caplog.text


def test_a_name_that_moved_is_found_under_either_name():
    assert internals.resolve("lm_eval.utils:absent|hash_string")("") == internals.hash_text("")
    with pytest.raises(AttributeError, match="absent"):
        internals.resolve("lm_eval.utils:absent|gone")


def test_the_hook_is_installed_once_and_leaves_other_tasks_to_the_harness(bench):
    import lm_eval.evaluator

    from lm_eval_ccat.live.evaluate import install_hook

    install_hook()
    first = lm_eval.evaluator.evaluate
    install_hook()
    assert lm_eval.evaluator.evaluate is first
    assert inspect.signature(first) == inspect.signature(inspect.unwrap(first))
    assert "adaptive" not in bench.stock(["choices"], bootstrap_iters=0)


def test_a_second_copy_of_the_shipped_tasks_is_one_warning(tmp_path, caplog):
    """The harness warns of each task that a later folder holds too."""
    shipped = Path(__file__).resolve().parents[2] / "task_configs"
    copies = tmp_path / "copies"
    shutil.copytree(shipped, copies)
    with caplog.at_level("WARNING"):
        internals.task_manager(["ccat_govreport"], [str(shipped), str(copies)])
    [record] = [r for r in caplog.records if "folders" in r.getMessage()]
    said = record.getMessage()
    assert said.startswith("Several folders hold the task ccat_") and str(copies) in said
    assert not [r for r in caplog.records if "overrides" in r.getMessage()]


def test_the_shipped_folder_named_by_the_user_counts_once(tmp_path):
    shipped = str(shipped_tasks())
    assert with_shipped_tasks([]) == [shipped]
    assert with_shipped_tasks([f"{shipped}/../task_configs", str(tmp_path)]) == [
        shipped,
        str(tmp_path),
    ]


def test_a_misspelt_stock_task_is_refused_with_close_names_and_a_right_one_is_found() -> None:
    with pytest.raises(UsageError, match="no task, group or tag has that name; close names: gsm8k"):
        internals.task_manager(["gsm8kk"])
    manager = internals.task_manager(["gsm8k"])
    assert set(manager.task_index) == {"gsm8k"}  # and 14,000 files stay unread
    assert internals.static_configs(manager, "gsm8k")["gsm8k"]["num_fewshot"] == 5


@pytest.mark.slow
def test_a_stock_task_found_by_its_file_is_that_of_the_whole_index() -> None:
    whole = internals.task_manager(["mmlu"]).task_index
    for name in ("gsm8k", "hellaswag", "truthfulqa_gen"):
        quick = internals.task_manager([name]).task_index[name]
        assert (quick.kind, quick.yaml_path) == (whole[name].kind, whole[name].yaml_path)
        assert quick.cfg == whole[name].cfg
