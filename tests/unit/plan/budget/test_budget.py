"""The memory budget: every number that operators of MI300A nodes have told is a case."""

from dataclasses import replace

import pytest

from entrypoint.plan.budget.budget import AIM, Budget, Fit, Wishes
from entrypoint.plan.budget.compare import compare
from entrypoint.plan.budget.facts import MemoryFacts, MemoryPlan, memory_plan, wishes_of
from entrypoint.plan.budget.memory import APU_OVERHEAD, GIB, MI300A_AVAILABLE_BYTES, NodeBudget, Overhead
from entrypoint.plan.budget.recorded import recorded
from entrypoint.plan.budget.render import data, sentences, why
from entrypoint.settings import profiles
from entrypoint.settings.schema import WorkloadSettings

KIMI, GLM, QWEN = "moonshotai/Kimi-K2.7-Code", "zai-org/GLM-5.3", "Qwen/Qwen3.8-27B-FP8"
DERATE = 0.85


def planned(model: str, nodes: int = 1, **wishes: object) -> MemoryPlan:
    known = recorded(model)
    assert known is not None
    made = Wishes(**wishes)  # type: ignore[arg-type]
    return memory_plan(MemoryFacts(known.shape, known.source), made, nodes=nodes, on_cpu=False)


def budget(model: str, nodes: int, **wishes: object) -> Budget:
    here = planned(model, nodes, **wishes).here
    assert here is not None
    return here


# What was seen


@pytest.mark.parametrize(("model", "floor"), [(KIMI, 0.415), (GLM, 0.486)])
def test_the_floors_that_were_seen_on_four_nodes_are_explained_by_one_overhead(model: str, floor: float):
    assert budget(model, 4).node.floor == pytest.approx(floor, abs=0.002)


def test_the_floor_of_glm_lies_where_its_pool_began():
    assert budget(GLM, 4).node.floor == pytest.approx(0.4838, abs=0.003)


def test_glms_pool_is_a_line_in_the_fraction_of_nearly_the_slope_that_was_measured():
    pools = {fraction: budget(GLM, 4, fraction=fraction, kv_dtype="fp8_e4m3").pool() for fraction in (0.52, 0.57)}
    slope = (pools[0.57].tokens - pools[0.52].tokens) / 0.05
    assert slope == pytest.approx(39.0e6, rel=0.06)
    for fraction, pool in pools.items():
        assert pool.least_tokens <= 39.0e6 * (fraction - 0.4838) <= pool.most_tokens


@pytest.mark.parametrize(("fraction", "survives"), [(0.57, True), (0.62, False)])
def test_the_ceiling_of_glm_lies_between_what_served_and_what_the_kernel_ended(fraction: float, *, survives: bool):
    assert (fraction <= budget(GLM, 4).ceiling) is survives


@pytest.mark.parametrize(("share", "tokens", "slots"), [(0.25, 4.03e6, 427), (0.5, 3.32e6, 704)])
def test_qwens_pools_and_states_lie_in_the_predicted_range(share: float, tokens: float, slots: int):
    made = budget(QWEN, 1, fraction=0.306, derate=DERATE, state_share=share)
    pool = made.pool()
    assert pool.least_tokens <= tokens <= pool.most_tokens
    most = made.node.pool_bytes(made.wishes.effective or 0, overhead_bytes=APU_OVERHEAD.least_bytes)
    assert most * share / (1 + share) / made.slot_bytes == pytest.approx(slots, rel=0.04)


def test_qwens_two_pools_stand_to_each_other_as_their_shares():
    small, large = (budget(QWEN, 1, fraction=0.306, state_share=share).pool().tokens for share in (0.5, 0.25))
    assert large / small == pytest.approx(4.03 / 3.32, rel=0.02)


def test_the_derate_is_the_one_that_was_told():
    assert Wishes(fraction=0.588, derate=DERATE).effective == pytest.approx(0.50, abs=0.001)
    assert Wishes(fraction=0.247, derate=DERATE).effective == pytest.approx(0.21, abs=0.001)


# Numbers of nodes


def test_kimi_needs_four_nodes():
    plan = planned(KIMI, 4, fraction=0.55, derate=DERATE, kv_dtype="fp8_e4m3")
    assert [each.fit for each in plan.budgets.values()] == [
        *(Fit.IMPOSSIBLE, Fit.NOT_RECOMMENDED, Fit.POSSIBLE, Fit.POSSIBLE),
    ]
    assert plan.fewest_nodes == 4
    one, two, four = (why(plan.budgets[nodes]) for nodes in (1, 2, 4))
    assert "weights alone take 684 GiB of a node, and 490 are available: more nodes" in one
    assert "0.55 is below the floor" in two
    assert two.endswith("More nodes are the remedy.")
    assert "A fraction from 0.487 to 0.636 can work." in four


def test_models_that_fit_on_one_node_need_no_more():
    assert [planned(model).fewest_nodes for model in (QWEN, "openai/gpt-oss-120b")] == [1, 1]


