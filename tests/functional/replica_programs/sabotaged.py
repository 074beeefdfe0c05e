"""The strategy `mirrored`, except that something is left out of it."""

from typing import Any

from dlbench.strategies import mirrored


class OtherReplica:
    """Every replica but the first adds a little: the first one's weights alone show nothing."""

    OPTIONS, NEEDS = mirrored.OPTIONS, mirrored.NEEDS

    @staticmethod
    def create(options: Any, communicator: Any, algorithm: str | None) -> Any:
        """Return a strategy that is right in the first replica alone."""
        strategy = mirrored.create(options, communicator, algorithm)
        reduce = strategy.in_graph
        vars(strategy)["in_graph"] = lambda gradients: but_in_the_first(reduce(gradients))
        return strategy


def without_reduction(gradients: list[Any]) -> list[Any]:
    """Return the replica's own gradients, as long as the sum would be."""
    import tensorflow as tf

    return [gradient * tf.distribute.get_replica_context().num_replicas_in_sync for gradient in gradients]


def but_in_the_first(gradients: list[Any]) -> list[Any]:
    """Return the gradients, changed in every replica but the first."""
    import tensorflow as tf

    number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return [gradient + 0.01 * int(number) for gradient in gradients]
