from pathlib import Path
from typing import Any

import pytest

from dlbench.datasets._cache import Entry
from dlbench.datasets._format import Arrays, open_arrays
from dlbench.datasets._prepare import PreparationRequest, prepare


class Prepared:
    """Prepares data sets in a cache of the test's own and keeps what was reported."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.said: list[str] = []

    def entry(self, dataset: str, **options: Any) -> Entry:
        request = PreparationRequest(dataset=dataset, options=options, cache=str(self.cache))
        return prepare(request, self.said.append)

    def arrays(self, dataset: str, **options: Any) -> Arrays:
        entry = self.entry(dataset, **options)
        return open_arrays(entry.folder, entry.meta.checksum)

    def left(self) -> list[str]:
        """Return the names of what is in the cache, without locks."""
        return sorted(path.name for path in self.cache.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "cache 캐시")
