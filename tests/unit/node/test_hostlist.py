"""Host lists: expanded as Slurm does, in its order, and refused where they are none."""

import pytest

from entrypoint.node.hostlist import MOST_HOSTS, HostListError, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nid002968", "nid002968"),
        ("nid[002968-002970]", "nid002968 nid002969 nid002970"),
        ("nid[002414,002426,002674,002712,002764]", "nid002414 nid002426 nid002674 nid002712 nid002764"),
        ("nid[000999-001001],gpu07", "nid000999 nid001000 nid001001 gpu07"),
        (
            "rack[0-1]node[08-10]",
            "rack0node08 rack0node09 rack0node10 rack1node08 rack1node09 rack1node10",
        ),
        ("x1000c0s[0-1]b[0-1]n0", "x1000c0s0b0n0 x1000c0s0b1n0 x1000c0s1b0n0 x1000c0s1b1n0"),
        ("a[1-2],b[01-02],c", "a1 a2 b01 b02 c"),
        ("nid[09-11]", "nid09 nid10 nid11"),
        ("nid[001-003,0010]", "nid001 nid002 nid003 nid0010"),
        ("n[9-10]", "n9 n10"),
        ("nid[3,1-2]", "nid3 nid1 nid2"),
        ("gpu07,nid[1-2]", "gpu07 nid1 nid2"),
    ],
)
def test_a_list_is_expanded_in_slurms_order(text: str, names: str):
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text", ["", ",", "a,", ",a", "a,,b", "nid[1", "nid1]", "nid[]", "nid[a-b]", "nid[3-1]", "n[[1]]"]
)
def test_what_is_no_list_is_refused_with_the_text(text: str):
    with pytest.raises(HostListError, match="no list of hosts"):
        expand(text)


@pytest.mark.parametrize("text", [f"n[0-{MOST_HOSTS}]", "n[0-999]x[0-999]"])
def test_a_list_longer_than_any_cluster_is_refused_before_it_fills_memory(text: str):
    with pytest.raises(HostListError):
        expand(text)
