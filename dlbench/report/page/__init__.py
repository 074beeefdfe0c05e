"""The report as one HTML page: its content, the facts it states beside the charts, and the template.

`content` is what page and Markdown both say, before it is laid out by a template each; `machines` is a table of the
page; `render` makes the one of runs, and fills the templates.
"""
