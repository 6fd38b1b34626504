"""Finding tasks, and the hook into the harness's evaluation."""

from __future__ import annotations

import inspect
import shutil
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from lm_eval_ccat.errors import HarnessError, UsageError
from lm_eval_ccat.harness import internals, opening
from lm_eval_ccat.harness.internals import lms, names, task, task_index
from lm_eval_ccat.harness.internals.names import attribute
from lm_eval_ccat.harness.opening import shipped_tasks, with_shipped_tasks


def test_the_hook_is_installed_once_and_leaves_other_tasks_to_the_harness(bench):
    import lm_eval.evaluator

    from lm_eval_ccat.live.adaptive import install_hook

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
    [warned] = [r.getMessage() for r in caplog.records if "overrides" in r.getMessage()]
    assert warned.startswith("Task 'ccat_") and str(copies) in warned and "not listed" in warned


def test_the_shipped_folder_named_by_the_user_counts_once(tmp_path):
    shipped = str(shipped_tasks())
    assert with_shipped_tasks([]) == [shipped]
    beside = str(tmp_path)
    assert with_shipped_tasks([f"{shipped}/../task_configs", beside]) == [shipped, beside]


def index_of(*names, folder=None):
    return attribute(internals.task_manager(names, folder), "task_index|_task_index")


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("mmlu", {"GROUP": 5, "TAG": 4, "TASK": 57}),
        ("glue", {"TAG": 1, "TASK": 9}),
        ("xlsum_*_prompt_1", {"TASK": 12}),  # what they include has no ending
        ("truthfulqa_m??", {"TASK": 2}),
    ],
)
def test_what_is_asked_for_is_found_as_in_the_whole_index(name, kinds):
    found = index_of(name)
    whole = attribute(internals.resolve("lm_eval.tasks:TaskManager")(), "task_index|_task_index")
    assert found == {task: whole[task] for task in found}
    assert Counter(entry.kind.name for entry in found.values()) == kinds
    assert {n for n in whole if fnmatch(n, name)} <= set(found)


def test_a_task_of_ones_own_reads_none_of_the_harness_s_files(tmp_path, monkeypatch):
    (tmp_path / "one.yaml").write_text("task: mine\ndataset_path: json\n")
    (tmp_path / "both.yaml").write_text("group: both\ntask: [mine]\n")
    monkeypatch.setattr(task_index, "_texts", lambda: pytest.fail("the harness's files are read"))
    assert {"mine", "both"} <= set(index_of("mine", "both", folder=str(tmp_path)))
    for file in ("one.yaml", "both.yaml"):
        index_of(str(tmp_path / file), folder=str(tmp_path))
    index_of(str(tmp_path / "one.yaml"))


@pytest.mark.long
def test_a_misspelt_stock_task_is_refused_with_close_names():
    with pytest.raises(UsageError, match="nothing has that name; did you mean gsm8k"):
        index_of("gsm8kk")


@pytest.mark.long
def test_a_group_of_ones_own_brings_its_stock_members_beside_others(tmp_path):
    """Also where it stands in the place of a member of the harness's group, or is a file."""
    (tmp_path / "musr.yaml").write_text("group: leaderboard_musr\ntask: [arc_easy]\n")
    assert "arc_easy" in index_of("leaderboard", folder=str(tmp_path))
    assert "arc_easy" in index_of(str(tmp_path / "musr.yaml"))


