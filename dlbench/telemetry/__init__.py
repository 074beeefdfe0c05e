"""The stream of rows from each worker to dlbench, both ends.

`messages` is the protocol; `reporter`, `sender`, `spool`, `watchdog` are the worker's end; `server`, `attempt_session`
and `journal` are dlbench's.
"""
