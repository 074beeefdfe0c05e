from typing import Any

from dlbench.scenario.settings import Settings
from dlbench.strategies import ddp


def test_hooks_that_cannot_be_are_refused() -> None:
    power_sgd: dict[str, Any] = {"communication_hook": "power-sgd"}
    for options, settings, part in (
        (power_sgd, {}, ""),
        (power_sgd, {"precision": "mixed_bfloat16"}, ""),
        (power_sgd, {"precision": "mixed_float16"}, "use mixed_bfloat16"),
        (power_sgd, {"checkpoint_every": 1}, "remove checkpoint_every"),
        ({"communication_hook": "fp16"}, {"precision": "mixed_float16"}, ""),
    ):
        reason = ddp.refuse(ddp.OPTIONS(**options), Settings.model_validate({"strategy": "ddp", **settings}))
        assert part in reason, (options, settings)
        assert bool(part) == bool(reason), (options, settings)


def test_a_bucket_begins_when_the_one_before_is_over() -> None:
    events: list[str] = []

    class Future:
        def __init__(self, bucket: str) -> None:
            self._bucket = bucket

        def wait(self) -> None:
            events.append(f"{self._bucket} over")

    def hook(state: None, bucket: str) -> Future:
        events.append(bucket)
        return Future(bucket)

    begin = ddp.in_turn(hook)
    for bucket in "ab":
        begin(None, bucket)
    assert events == ["a", "a over", "b"]
