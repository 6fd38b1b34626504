"""One row of a board is one configuration: no other of the same name takes its place in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.board import Board, add, check, init, place, standing

SCORES = [1, 0, 1, 0, 1, 0, 1, 1]
OTHER = [0, 0, 1, 0, 1, 0, 1, 1]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    ItemBank.blank(range(8), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    return init(tmp_path / "board", tmp_path / "bank.json")


TEMPLATE = {"chat_template": "{{messages}}", "chat_template_sha": "0a1b2c3d4e5f"}


def logs(
    tmp_path: Path, arguments: str = "", scores=SCORES, *, day: int = 1, written=(), **generation
) -> Path:
    """Logs of the model org/m, whose name in the harness says nothing of its arguments."""
    folder = tmp_path / f"logs {len(list(tmp_path.iterdir()))}"
    changes = {"config": {"model_args": f"pretrained=org/m{arguments}"}, **dict(written)}
    write_run(folder, "org/m", rows_of(scores), day=day, generation=generation, **changes)
    return folder


def names(board: Board) -> list[str]:
    return sorted(place.row.model for place in standing(board).placed)


@pytest.mark.parametrize(
    ("first", "then", "name"),
    [
        ({}, {"arguments": ",revision=step2000"}, "org/m@step2000"),
        ({}, {"arguments": ",load_in_4bit=True"}, "org/m+4bit"),
        ({}, {"arguments": ",dtype=float16"}, "org/m+float16"),
        ({}, {"arguments": ",reasoning_effort=high"}, "org/m+reasoning_effort=high"),
        *(
            ({}, {"arguments": f",{key}={value}"}, f"org/m+{key}={value}")
            for key, value in {
                "mixed_precision_dtype": "bfloat16",
                "softmax_dtype": "float32",
                "think_end_token": "7",
            }.items()
        ),
        ({"arguments": ",dtype=auto"}, {"temperature": 0.7}, "org/m+temperature=0.7"),
        ({"arguments": ",revision=step2000"}, {}, "org/m@main"),
        ({"arguments": ",load_in_4bit=True"}, {}, "org/m+4bit=false"),
        ({}, {"written": TEMPLATE}, "org/m+chat_template=0a1b2c3d"),
        ({}, {"written": {"system_instruction": "Be brief."}}, "org/m+system_instruction=213c22ed"),
        (
            {"written": {**TEMPLATE, "shots": 5}},
            {"written": {**TEMPLATE, "shots": 5, "fewshot_as_multiturn": True}},
            "org/m+multiturn",
        ),
    ],
)
def test_another_configuration_of_a_name_gets_a_name_that_says_what_differs(
    board, tmp_path, first, then, name
):
    add(board, logs(tmp_path, **first))
    added = add(board, logs(tmp_path, scores=OTHER, **then))
    assert [row.model for row in added.rows] == [name] and any(name in note for note in added.notes)
    assert names(board) == ["org/m", name]
    for again in (first, then):  # each is known again by what it is
        assert not add(
            board, logs(tmp_path, scores=SCORES if again is first else OTHER, **again)
        ).rows
    third = add(board, logs(tmp_path, **then, day=2))
    assert not third.rows and "do not replace them" in third.left_out[name]
    assert {row.verdict for row in check(board)} == {"sound"}


def test_several_configurations_of_one_source_are_set_apart_from_those_of_the_board(
    board, tmp_path
):
    add(board, logs(tmp_path))
    folder = logs(tmp_path, ",revision=step2000")
    for day, dtype in ((2, "float16"), (3, "bfloat16")):
        config = {"model_args": f"pretrained=org/m,revision=step2000,dtype={dtype}"}
        write_run(folder, "org/m", rows_of(SCORES), day=day, config=config)
    add(board, folder)
    expected = ["org/m", *(f"org/m@step2000{of}" for of in ("", "+bfloat16", "+float16"))]
    assert names(board) == expected


def test_a_model_that_is_run_again_does_not_get_the_better_results(board, tmp_path, ccat):
    add(board, logs(tmp_path))
    ranked = standing(board)
    for day, scores in enumerate(([1.0] * 8, [0.0] * 8, OTHER), 2):
        err = ccat("board", "add", board.path, logs(tmp_path, scores=scores, day=day), code=4).err
        mean = sum(scores) / 8
        assert f"(0.625) stand, and these ({mean:.4g}) do not replace them" in err
        assert "not known" not in err.partition("replace them")[2].splitlines()[0]
    ScoreTable.from_arrays([OTHER], ["org/m"], metric="exact_match").write(tmp_path / "t.csv")
    reason = add(board, tmp_path / "t.csv").left_out["org/m"]
    assert reason.endswith("; whether they are of one configuration is not known")
    assert standing(board) == ranked


@pytest.mark.long
@pytest.mark.parametrize(("name", "full_name"), [(None, "org/m@main"), ("mine", "org/m")])
def test_full_results_do_not_take_the_place_of_an_estimate_of_another_configuration(
    tmp_path, name, full_name
):
    """A configuration has one name, also where the user named its estimate."""
    scores = [[float(n < m + d) for n in range(8)] for d in (0, 1) for m in range(1, 6)]
    table = ScoreTable.from_arrays(scores, metric="exact_match", models=list("abcdefghij"))
    table.write(tmp_path / "full.csv")
    board = init(tmp_path / "board", tmp_path / "full.csv", task="demo")
    part = tmp_path / "part"
    config = {"model_args": "pretrained=org/m,revision=step2000"}
    write_run(part, "org/m", rows_of(SCORES[:5]), config=config, adaptive={"demo": {"items": 5}},
              samples={"original": 8, "effective": 5})  # fmt: skip
    [estimate] = place(board, part, name=name).rows
    assert estimate.tasks["demo"].configuration["revision"] == "step2000"
    [full] = add(board, logs(tmp_path)).rows
    assert {estimate.model, full.model} <= set(names(board)) and full.model == full_name
    [same] = add(board, logs(tmp_path, ",revision=step2000")).rows
    assert same.model == estimate.model == (name or "org/m")


def test_a_template_that_is_not_known_is_no_other_than_one_that_is(board, tmp_path):
    """A server applies its own, and the harness logs no text of it."""
    add(board, logs(tmp_path, written={"chat_template": ""}))
    assert add(board, logs(tmp_path, written=TEMPLATE)).left_out.keys() == {"org/m"}
    [row] = add(board, logs(tmp_path, scores=OTHER)).rows
    assert row.model == "org/m+chat_template=none"


def test_of_two_templates_only_one_can_be_the_one_that_is_not_known(board, tmp_path):
    add(board, logs(tmp_path, written={"chat_template": ""}))
    folder = logs(tmp_path, written=TEMPLATE)
    config = {"model_args": "pretrained=org/m"}
    other = {"chat_template": "{{other}}", "chat_template_sha": "feedbeef0000"}
    write_run(folder, "org/m", rows_of(OTHER), day=2, config=config, **other)
    [row] = add(board, folder).rows
    assert row.model.startswith("org/m+chat_template=") and names(board) == ["org/m", row.model]


def test_two_ways_of_asking_a_model_in_one_source_are_two_configurations(board, tmp_path):
    folder = logs(tmp_path)
    config = {"model_args": "pretrained=org/m"}
    write_run(folder, "org/m", rows_of(OTHER), day=2, config=config, **TEMPLATE)
    write_run(folder, "org/m", rows_of(OTHER), task="other", day=3, config=config)
    add(board, folder)
    assert names(board) == ["org/m", "org/m+chat_template=0a1b2c3d"]


def test_results_that_stand_already_are_not_added_again_by_a_table_that_says_less(board, tmp_path):
    add(board, logs(tmp_path))
    table = ScoreTable.from_arrays([SCORES], ["org/m"], metric="exact_match")
    table.write(tmp_path / "t.csv")
    before = board.ledger.rows()
    added = add(board, tmp_path / "t.csv")
    assert "in the ledger already" in added.left_out["org/m"] and not added.partial
    assert board.ledger.rows() == before and before[0].tasks["demo"].version == "1.0"


def test_logs_say_more_than_a_table_of_the_same_results_and_a_table_says_what_it_lacks(
    board, tmp_path
):
    table = ScoreTable.from_arrays([SCORES], ["org/m"], metric="exact_match")
    table.write(tmp_path / "t.csv")
    assert "the source states no configuration of org/m" in add(board, tmp_path / "t.csv").notes
    added = add(board, logs(tmp_path))
    assert added.rows[0].tasks["demo"].version == "1.0"
    assert not any("states no configuration" in note for note in added.notes)


@pytest.mark.long
def test_a_model_that_was_given_other_examples_takes_no_row(tmp_path):
    """Its prompts would tell, where logs state them."""
    for number in range(6):
        write_run(tmp_path / "zero", f"m{number}", rows_of([int(n < number) for n in range(8)]))
    board = init(tmp_path / "board", tmp_path / "zero", task="demo")
    five = logs(tmp_path, written={"shots": 5})
    said = add(board, five).left_out["org/m"]
    assert said == "demo: num_fewshot is 5, the bank has 0: run it alike"
    assert add(board, logs(tmp_path, written={"shots": 0})).rows
