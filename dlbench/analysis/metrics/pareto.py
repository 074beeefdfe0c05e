"""What to choose where two costs oppose each other: the points that none beats in both, and where they bend."""

import math
from collections.abc import Iterable, Sequence

Point = tuple[float, float]


def front(points: Iterable[Point]) -> list[Point]:
    """Return the Pareto front of two costs, by the first one: the points that no other beats or equals in both.

    Points that coincide are one.
    """
    points_in_front: list[Point] = []
    for point in sorted(set(points)):
        if not points_in_front or point[1] < points_in_front[-1][1]:
            points_in_front.append(point)
    return points_in_front


def knee(ends_and_between: Sequence[Point]) -> Point | None:
    """Return the point of a front that lies farthest below the chord between the front's ends.

    Distances are taken in logarithms of the costs, each scaled to its range on the front, so that units do not
    matter: (0, 1) and (1, 0) are then the ends, and a point (u, v) lies (1 - u - v) / sqrt(2) below the chord.

    Args:
        ends_and_between: What `front` returns, of costs above zero.

    Returns:
        None where nothing lies between the ends, or nothing of it below the chord: such a front has no knee.
    """
    if len(ends_and_between) < 3:
        return None
    (left, top), (right, bottom) = ends_and_between[0], ends_and_between[-1]

    def below_chord(point: Point) -> float:
        u = math.log(point[0] / left) / math.log(right / left)
        return 1 - u - math.log(point[1] / bottom) / math.log(top / bottom)

    best = max(ends_and_between[1:-1], key=below_chord)
    return best if below_chord(best) > 0 else None