def test_of_two_definitions_of_a_task_the_harness_and_we_take_the_same(tmp_path, monkeypatch):
    """Whichever file is read first."""
    from lm_eval.tasks import TaskManager

    for folder in ("b", "a", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.yaml").write_text(f"task: twice\ndescription: {folder}\n")
    files = {str(file): file.read_text() for file in tmp_path.rglob("*.yaml")}
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    harness = manager.task_index["twice"]
    for texts in (files, dict(reversed(files.items()))):
        monkeypatch.setattr(task_index, "_texts", lambda texts=texts: texts)
        ours = task_index._stock_entries(["twice"], {})["twice"]
        assert ours.yaml_path == harness.yaml_path


# -- models -------------------------------------------------------------------------------------


def test_a_group_changes_settings_of_a_member_that_stands_elsewhere(tmp_path):
    (tmp_path / "one.yaml").write_text("task: one\nnum_fewshot: 0\nrepeats: 2\n")
    (tmp_path / "g.yaml").write_text("group: g\ntask:\n- task: one\n  num_fewshot: 3\n")
    manager = internals.task_manager(["g"], str(tmp_path))
    for name, shots in ("g", 3), ("one", 0):
        config = task_index.static_configs(manager, name)["one"]
        assert (config["num_fewshot"], config["repeats"]) == (shots, 2)


@pytest.mark.long
def test_the_tasks_of_a_group_inside_a_group_are_those_that_the_harness_loads(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "2 + 2?", "a": "4"}\n')
    settings = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "metric_list": [{"metric": "exact_match"}],
    }
    members = [{"task": "stands_elsewhere", "num_fewshot": 3}, {"task": "inside", **settings}]
    inner = {"group": "inner", "task": members}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({"task": "stands_elsewhere", **settings}))
    (tmp_path / "g.yaml").write_text(yaml.safe_dump({"group": "outer", "task": [inner]}))
    manager = internals.task_manager(["outer"], str(tmp_path))
    configs = task_index.static_configs(manager, "outer")
    assert configs.keys() == internals.load_tasks(manager, ["outer"])[0].keys()
    assert configs["stands_elsewhere"]["num_fewshot"] == 3


def test_each_answer_to_a_request_that_is_asked_several_times_is_kept():
    request = SimpleNamespace(resps=["of an earlier call"])
    lms.store([request, request], ["first", "second"])
    assert request.resps == ["first", "second"]


@pytest.mark.parametrize("answers", [["one"], ["one", "two", "three"]])
def test_a_call_with_too_few_or_too_many_answers_leaves_none(answers):
    lm = SimpleNamespace(generate_until=lambda requests: answers)
    requests = [SimpleNamespace(request_type="generate_until", repeats=1, resps=[]) for _ in "ab"]
    with pytest.raises(HarnessError, match=f"answered {len(answers)} of 2 generate_until"):
        lms.send(lm, requests)
    assert [request.resps for request in requests] == [[], []]


def test_a_batch_that_is_out_of_memory_is_halved_until_it_is_of_one():
    lm, asked = SimpleNamespace(batch_size_per_gpu=5), []

    def generate_until(requests):
        asked.append(lm.batch_size_per_gpu)
        if asked[-1] > 1:
            raise RuntimeError("CUDA out of memory")
        return ["an answer"] * len(requests)

    lm.generate_until = generate_until
    requests = [SimpleNamespace(request_type="generate_until", repeats=1, resps=[])]
    lms.send(lm, requests)
    assert asked == [5, 2, 1] and requests[0].resps == ["an answer"]


def test_how_many_requests_a_model_takes_at_once():
    for about, at_once in (
        ({"_concurrent": 4, "_batch_size": 2}, (4, 2)), ({"batch_size": 8}, (1, 8)),
        ({"batch_size": "auto:4"}, (1, lms.QUEUE)), ({}, (1, 1)), ({"batch_size": None}, (1, 1)),
    ):  # fmt: skip
        assert lms.requests_at_once(SimpleNamespace(**about)) == at_once


def test_the_cache_answers_what_it_holds_but_nothing_that_is_sampled():
    hashed = internals.resolve("lm_eval.api.model:hash_args")
    greedy, drawn = ("a prompt", {"until": []}), ("a prompt", {"do_sample": True})
    held = {hashed("generate_until", arguments): "an answer" for arguments in (greedy, drawn)}
    lm = SimpleNamespace(lm=SimpleNamespace(), dbdict=held)

    def found(arguments, lm=lm):
        return lms.in_cache(lm, SimpleNamespace(request_type="generate_until", args=arguments))

    assert found(greedy) and not found(drawn) and not found(("another", {"until": []}))
    assert not found(greedy, SimpleNamespace(dbdict=held)), "no cache wraps the model"


