"""Studies in the formats of other tools, one file each.

An exporter file holds a one-line doc and

    def export(data: ReportData, output: Path) -> list[Path]: ...   # writes into a folder; returns files or folders,
                                                                     # or the address that it sent them to

    PACKAGE = "tensorboard"                                          # what it needs besides dlbench; optional

It has no options, and imports its library inside the function. Unknown values are left out, never written as 0. `_runs`
holds what trackers of runs take: times, settings that vary, results, curves.
"""
