"""Charts into pictures: the one part of dlbench that imports matplotlib.

`figure` composes a whole `dlbench.report.chart.Chart` and saves it. `panels` draws one panel into matplotlib's axes,
with `cells` for maps and `ticks` for scales and ticks. `style` holds colours and markers, `svg` makes files, and
elements of the HTML page whose marks say what they are, and `pool` renders several charts at once. matplotlib does the
layout (`constrained`), the ticks, the colour bars and the legend.
"""