def test_what_a_model_type_is_by_its_name():
    weights = {"hf": True, "vllm-vlm": True, "sglang": True, "sglang-generate": False,
               "local-completions": False, "openai-chat-completions": False}  # fmt: skip
    assert {name: lms.holds_weights(name) for name in weights} == weights
    for kind in ("openai-chat-completions", "azure-openai-chat-completions"):
        assert lms.always_samples(kind, {"model": "o3-mini"})
        assert not lms.always_samples(kind, {"model": "gpt-4.1"})
    assert not lms.always_samples("local-chat-completions", {"model": "o3-mini"})


# -- releases and tasks -------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "known"), [
    ("0.4.11", False), ("0.4.12", True), ("0.4.12.dev3+g12", True), ("0.5", False), ("0.6", False),
])  # fmt: skip
def test_releases_before_and_beyond_those_that_are_known_are_refused(version, known, monkeypatch):
    monkeypatch.setattr(names, "harness_version", lambda: version)
    monkeypatch.delenv(names.ANY_VERSION, raising=False)
    if known:
        return names.require_supported_version.__wrapped__()
    with pytest.raises(HarnessError, match="is not one whose internals are known"):
        names.require_supported_version.__wrapped__()


def test_a_class_is_the_harness_s_if_each_of_its_methods_is():
    def of(module):
        method = lambda self: None  # noqa: E731
        method.__module__ = module
        return method

    stock = type("Stock", (), {"ask": of("lm_eval.x"), "read": of("lm_eval.y")})
    assert names.is_stock(stock, "ask read", "lm_eval")
    for own in ("ask", "read"):
        assert not names.is_stock(type("Own", (stock,), {own: of("mine")}), "ask read", "lm_eval")


def test_the_code_of_a_task_s_own_file_is_part_of_how_it_scores(tmp_path):
    def code_of(text):
        (tmp_path / "own.py").write_text(text)
        space = {"__name__": "own"}
        exec(compile(text, str(tmp_path / "own.py"), "exec"), space)
        settings = {"process_results": space["process"]}
        return internals.scoring_code(SimpleNamespace(get_config=settings.get))

    first, second = (code_of(f"def process(doc, results):\n    return {n}\n") for n in (1, 2))
    assert first != second and "return 2" in second


def test_answers_to_a_document_are_scored_together_where_a_filter_takes_them_all():
    def filtered(*stages, repeats=4):
        kinds = [type(name, (), {}) for name in stages]
        ensemble = SimpleNamespace(name="x", filters=kinds)
        return SimpleNamespace(_filters=[ensemble], get_config={"repeats": repeats}.get)

    for stages, together in (
        (("TakeFirstFilter",), False), (("RegexFilter", "TakeFirstFilter"), False),
        (("RegexFilter", "MajorityVoteFilter"), True),
        (("MajorityVoteFilter", "TakeFirstFilter"), True),
    ):  # fmt: skip
        assert task.scores_answers_together(filtered(*stages)) is together
    assert not task.scores_answers_together(filtered("MajorityVoteFilter", repeats=1))


def test_a_template_that_may_draw_is_not_built_alone():
    assert task._is_template("{{question}}") and task._is_template(["a", "{{b}}"])
    assert not task._is_template("{{choices | random}}") and not task._is_template(["a", len])


def test_our_tasks_are_found_in_a_wheel_and_beside_a_checkout(tmp_path, monkeypatch):
    package = tmp_path / "lm_eval_ccat"
    monkeypatch.setattr(opening, "__file__", str(package / "harness" / "opening.py"))
    assert opening.shipped_tasks() is None
    for folder in (tmp_path, package):  # the wheel's own comes first
        (folder / "task_configs").mkdir(parents=True)
        assert opening.shipped_tasks() == folder / "task_configs"


@pytest.mark.parametrize("given", [{}, {"cache_requests": True}, {"rewrite_requests_cache": True}])
def test_requests_are_cached_and_made_anew_as_the_user_says(given):
    asked = {}
    whole = SimpleNamespace(build_all_requests=lambda **how: asked.update(how), instances=[])
    task._build_all(whole, internals.PlaceholderLM(), given)
    for name in ("cache_requests", "rewrite_requests_cache"):
        assert asked[name] == given.get(name, False)


