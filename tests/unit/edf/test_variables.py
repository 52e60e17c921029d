"""Variables in an EDF."""

import pytest

from entrypoint.edf.variables import expand

HOST = {"USER": "me", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/scratch/${USER}/x", "/scratch/me/x"),
        ("${USER}${USER}", "meme"),
        ("[${EMPTY}]", "[]"),
        ("[${NOBODY:-}]", "[]"),
        ("[${NOBODY:-this}]", "[this]"),
        ("[${USER:-this}]", "[me]"),
        ("$${USER}", "${USER}"),
        ("$$$${USER}", "$$${USER}"),
        ("$USER costs 5$", "$USER costs 5$"),
    ],
)
def test_a_reference_becomes_the_hosts_value(text: str, becomes: str):
    assert expand(text, HOST).text == becomes


def test_what_nobody_defines_is_named_and_stands_as_it_was():
    expansion = expand("${USER}/${NOBODY}/${NOBODY:-}", HOST)
    assert expansion.text == "me/${NOBODY}/"
    assert expansion.undefined == ("NOBODY",)


def test_a_literal_is_no_reference():
    assert expand("$${NOBODY}", HOST).undefined == ()


@pytest.mark.parametrize("text", ["${USER", "${}", "${US ER}", "${USER:?}"])
def test_what_is_no_reference_is_malformed(text: str):
    assert expand(text, HOST).malformed == (text,)


def test_a_default_that_is_not_empty_is_told():
    assert expand("${USER:-me}", HOST).defaults == ("USER",)
    assert expand("${USER:-}", HOST).defaults == ()
