"""Figures, the page, the comparison.

`data` has the rows of one or several studies, `answers` what they answer. Each file of `figures` makes a `chart.Chart`
of them, pure data, with `lines` turning arms into series of marks; `rendering` makes a picture of it, `caption` the
text under it. `page` says all of it as HTML and as Markdown, `comparison` says what changed between two studies, and
`write` writes everything into one folder.
"""
