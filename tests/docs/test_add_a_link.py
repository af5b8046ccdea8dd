"""The page on links of one's own shows the example package as it is, and its commands do what they say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.test_documentation import ROOT, Block, _walk_through, blocks, part_of
from tests.support.spool import PACKAGE, install_spool

PAGE = ROOT / "docs" / "how-to" / "add-a-link.md"
PARTS = [block for block in blocks(PAGE) if part_of(block)]


def test_page_shows_parts_of_the_package() -> None:
    assert len(PARTS) > 5
    assert [block.line for block in blocks(PAGE) if block.language in ("python", "toml", "yaml")] == [
        block.line for block in PARTS
    ]


@pytest.mark.parametrize("block", PARTS, ids=str)
def test_part_is_in_the_file(block: Block) -> None:
    file = PACKAGE / str(part_of(block))
    assert block.text in file.read_text("utf-8"), f"the page shows another text than {file.relative_to(ROOT)} holds"


def test_page_does_what_it_says(tmp_path: Path) -> None:
    site = install_spool(tmp_path / "package")
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "gateway.yaml").write_bytes((PACKAGE / "gateway.yaml").read_bytes())
    environ = {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "default"}
    _walk_through(PAGE, folder, environ)