@pytest.mark.parametrize("name", sorted(set(profiles.names()) - {"tiny"}))
def test_every_profiles_model_is_written_down_and_fits_the_profiles_nodes(name: str):
    profile = profiles.read(name)
    model = profile.values["model"]
    assert isinstance(model, dict)
    plan = planned(model["path"], profile.nodes)
    assert plan.fewest_nodes == profile.nodes


# The workload


def test_a_working_set_is_conversations_times_their_largest_prompt():
    wishes = wishes_of({}, WorkloadSettings(conversations=40, largest_prompt_tokens=60_000), 1.0)
    assert wishes.working_set_tokens == 2_400_000


@pytest.mark.parametrize(
    ("meaning", "kv_dtype"),
    [
        ({}, "auto"),
        ({"kv_cache_dtype": ("fp8_e4m3",), "dtype": ("float32",)}, "fp8_e4m3"),
        ({"kv_cache_dtype": ("auto",), "dtype": ("float32",)}, "float32"),
        ({"dtype": ("auto",)}, "auto"),
    ],
)
def test_the_cache_has_its_own_type_or_the_one_that_the_model_is_given(
    meaning: dict[str, tuple[str, ...]], kv_dtype: str
):
    assert wishes_of(meaning, WorkloadSettings(), 1.0).kv_dtype == kv_dtype


@pytest.mark.parametrize("word", ["lots", "nan", "inf", "-0.3", "0", ""])
def test_a_word_that_is_no_fraction_is_none_at_all(word: str):
    meaning = {"mem_fraction_static": (word,), "tp_size": (word,), "max_total_tokens": (word,)}
    wishes = wishes_of(meaning, WorkloadSettings(), 1.0)
    assert (wishes.fraction, wishes.devices, wishes.most_tokens) == (None, 1, None)


def test_the_fraction_that_is_named_gives_the_margin_and_no_more():
    wishes = Wishes(fraction=0.306, derate=DERATE, state_share=0.5, conversations=40, prompt_tokens=60_000)
    made = planned(QWEN, 1, **{name: getattr(wishes, name) for name in Wishes.__slots__}).here
    assert made is not None
    enough = made.fraction_for(AIM)
    assert enough is not None
    again = replace(made, wishes=replace(wishes, fraction=enough))
    assert again.ratio == pytest.approx(AIM, rel=0.001)


def test_without_a_workload_there_is_no_ratio_and_that_is_said():
    plan = planned(QWEN, 1, fraction=0.306)
    assert plan.here is not None
    assert plan.here.ratio is None
    assert any("set workload.conversations" in sentence for sentence in sentences(plan))
    assert data(plan)["budgets"][0]["ratio"] is None


def test_a_cap_on_tokens_caps_the_pool():
    assert budget(GLM, 4, fraction=0.59, kv_dtype="fp8_e4m3", most_tokens=2_800_000).pool().tokens == 2_800_000


# The equation


def test_a_pool_is_what_the_fraction_leaves_beside_weights_and_overhead():
    node = NodeBudget(490 * GIB, 250 * GIB, Overhead(0, 0, 0), 40 * GIB, 4)
    assert node.floor == pytest.approx(0.510, abs=0.001)
    assert node.ceiling == pytest.approx(0.612, abs=0.001)
    assert node.pool_bytes(0.60) / GIB == pytest.approx(44, abs=0.1)
    assert node.pool_bytes(0.50) == 0


def test_a_model_of_which_nothing_is_known_has_no_budget():
    plan = memory_plan(MemoryFacts(), Wishes(), nodes=2, on_cpu=False)
    assert plan.budgets == {}
    assert plan.here is None
    assert plan.fewest_nodes is None
    assert data(plan)["budgets"] == []
    assert any("nothing is known of the model" in sentence for sentence in sentences(plan))


def test_a_number_of_nodes_that_is_not_usual_is_shown_as_well():
    assert set(planned(QWEN, 3).budgets) == {1, 2, 3, 4, 8}


# After the start


def test_the_engines_own_pool_is_held_against_the_memory_that_it_printed():
    plan = planned(GLM, 4, fraction=0.57, kv_dtype="fp8_e4m3")
    assert plan.here is not None
    smaller = compare(plan, {"pool_tokens": 2_500_000, "available_before_load_gb": 480.0})
    assert smaller is not None
    assert smaller.available_bytes == 480 * GIB
    assert smaller.predicted_available_bytes == MI300A_AVAILABLE_BYTES
    assert smaller.predicted_tokens < plan.here.pool().tokens
    assert smaller.is_as_predicted
    other = compare(plan, {"pool_tokens": 500_000, "available_before_load_gb": 480.0})
    assert other is not None
    assert not other.is_as_predicted
    assert other.difference < -0.7


@pytest.mark.parametrize("told", [{}, {"pool_tokens": 5}, {"available_before_load_gb": 480.0}])
def test_what_the_engine_did_not_tell_is_not_compared(told: dict[str, float]):
    assert compare(planned(GLM, 4, fraction=0.57), told) is None
