"""The report as one HTML page: its content, the facts it states beside the charts, and the template.

`content` is what page and Markdown both say, before it is laid out by a template each; `machines` and `runs_table` are
the page's tables; `render` fills the templates.
"""
