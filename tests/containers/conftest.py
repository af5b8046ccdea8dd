"""The image of the Dockerfile, built once for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.support import containers

IMAGE = "localhost/mgw-under-test"


@pytest.fixture(scope="session")
def image() -> str:
    """The name of the image, built from this folder as it is."""
    if reason := containers.missing():
        pytest.skip(reason)
    containers.build(IMAGE, containers.ROOT, arguments={"BASE": containers.base_image()})
    return IMAGE
