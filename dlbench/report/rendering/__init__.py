"""Charts into pictures: the one part of dlbench that imports matplotlib.

`figure` composes a whole `dlbench.report.chart.Chart` and saves it. `panels` draws one panel into matplotlib's axes,
with `cells` for maps and `scales` for ticks. `style` and `series_style` hold colours and markers, `inline_svg` prepares
a picture for the HTML page, and `pool` renders several charts at once. matplotlib does the layout (`constrained`), the
ticks and the legend.
"""
