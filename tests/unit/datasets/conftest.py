from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlbench.datasets._cache import Entry
from dlbench.datasets._open import Arrays, open_arrays
from dlbench.datasets._prepare import Request, prepare

Make = Callable[..., Arrays]


class Prepared:
    """Prepares data sets in a cache of the test's own and keeps what was said."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.said: list[str] = []

    def entry(self, dataset: str, *, verify: bool = False, **options: Any) -> Entry:
        request = Request(dataset=dataset, options=options, cache=str(self.cache), verify=verify)
        return prepare(request, self.said.append)

    def arrays(self, dataset: str, **options: Any) -> Arrays:
        entry = self.entry(dataset, **options)
        return open_arrays(entry.folder, entry.meta.checksum)


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "cache 캐시")
