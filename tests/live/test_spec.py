"""Every option of a run is declared once, and everything else is read off it."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lm_eval._cli.utils import key_val_to_dict
from worlds.bench import PROMPT, TASK

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.cli.plan import _next_step
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live import adaptive, surfaces
from lm_eval_ccat.live import spec as spec_module
from lm_eval_ccat.live.adaptive import Adaptive
from lm_eval_ccat.live.plan import make_plan
from lm_eval_ccat.live.spec import ModelSpec, Spec
from lm_eval_ccat.live.tasks import open_plain, session_options
from lm_eval_ccat.masking import mask_values
from lm_eval_ccat.money import Price
from lm_eval_ccat.options import option, options_of, whole
from lm_eval_ccat.scores.prompts import mark_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
TWO = [{"name": "a", "model": "hf"}, {"name": "b", "model": "hf"}]


@pytest.fixture
def longer(monkeypatch: pytest.MonkeyPatch) -> type[Spec]:
    """`Spec` with one option more, which is one line."""

    @dataclasses.dataclass(frozen=True)
    class Longer(Spec):
        depth: int = option(3, whole(1), "How deep to look, in levels.", "rank run", live=True)

    for module in (spec_module, surfaces, importlib.import_module("lm_eval_ccat.live.adaptive")):
        monkeypatch.setattr(module, "Spec", Longer)
    return Longer


@pytest.mark.parametrize(
    "text, words",
    [
        ("models: []\ntask: t\nmodels: [{model: hf}]\n", "key 'models' stands here a second time"),
        ("task: t\nmodels: [{model: hf, model: vllm}]\n", "key 'model' stands here a second time"),
        ("task: t\nharness: {seed: [1, a]}\n", "`harness.seed` must be a whole number of at"),
        ("task: t\nharness: {system_instruction: [a]}\n", "`harness.system_instruction` must be a"),
        ("task: t\nharness: {gen_kwargs: {temprature: .5}}\n", "did you mean temperature?"),
        ("task: t\nharness: {gen_kwargs: 'max_gen_tokens=5'}\n", "did you mean max_gen_toks?"),
        ("task: t\nnotes: x\n", "harness$"),
    ],
)
def test_what_a_file_says_wrongly_is_named(text, words, tmp_path):
    (file := tmp_path / "models.yaml").write_text(text)
    with pytest.raises(UsageError, match=words):
        Spec.read(file)


def test_a_bank_of_no_task_and_no_metric_of_the_run_is_refused(bench, server):
    typo = bench.config(server.url, ["m03", "m09"], bank={"loopback_tsk": "bank.json"})
    with pytest.raises(UsageError, match=r"`bank.loopback_tsk` is .* did you mean loopback_task"):
        make_plan(Spec.read(typo))


def test_a_model_listed_twice_and_copies_of_documents_are_warned_of(bench, server):
    same = {"model": "m03", "base_url": server.url, "tokenizer_backend": "none", "timeout": 5}
    settings = {"bank": None, "of": {"copy": {"model_args": same}}}
    config = bench.config(server.url, ["m03", "m09", "copy"], **settings)
    said = make_plan(Spec.read(config)).warnings
    assert said == ("copy: the same model and model_args as m03; each is asked and paid",)

    def thrice(name: str, text: str) -> str:
        if name == "docs.jsonl":
            return text * 3
        data = json.dumps(str(bench.folder / "tasks" / "docs.jsonl"))
        return re.sub(r'"[^"]*docs\.jsonl"', data, text)

    bench.rewrite(thrice)
    said = make_plan(Spec.read(bench.config(server.url, ["m03", "m09"], bank=None))).warnings
    assert said == (
        "240 of the 360 documents of loopback_task are copies of others; each is asked and counted "
        "by itself",
    )


def test_one_line_adds_an_option_everywhere(longer, tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text(yaml.safe_dump({"task": "t", "models": TWO, "depth": 5}))
    assert longer.read(file).depth == 5 and longer.read({"task": "t", "models": TWO}).depth == 3
    assert longer.read(file, {"depth": 7}).depth == 7
    assert Adaptive.read({"depth": 4}).spec.depth == 4  # type: ignore[attr-defined]
    for command in ("rank", "run"):
        parser = argparse.ArgumentParser()
        surfaces.add_flags(parser, command)
        flags = surfaces.given_by_flags(parser.parse_args(["--depth", "9"]), command)
        assert flags == {"depth": 9} and "in levels" in parser.format_help()
    with pytest.raises(UsageError, match="`depth` must be a whole number of at least 1, not 0"):
        longer.read({"depth": 0})
    assert longer.read(file).public()["depth"] == 5  # stands in the journal's header
    assert surfaces.may_change().fullmatch("config.depth")
    assert surfaces.schema()["properties"]["depth"] == {
        "type": "integer", "minimum": 1, "default": 3,
        "description": "How deep to look, in levels.",
    }  # fmt: skip
    reference = runpy.run_path(str(DOCS / ".hooks" / "reference.py"))
    assert "| `depth` | `3` | How deep to look, in levels." in reference["_options_table"](longer)


def test_the_schema_that_is_shipped_is_that_of_the_code():
    shipped = json.loads((DOCS / "config.schema.json").read_text())
    command = "python -m lm_eval_ccat.live.surfaces > docs/config.schema.json"
    assert shipped == surfaces.schema(), command


@pytest.mark.long
def test_the_schema_takes_what_is_read_and_refuses_what_is_refused():
    jsonschema = pytest.importorskip("jsonschema")
    schema = surfaces.schema()
    good: dict[str, Any] = {
        "tasks": ["a", "b"], "bank": {"a": "a.json", "b": "b.json"}, "metrics": {"bleu": 1, "x": 0},
        "budget": {"usd": 2.5}, "stop": "top 1 or se 0.02", "failures": {"attempts": 2},
        "models": [{**TWO[0], "price": {"input": 1, "output": 2}}, TWO[1]], "ahead": 1,
    }  # fmt: skip
    Spec.read(good)
    jsonschema.validate(good, schema)
    bad = ({"ahead": 0}, {"modells": []}, {"budget": {"items": 1, "usd": 1}}, {"confidence": 2})
    for wrong in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, **wrong}, schema)
        with pytest.raises(UsageError):
            Spec.read({**good, **wrong})


def test_a_word_that_is_stated_twice_counts_once():
    for value in ("prompts, prompts", ["prompts", "prompts"]):
        assert Spec.read({"accept_change": value}).accept_change == ("prompts",)


def test_arguments_in_one_text_mean_what_they_mean_to_the_harness():
    text = "revision=2024-05-13,trust_remote_code=True,peft=None,tp=2,top_p=1e-3,name=no"
    [model] = Spec.read({"models": [{"model": "hf", "model_args": text}]}).models
    assert model.model_args == key_val_to_dict(text)
    assert model.model_args["revision"] == "2024-05-13" and model.model_args["top_p"] == 0.001


def test_options_of_an_adaptive_run_are_a_mapping():
    with pytest.raises(UsageError, match="adaptive must be a mapping such as"):
        Adaptive.read(True)  # type: ignore[arg-type]


def test_a_metric_may_be_named_in_the_singular_everywhere(monkeypatch):
    calls: list[Any] = []
    monkeypatch.setattr(
        adaptive,
        "_evaluate_adaptively",
        lambda call, flags: calls.append((call.options.spec.metrics, flags)),
    )
    adaptive.adaptive_evaluate("hf", "pretrained=x", ["t"], metric="bleu", max_items=5)
    assert calls == [({"bleu": 1.0}, {"model": "hf", "model_args": "pretrained=x", "tasks": ["t"]})]


def test_small_numbers_are_read_as_people_write_them(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("min_difference: 1e-3\nprice: {item: 5e-5}\nbudget: {usd: 1e2}\n")
    spec = Spec.read(file)
    assert (spec.min_difference, spec.price.item, spec.budget) == (1e-3, 5e-5, {"usd": 100.0})


def test_what_a_journal_holds_is_read_back():
    spec = Spec.read(
        {"task": "t,u", "models": [{**TWO[0], "model_args": "pretrained=x,revision=2"}, TWO[1]],
         "budget": {"items": 9}, "metrics": ["x", "y=0"]}
    )  # fmt: skip
    assert Spec.recorded(spec.public()) == dataclasses.replace(
        spec, models=tuple(dataclasses.replace(m, num_cpus=m.cpus) for m in spec.models)
    )


def test_a_run_of_one_model_without_any_limit_has_a_target():
    for options, stop in (
        ({}, "se 0.02"), ({"max_items": 9}, "decided"), ({"budget_items": 9}, "decided"),
        ({"stop": "decided and se 0.1"}, "se 0.1"), ({"stop": "se 0.1 and decided"}, "se 0.1"),
        ({"stop": "limits"}, "limits"),
    ):  # fmt: skip
        assert Adaptive.read(options).spec.stop == stop


def test_a_path_is_no_identity(tmp_path):
    (tmp_path / "t.yaml").write_text("task: t")
    entry = {"name": "a", "model": "hf", "model_args": {"pretrained": "./weights"}}
    here = Spec.read({"task": "t.yaml", "models": [entry]}, folder=tmp_path)
    entry = {**entry, "model_args": {"pretrained": str(tmp_path / "weights")}}
    there = Spec.read({"task": "t.yaml", "models": [entry]})
    assert here.tasks != there.tasks and here.comparable() == there.comparable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def test_paths_of_a_file_lie_beside_it_wherever_the_command_is_given(tmp_path, monkeypatch):
    folder = tmp_path / "ranking"
    for name in ("tasks", "logs", "elsewhere"):
        (folder / name).mkdir(parents=True)
    (folder / "a=b.bank.json").write_text("{}")
    file = folder / "models.yaml"
    content = {
        "prior": {"a": "logs", "b": ["logs", "elsewhere"]},
        "bank": ["a=b.bank.json"],  # a file may have a sign in its name that parts task and file
        "harness": {"include_path": "tasks", "gen_kwargs": "temperature=0.7,top_p=1"},
    }  # fmt: skip
    file.write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    spec = Spec.read(file)
    paths = {model: [str(folder / name) for name in names]
             for model, names in (("a", ["logs"]), ("b", ["logs", "elsewhere"]))}  # fmt: skip
    assert spec.prior == paths and spec.harness["include_path"] == [str(folder / "tasks")]
    assert spec.harness["gen_kwargs"] == {"temperature": 0.7, "top_p": 1}
    assert spec.bank == str(folder / "a=b.bank.json")
    monkeypatch.chdir(folder)
    assert Spec.read({"bank": ["a=b.bank.json"]}).bank == "a=b.bank.json"


def test_known_scores_in_another_folder_are_the_same_run(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "known.csv").write_text("model,doc_id,score\n")
    here, there = (
        Spec.read({"known": str(tmp_path / name / "known.csv")}) for name in ("here", "there")
    )
    assert here.known != there.known and here.comparable() == there.comparable()


def test_a_server_may_take_settings_of_generation_of_its_own():
    own = {"min_tokens": 2, "top_a": 0.1, "thinking": True, "best_of": 2, "typical_p": 0.9}
    assert Spec.read({"task": "t", "models": TWO, "harness": {"gen_kwargs": own}})


def test_what_is_said_last_of_a_setting_of_the_harness_counts():
    spec = Spec.read(
        {"harness": {"num_fewshot": 1, "device": "cpu"}}, {"harness": {"num_fewshot": 2}}
    )
    assert spec.harness == {"num_fewshot": 2, "device": "cpu"}


def test_a_model_behind_a_server_takes_no_processor_of_a_cluster_by_default():
    types = {"hf": 1.0, "local-completions": 0.0}
    assert {name: ModelSpec(model=name).cpus for name in types} == types
    assert ModelSpec(model="hf", num_cpus=0.0).cpus == 0.0


def test_tokens_are_counted_where_the_price_or_the_budget_is_of_tokens():
    free, priced = ModelSpec("a"), ModelSpec("b", price=Price(input=1.0, output=1.0))
    assert not Spec().counts_tokens(free) and Spec().counts_tokens(priced)
    assert Spec(budget={"tokens": 9.0}).counts_tokens(free)


def test_logs_beside_a_model_of_chat_messages_are_of_its_template():
    """A side of a comparison that answers from its logs states no type of model."""
    chat = ModelSpec("live", "local-chat-completions")
    spec = Spec(models=(chat, ModelSpec("logs"), ModelSpec("plain", "hf")))
    templates = [bool(spec.template_for(model)) for model in spec.models]
    assert templates == [True, True, False]


def test_a_weight_that_is_stated_twice_is_refused():
    assert Spec.read({"weights": "a=1,b=2"}).weights == {"a": 1.0, "b": 2.0}
    with pytest.raises(UsageError, match="`weights` must be documents, equal, or a weight"):
        Spec.read({"weights": "a=1,a=2"})


def test_a_revision_that_looks_like_a_date_is_the_text_that_is_written(tmp_path):
    """Checkpoints are called so; a date would be no JSON, and all of them one configuration."""
    file = tmp_path / "models.yaml"
    models = [f"{{name: {n}, model: hf, model_args: {{revision: 2024-08-0{n}}}}}" for n in (1, 2)]
    file.write_text(f"task: t\nmodels: [{', '.join(models)}]\n")
    stated = [model["model_args"] for model in Spec.read(file).public()["models"]]
    assert stated == [{"revision": "2024-08-01"}, {"revision": "2024-08-02"}]


def test_a_flag_of_0_counts_and_only_one_budget_does():
    parser = argparse.ArgumentParser()
    surfaces.add_flags(parser, "rank")
    args = parser.parse_args(["--seed", "0", "--budget_usd", "1", "--budget_items", "3"])
    with pytest.raises(UsageError, match="give one of --budget_items, --budget_usd"):
        surfaces.given_by_flags(args, "rank")
    assert surfaces.given_by_flags(parser.parse_args(["--seed", "0"]), "rank") == {"seed": 0}


def test_of_the_harness_s_four_seeds_the_last_is_that_of_few_shot_examples():
    """Its --seed is of Python, NumPy, PyTorch and the examples, in this order."""
    for seeds in ([1, 2, 3, 4], "1,2,3,4", 4):
        spec = Spec.read({"harness": {"seed": seeds}})
        assert session_options(spec)["fewshot_seed"] == 4


def test_the_next_step_of_a_plan_has_its_task_and_its_bank():
    flags = {"tasks": ["t.yaml"], "bank": ["my bank.json"]}
    assert "rank --task t.yaml --bank 'my bank.json', with" in _next_step(None, flags, ["t"])
    assert "rank --task t, with" in _next_step(None, {}, ["t"])
    assert _next_step("a b.yaml", {}, ["t"]).endswith("rank 'a b.yaml'")


def test_open_ends_do_not_count():
    assert Spec.read({"confidence": 0.99}).confidence == 0.99
    for wrong in ({"confidence": 1.0}, {"confidence": 0.5}, {"memory": 0}):
        with pytest.raises(UsageError, match=f"`{next(iter(wrong))}` must be a number"):
            Spec.read(wrong)


@pytest.mark.long
@given(st.dictionaries(st.sampled_from([*options_of(Spec), "task", "x"]), JSON))
def test_no_configuration_makes_more_than_a_usage_error(content):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            spec = Spec.read(content)
        except UsageError as error:
            assert "`" in str(error) or "stop " in str(error)
        else:
            json.dumps(spec.public())


@pytest.mark.long
@given(st.dictionaries(st.sampled_from(list(options_of(ModelSpec))), JSON))
def test_no_entry_of_a_model_makes_more_than_a_usage_error(entry):
    try:
        Spec.read({"models": [{"name": "a", **entry}]})
    except UsageError as error:
        assert "models[0]" in str(error)


def test_a_model_is_named_as_the_harness_names_it_in_logs():
    arguments = ("pretrained=org/base", "pretrained=org/base,peft=out/a", "path=x/y", "seed=3")
    models = [{"model": "hf", "model_args": text} for text in arguments]
    assert [m.name for m in Spec.read({"task": "t", "models": models}).models] == [
        "base", "a", "y", "hf"
    ]  # fmt: skip


def test_models_that_share_a_path_are_named_by_their_arguments_as_the_journal_writes_them():
    keys = {"http://a/v1": "sk-s3cret-of-a", "http://b/v1": "pw"}
    entries = [
        {"model": "vllm", "model_args": {"pretrained": "org/x", "base_url": url, "api_key": key}}
        for url, key in keys.items()
    ]
    last = {"model": "vllm", "model_args": {"pretrained": "org/y"}}
    names = [model.name for model in Spec.read({"task": "t", "models": [*entries, last]}).models]
    assert names == [
        "vllm:pretrained=org/x,base_url=http://a/v1,api_key=***",
        "vllm:pretrained=org/x,base_url=http://b/v1,api_key=***",
        "y",
    ]
    named = {"name": "via sk-s3cret-of-a", "model": "vllm"}
    [model] = Spec.read({"task": "t", "models": [named]}).models
    assert mask_values(model.name) == model.name == "via ***"
    # Beside its key nothing tells one of these from the other.
    for entry in entries:
        entry["model_args"]["base_url"] = "http://a/v1"
    with pytest.raises(UsageError, match="give each its own `name:`"):
        Spec.read({"task": "t", "models": entries})


def test_a_starting_configuration_reads_back_and_shows_the_help_of_each_option(tmp_path):
    spec = Spec.read({
        "tasks": "a,b", "weights": "equal", "metrics": ["bleu", "chrf=0"], "seed": 3,
        "budget": {"usd": 2.5}, "harness": {"num_fewshot": 2},
        "models": [{"model": "hf", "model_args": "pretrained=x/y", "price": "item=0.1"}, TWO[1]],
    })  # fmt: skip
    text = surfaces.starter(spec)
    file = tmp_path / "models.yaml"
    file.write_text(text, encoding="utf-8")
    assert Spec.read(file) == spec and spec.models[0].name == "y"
    for name, one in options_of(Spec).items():
        shown = one.help.split(". ")[0].split("`")[0][:40] in text.replace("\n# ", " ")
        assert shown or name not in (*surfaces.STARTER, "weights", "seed"), name
    offered = re.sub(
        r"^# ((?:bank|max_items|min_difference|confidence|stop):)", r"\1", text, flags=re.M
    )
    file.write_text(offered, encoding="utf-8")
    assert Spec.read(file).stop == surfaces.STARTER["stop"]


def test_init_writes_what_the_flags_say_and_names_what_is_missing(tmp_path, capsys):
    file = tmp_path / "m.yaml"
    init = ["rank", "--init", str(file), "--task", "gsm8k"]
    models = [*"--model hf --model_args pretrained=a --model hf --model_args pretrained=b".split()]
    assert main(init) == 2 and "`models:` is missing" in capsys.readouterr().err
    assert main([*init, *models]) == 0 and "Wrote" in capsys.readouterr().out
    [page] = re.findall(r"docs/\S+", file.read_text())
    assert (Path(__file__).parents[2] / page).is_file()
    assert [m.name for m in Spec.read(file).models] == ["a", "b"]
    assert main([*init, *models]) == 2 and "exists" in capsys.readouterr().err


def test_a_flag_that_the_harness_has_itself_stays_the_harness_s():
    """Its branch next0.5 has --repeats, and writes it into the tasks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    surfaces.add_flags(parser, "run")
    args = parser.parse_args(["--repeats", "3", "--max_items", "5"])
    assert surfaces.flags_given(args, "run") == ["--max_items"]
    assert surfaces.given_by_flags(args, "run") == {"max_items": 5} and args.repeats == 3


