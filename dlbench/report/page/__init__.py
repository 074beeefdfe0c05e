"""The report as one HTML page: its content, the facts it states beside the charts, and the template.

`content` is what page and Markdown both say, before it is laid out by a template each; `machines` are facts that the
page alone has; `render` fills the templates and makes the table of runs.
"""
