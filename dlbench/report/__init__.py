"""Figures, the page, the comparison.

    evidence.py   rows of one or several studies
    figures/      rows into a Chart: pure data, one file each
    lines.py      runs into series of marks
    draw.py       a Chart into a picture; style.py: colours, markers, sizes
    caption.py    what stands under it: n, units, hardware, emulation, failures
    table.py      a Chart into tidy rows: the summary files
    references.py published numbers beside measured ones
    page.py       all of it as one self-contained HTML page; summary.py: the same as Markdown
    comparison.py two studies against each other, as Markdown
    make.py       everything into one folder
"""