def test_what_a_missing_package_needs_is_said_in_one_sentence():
    """The harness's own error has no name of a package, but says what to install."""
    own = "attempted to use 'vllm' LM type, but package `vllm` is not installed. Please ..."
    modules = {
        own: None,
        "Attempted to use 'openai' LM type, but the package `tiktoken` is not installed.": None,
        "No module named 'transformers'": "transformers",
        "No module named 'yaml.later'": "yaml.later",
        "No module named 'absent.part'": "absent.part",
    }
    said = []
    for text, module in modules.items():
        with pytest.raises(HarnessError) as refused, internals.naming_extras():
            raise ModuleNotFoundError(text, name=module)
        said.append(str(refused.value))
    assert said[0] == own
    assert said[1].startswith("the model needs the package tiktoken, which is not installed")
    assert said[2].startswith("the model needs the package transformers, which is not installed")
    assert said[3] == "the installed version of yaml has no module yaml.later: install another"
    assert said[4] == "the package absent.part is needed and not installed: pip install it"


@pytest.mark.parametrize("name", ["long " * 60, ""])
def test_a_task_whose_name_is_longer_than_a_file_s_or_empty_is_refused(name):
    with pytest.raises(HarnessError, match="cannot load task"):
        opening.open_session(name, None)


def test_a_file_that_a_task_includes_and_is_not_there_is_named(tmp_path):
    (tmp_path / "t.yaml").write_text("task: t\ninclude: nowhere.yaml\n")
    with pytest.raises(HarnessError, match=r"cannot load task 't': .*No such file.*nowhere\.yaml"):
        opening.open_session("t", None, include_path=str(tmp_path))


def test_a_model_is_known_by_its_weights_and_a_header_stands_for_its_key(monkeypatch):
    assert lms.model_name(SimpleNamespace(model=object(), pretrained="org/m")) == "org/m"
    assert lms.model_name(SimpleNamespace(config=SimpleNamespace(_name_or_path="x"))) == "x"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    kind = "openai-chat-completions"
    lms.require_backends({"a": (kind, {"header": {"Authorization": "Bearer k"}})})
    with pytest.raises(HarnessError, match=r"^b: "):
        lms.require_backends({"b": (kind, {"model": "m"})})


def test_a_group_of_one_task_has_that_task_as_its_member(tmp_path):
    (tmp_path / "alone.yaml").write_text("task: alone\noutput_type: generate_until\n")
    (tmp_path / "group.yaml").write_text("group: g\ntask: alone\n")
    manager = internals.task_manager(["g"], str(tmp_path))
    assert task_index.index_entry(manager, "g").members == ("alone",)


@pytest.mark.parametrize(
    ("default", "stated", "asked"),
    [(0, 3, 0), (2, 3, 3), (None, 3, 3), (None, None, 0), (2, None, 2)],
)
def test_a_task_that_says_no_examples_is_asked_with_none(default, stated, asked):
    config = {"output_type": "multiple_choice", "num_fewshot": default}
    task = SimpleNamespace(
        get_config=config.get, set_config=config.__setitem__, task_name="t", _qualified_name="t"
    )
    ignored = opening.ignored_fewshot(task, stated)
    assert (ignored or "").startswith("num_fewshot 3 is ignored") == (default == 0)
    assert ignored is None or "the YAML of task t says num_fewshot: 0" in ignored
    opening.apply_overrides(task, stated, None)
    assert config["num_fewshot"] == asked


@pytest.mark.long
def test_a_client_s_own_attempts_are_told_before_they_are_set():
    client = SimpleNamespace(max_retries=7)
    assert lms.set_client_attempts(client, 1) == 7 and client.max_retries == 1
    assert lms.set_client_attempts(SimpleNamespace(), 1) is None


def test_metrics_whose_standard_errors_take_long_are_those_that_the_harness_resamples():
    from types import SimpleNamespace

    from lm_eval.api import metrics

    closed = (metrics.mean_stderr, metrics.acc_all_stderr, None)
    functions = {name: kind for name, kind in vars(metrics).items() if callable(kind)}
    resampled = {
        name
        for name, function in functions.items()
        if metrics.stderr_for_metric(function, 2) not in closed
    }
    task = SimpleNamespace(aggregation=lambda: functions)
    assert {"chrf", "f1_score"} < resampled
    assert set(internals.resampled_metrics(task)) == resampled
