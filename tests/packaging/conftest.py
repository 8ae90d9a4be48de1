"""What is built: once for all tests of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.packaging.distributions import ROOT, build, unpacked
from tests.packaging.image import Image


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def image(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image's build stage, run on what the sdist holds."""
    folder = tmp_path_factory.mktemp("image")
    image = Image(folder, unpacked(sdist, folder / "context"))
    image.build()
    return image
