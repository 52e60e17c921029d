"""Checking an EDF: what is right passes, and each fault is found by its rule and named in one sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.edf.check import check
from entrypoint.edf.presets import PRESETS, Preset
from entrypoint.edf.surroundings import Surroundings
from entrypoint.edf.use import Use
from entrypoint.findings import Finding, Severity, errors
from entrypoint.site.site import Site

Checked = Callable[..., tuple[Finding, ...]]


def rules(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.rule for finding in findings]


def changed(text: str, old: str, new: str) -> str:
    """Return a text with one thing changed, which has to be there."""
    assert old in text
    return text.replace(old, new)


# What is right


def test_a_right_edf_has_nothing_to_report(checked: Checked, one_node: str, four_nodes: str):
    assert checked(one_node, nodes=1, family="qwen3") == ()
    assert checked(four_nodes, nodes=4, family="kimi_k2") == ()


def test_without_a_number_of_nodes_the_hooks_tell(checked: Checked, one_node: str, four_nodes: str):
    assert checked(one_node) == ()
    assert checked(four_nodes) == ()
    without_one = changed(four_nodes, 'com.hooks.netstack.source = "artifact"\n', "")
    assert rules(checked(without_one)) == ["edf-hook-missing"]


# Ten broken ones

BROKEN = (
    (
        'image = "${SUPERVISE_IMAGE}"',
        'imgae = "${SUPERVISE_IMAGE}"\nimage = "me/serving"',
        "edf-unknown-key",
        "'imgae'",
    ),
    ('NCCL_NET_GDR_LEVEL = "0"', "NCCL_NET_GDR_LEVEL = 0", "edf-env-not-text", "env.NCCL_NET_GDR_LEVEL"),
    ("${SUPERVISE_IMAGE}", "${MY_IMAGE}", "edf-undefined-variable", "${MY_IMAGE}"),
    ("${SUPERVISE_IMAGE}", "", "edf-no-image", "image is empty"),
    ("${SUPERVISE_IMAGE}", "registry.example:5000/me/serving:1", "edf-image-registry", "before a slash"),
    ('"/ritom:/ritom"', '"/ritom:ritom"', "edf-mount", "'/ritom:ritom'"),
    ('com.hooks.cxi.enabled = "true"\n', "", "edf-hook-missing", "com.hooks.cxi.enabled"),
    (
        'com.hooks.aws_ofi_nccl.enabled = "true"',
        "com.hooks.aws_ofi_nccl.enabled = true",
        "edf-annotation-not-text",
        "truth",
    ),
    ('source = "artifact"', 'source = "host"', "edf-hook-value", "'host'"),
    ("[annotations]", '[annotations]\ncom.hooks.aws_ofi_nccl.variant = "rocm6"', "edf-plugin-variant", "ROCm 7"),
    ('image = "${SUPERVISE_IMAGE}"', 'image = "me/x"\nbase_environment = "none"', "edf-base-missing", "'none'"),
    ("mounts = [", "mounts = [[", "edf-syntax", "line"),
    ("writable = true", 'writable = "true"', "edf-wrong-type", "writable"),
    ('NCCL_NET_GDR_LEVEL = "0"', 'NCCL_NET_GDR_LEVEL = "PHB"', "edf-network-variable", "'PHB'"),
    ('NCCL_NET_GDR_LEVEL = "0"', 'NCCL_GDR_LEVEL = "0"', "edf-misspelt-variable", "NCCL_GDR_LEVEL"),
    ('"/ritom:/ritom"', '"/ritom:/sgl-workspace"', "edf-mount-over-image", "/sgl-workspace"),
)


@pytest.mark.parametrize(("old", "new", "rule", "says"), BROKEN)
def test_a_broken_edf_is_rejected_with_one_line_that_names_the_fault(
    *, checked: Checked, four_nodes: str, old: str, new: str, rule: str, says: str
):
    found = [finding for finding in errors(checked(changed(four_nodes, old, new), nodes=4)) if finding.rule == rule]
    (finding,) = found
    assert says in finding.message
    assert "\n" not in finding.message
    assert finding.remedy


# Shapes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("image = 3", "image should be text, and is a whole number."),
        ("entrypoint = 1", "entrypoint should be true or false, and is a whole number."),
        ('mounts = "/a:/b"', "mounts should be a list of text, and is text."),
        ("mounts = [1]", "mounts should be a list of text, and is a whole number."),
        ("env = []", "env should be a table, and is a list."),
        ('annotations = "x"', "annotations should be a table, and is text."),
    ],
)
def test_a_wrong_type_is_named_with_what_is_wanted(checked: Checked, text: str, says: str):
    assert says in [finding.message for finding in checked(text) if finding.rule == "edf-wrong-type"]


def test_a_key_of_another_engine_is_a_warning(checked: Checked, one_node: str):
    (finding,) = checked('devices = ["/dev/kfd"]\n' + one_node)
    assert (finding.rule, finding.severity) == ("edf-devices", Severity.WARNING)


def test_a_variable_needs_a_name_that_can_be_one(checked: Checked, one_node: str):
    assert rules(checked(changed(one_node, "[env]", '[env]\n"my-name" = "x"'))) == ["edf-env-name"]


def test_a_file_that_is_not_there_is_one_finding(tmp_path: Path, site: Site, surroundings: Surroundings):
    assert rules(check(tmp_path / "none.toml", Use(1, site), surroundings)) == ["edf-unreadable"]


# Variables


def test_what_the_site_defines_need_not_be_defined_here(
    tmp_path: Path, site: Site, surroundings: Surroundings, one_node: str
):
    elsewhere = Surroundings({}, surroundings.cwd, surroundings.home)
    (tmp_path / "a.toml").write_text(one_node)
    (finding,) = check(tmp_path / "a.toml", Use(1, site), elsewhere)
    assert (finding.rule, finding.severity) == ("edf-image-unset", Severity.NOTE)


@pytest.mark.parametrize(
    ("value", "found"), [("${NOBODY}", ["edf-undefined-variable"]), ("${NOBODY:-}", []), ("$${NOBODY}", [])]
)
def test_an_undefined_variable_is_an_error_unless_it_may_be_empty(
    checked: Checked, one_node: str, value: str, found: list[str]
):
    assert rules(checked(changed(one_node, "[env]", f'[env]\nX = "{value}"'))) == found


def test_a_reference_that_is_none_and_a_default_that_nobody_documents_are_told(checked: Checked, one_node: str):
    assert rules(checked(changed(one_node, "[env]", '[env]\nX = "${1}"'))) == ["edf-malformed-variable"]
    assert rules(checked(changed(one_node, "[env]", '[env]\nX = "${X:-1}"'))) == ["edf-variable-default"]


def test_a_variable_in_an_annotation_is_told(checked: Checked, one_node: str):
    assert rules(checked(one_node + '[annotations]\na.b = "${USER}"')) == ["edf-variable-in-annotation"]
    assert rules(checked(one_node + '[annotations]\na.b = "$${USER}"')) == []


# The container


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("library/ubuntu:24.04", []),
        ("me@registry.example#library/ubuntu:24.04", []),
        ("registry.example#team/serving:1", []),
        ("/iopsstor/me/serving.sqsh", []),
        ("./serving.sqsh", []),
        ("registry.example/team/serving:1", ["edf-image-registry"]),
        ("localhost/serving", ["edf-image-registry"]),
        ("docker://library/ubuntu", ["edf-image-url"]),
    ],
)
def test_an_image_is_named_as_the_engine_reads_it(checked: Checked, one_node: str, image: str, found: list[str]):
    assert rules(checked(changed(one_node, "${SUPERVISE_IMAGE}", image))) == found


def test_an_entry_point_that_is_run_is_told_with_the_reason(checked: Checked, one_node: str):
    (finding,) = checked(changed(one_node, "entrypoint = false", "entrypoint = true"))
    assert finding.rule == "edf-entrypoint"
    assert "supervises none" in finding.message


def test_an_entry_point_that_is_not_spoken_of_is_a_note(checked: Checked, one_node: str):
    (finding,) = checked(changed(one_node, "entrypoint = false", ""))
    assert (finding.rule, finding.severity) == ("edf-entrypoint-unsaid", Severity.NOTE)


@pytest.mark.parametrize(
    ("mount", "found"),
    [
        ("/data:/data:ro+private", []),
        ("/data.sqsh:/data:sqsh", []),
        ("${SCRATCH}:/scratch", []),
        ("./data:/data", []),
        ("/data", ["edf-mount-destination"]),
        ("data:/data", ["edf-relative-path"]),
        ("/data:/data:ro:private", ["edf-mount"]),
        ("/data::ro", ["edf-mount"]),
        ("/users/me:/users/me", ["edf-home-mounted"]),
        ("/users:/users", ["edf-home-mounted"]),
        ("${HOME}:/home", ["edf-home-mounted"]),
        ("/users/me/data:/data", []),
        ("/data:/opt/venv", ["edf-mount-over-image"]),
        ("/data:/opt", ["edf-mount-over-image"]),
        ("/data:/opt/venv2", []),
    ],
)
def test_a_mount_has_an_absolute_destination_and_hides_nothing(
    checked: Checked, one_node: str, mount: str, found: list[str]
):
    assert rules(checked(changed(one_node, "mounts = [", f'mounts = ["{mount}",'))) == found


def test_home_is_told_as_the_site_names_it_too(tmp_path: Path, site: Site, surroundings: Surroundings, one_node: str):
    elsewhere = Surroundings({"SUPERVISE_IMAGE": "x"}, surroundings.cwd, Path("/root"))
    (tmp_path / "a.toml").write_text(changed(one_node, "mounts = [", 'mounts = ["${HOME}:/home/me",'))
    assert rules(check(tmp_path / "a.toml", Use(1, site), elsewhere)) == ["edf-home-mounted"]


def test_a_working_directory_is_a_path(checked: Checked, one_node: str):
    assert rules(checked(changed(one_node, 'workdir = "${SCRATCH}"', 'workdir = "work"'))) == ["edf-relative-path"]


# The environment


@pytest.mark.parametrize("row", [row for row in PRESETS if row.family is None], ids=lambda row: row.name)
def test_a_preset_of_the_image_has_to_be_reset(checked: Checked, one_node: str, row: Preset):
    name, preset, value = row.name, row.preset, row.value
    line = f'{name} = "{value}"'
    for wrong in (f'OTHER = "{value}"', f'{name} = "{preset}"'):
        (finding,) = checked(changed(one_node, line, wrong))
        assert finding.rule == "edf-image-preset"
        assert f"{name}={preset}" in finding.message
    assert checked(changed(one_node, line, f'{name} = "another"')) == ()


def test_a_preset_that_matters_to_one_family_is_asked_for_with_it_only(checked: Checked, one_node: str):
    assert rules(checked(one_node, family="kimi_k2")) == ["edf-image-preset"]
    assert checked(one_node, family="glm") == ()


def test_an_empty_directory_for_aiter_hides_what_the_image_built(checked: Checked, one_node: str, tmp_path: Path):
    directory = tmp_path / "jit"
    directory.mkdir()
    text = changed(one_node, "[env]", f'[env]\nAITER_JIT_DIR = "{directory}"')
    assert rules(checked(text)) == ["edf-aiter-directory"]
    (directory / "module_norm.so").touch()
    assert checked(text) == ()
    assert checked(changed(one_node, "[env]", '[env]\nAITER_JIT_DIR = ""')) == ()


def test_a_cache_that_network_file_systems_break_does_not_lie_on_one(checked: Checked, one_node: str):
    for name in ("TRITON_CACHE_DIR", "MIOPEN_USER_DB_PATH"):
        assert rules(checked(changed(one_node, "[env]", f'[env]\n{name} = "${{SCRATCH}}/x"'))) == ["edf-cache-on-nfs"]
        assert checked(changed(one_node, "[env]", f'[env]\n{name} = "/tmp/x"')) == ()
    ours = changed(one_node, '"/tmp/supervise"', '"/ritom/x"')
    assert rules(checked(ours)) == ["edf-cache-on-nfs"]


# The fabric


@pytest.mark.parametrize("name", ["com.hooks.cxi.enabled", "com.hooks.aws_ofi_nccl.enabled"])
def test_a_single_node_has_no_hook_of_the_fabric(checked: Checked, one_node: str, name: str):
    assert rules(checked(f'{one_node}[annotations]\n{name} = "true"', nodes=1)) == ["edf-hook-on-one-node"]
    assert checked(f'{one_node}[annotations]\n{name} = "false"', nodes=1) == ()


def test_a_single_node_forces_no_network(checked: Checked, one_node: str):
    (finding,) = checked(changed(one_node, "[env]", '[env]\nNCCL_NET = "AWS Libfabric"'))
    assert (finding.rule, finding.severity) == ("edf-network-on-one-node", Severity.ERROR)
    assert checked(changed(one_node, "[env]", '[env]\nNCCL_NET = ""')) == ()


def test_all_hooks_that_are_missing_are_one_finding(checked: Checked, one_node: str):
    (finding,) = checked(one_node, nodes=4)
    assert finding.rule == "edf-hook-missing"
    for name in ("com.hooks.cxi.enabled", "com.hooks.aws_ofi_nccl.enabled", "com.hooks.netstack.source"):
        assert name in finding.message


def test_another_artifact_than_the_sites_is_a_warning(checked: Checked, four_nodes: str):
    (finding,) = checked(changed(four_nodes, '"26.08.1"', '"27.01"'))
    assert (finding.rule, finding.severity) == ("edf-other-netstack", Severity.WARNING)


def test_an_artifact_that_is_not_there_is_found_where_its_directory_can_be_seen(
    tmp_path: Path, site: Site, surroundings: Surroundings, four_nodes: str
):
    seen = site.model_copy(update={"fabric": site.fabric.model_copy(update={"netstack_root": tmp_path / "netstack"})})
    (tmp_path / "a.toml").write_text(four_nodes)
    assert check(tmp_path / "a.toml", Use(4, seen), surroundings) == ()
    (tmp_path / "netstack").mkdir()
    assert rules(check(tmp_path / "a.toml", Use(4, seen), surroundings)) == ["edf-netstack-missing"]
    names = site.fabric.annotations
    (tmp_path / "netstack" / names["com.hooks.netstack.version"] / names["com.hooks.netstack.name"]).mkdir(parents=True)
    assert check(tmp_path / "a.toml", Use(4, seen), surroundings) == ()


@pytest.mark.parametrize(
    ("image", "variant", "found"),
    [
        ("me/serving:rocm724", "rocm6", ["edf-plugin-variant"]),
        ("me/serving:rocm10-mi30x", "rocm6", ["edf-plugin-variant"]),
        ("me/serving:latest", "rocm5", ["edf-plugin-variant"]),
        ("me/serving:rocm6.4", "rocm5", ["edf-plugin-variant"]),
        ("me/serving:rocm6.4", "rocm6", []),
        ("me/serving:rocm-6.4", "rocm6", []),
        ("me/serving:rocm724", "cuda12", ["edf-plugin-variant"]),
    ],
)
def test_a_plugin_of_another_rocm_than_the_images_is_an_error(
    checked: Checked, four_nodes: str, image: str, variant: str, found: list[str]
):
    text = changed(four_nodes, "[annotations]", f'[annotations]\ncom.hooks.aws_ofi_nccl.variant = "{variant}"')
    assert rules(checked(changed(text, "${SUPERVISE_IMAGE}", image))) == found
