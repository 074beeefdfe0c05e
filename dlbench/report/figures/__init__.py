"""The figures: rows of `_table.TABLE` that show quantities against what varies, and special ones, one file each.

A row says which columns, titles and reference lines (`_quantities.QuantityFigure`). A figure file holds a one-line doc,
which is what `dlbench list figures` and the page say of it, and

    def chart(data: ReportData) -> Chart: ...      # what it shows; raises `MissingRowsError`, naming the rows

    ORDER = 10                                     # its place in the report: small numbers first
    ALL_ARMS = True                                # whether it sums up all arms, where other charts show some; optional

It imports neither matplotlib nor pandas at its top level. `dlbench.report.lines` turns arms into series of marks,
`dlbench.report.rendering` draws whatever a `Chart` describes, `dlbench.report.caption` states n and hardware under it.
Every point, every interval and every failed run is in the chart; emulated and real rows never share a series.
"""
