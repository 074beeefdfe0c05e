"""A `Scenario` on a cluster to its `RunSpec`s: points, arms, base lines, repeats, order."""
