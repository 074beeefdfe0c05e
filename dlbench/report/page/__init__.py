"""The report as one HTML page: its content, the facts it states beside the charts, and the template.

`content` is the whole report before it is laid out; `failures`, `machines`, `runs_table` and `definitions` are its
parts, which the Markdown summary shares; `html` renders the template with the page's style and script.
"""
