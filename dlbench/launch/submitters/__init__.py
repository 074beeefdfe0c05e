"""Where the launcher is started, one file each: `direct` starts it here, the others submit dlbench.

A submitter file holds a one-line doc, `OPTIONS` (in a cluster file: `submitter.NAME`) and

    def available() -> str: ...    # "" where it can be used on this machine, else what is missing and how to get it
    def inside(cluster: Cluster, environment: Mapping[str, str]) -> Cluster | None: ...

`inside` returns the cluster with the hosts that are there to be used at once: dlbench then starts launchers on them. It
returns None where dlbench is in no job yet; then a submitter also has

    def text(submission: Submission, options: Options) -> str: ...    # what is submitted; `--dry-run` prints it
    def submit(submission: Submission, options: Options) -> str: ...  # submits it, returns its name; or UserError
    def job(name: str, submission: Submission, options: Options) -> Job: ...    # one that was submitted

and may have `SHARES_FILES` (whether a job sees the study's folder and this environment: True by default),
`STARTS_ON_ITS_HOST` (whether dlbench runs on the first of the job's hosts, so that on one host every launcher will do)
`one_for_each_run(options) -> bool` (whether each run is its own job), and `instead(name) -> str` (a hint for an
option that it does not have, "" for the nearest one). All are pure but `available` and
`submit`. See `dlbench.launch.submission` for what they are given and return.
"""