def test_a_goal_that_every_score_meets_is_refused() -> None:
    """Of numbers in [0, 1] no mean has a standard error above .5."""
    assert Spec.read({"stop": "top 1 or se 0.5"}).target_se == 0.5
    for goal in (0.51, 2):
        with pytest.raises(UsageError, match=r"where none exceeds 0\.5"):
            Spec.read({"stop": f"top 1 or se {goal}"})


def test_requests_are_chat_messages_only_where_no_model_takes_a_text(bench):
    """A model of plain texts among them is sent what the task writes, and no turn of a chat."""
    plain = mark_of(PROMPT.format(id=3))
    for kinds, same in (
        (["local-completions", "local-chat-completions"], True),
        (["local-chat-completions"] * 2, False),
    ):
        models = [{"name": str(n), "model": kind} for n, kind in enumerate(kinds)]
        harness = {"include_path": str(bench.folder / "tasks")}
        sessions, _ = open_plain(Spec.read({"task": TASK, "models": models, "harness": harness}))
        assert (sessions[TASK].marks[3] == plain) == same


def test_a_weight_may_follow_its_metric_in_a_list():
    weights = {"bleu": 1.0, "chrf": 0.0, "ter": 2.5}
    assert Spec.read({"metrics": ["bleu", "chrf=0", "ter=2.5"]}).metrics == weights
    assert Spec.read({"metrics": weights}).metrics == weights


def test_exposure_without_a_bank_is_refused():
    """All items are drawn from all, so that it would do nothing."""
    with pytest.raises(UsageError, match="exposure 3 is for a run with a bank"):
        Spec.read({"task": "t", "exposure": 3})
    assert Spec.read({"task": "t", "exposure": 3, "bank": "b.json"}).exposure == 3
