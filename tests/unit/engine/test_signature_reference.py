"""The reference of signatures: complete, and the page in docs is the generated one."""

from pathlib import Path

from entrypoint.engine.signature_book import packaged_signatures
from entrypoint.engine.signature_reference import render

PAGE = Path(__file__).parents[3] / "docs" / "signatures.md"


def test_the_page_in_docs_is_up_to_date():
    assert PAGE.read_text() == render(), "run python -m entrypoint.engine.signature_reference > docs/signatures.md"


def test_every_signature_has_one_anchor():
    page = render()

    for signature in packaged_signatures():
        assert page.count(f'<a id="{signature.id}"></a>') == 1
