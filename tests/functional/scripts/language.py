"""A script that reports a metric of its own: the perplexity of made-up text, which falls by half in each epoch.

python language.py [NAME]
"""

import sys

import dlbench.worker as dlbench

run = dlbench.begin(barrier=lambda: None)
name = sys.argv[1] if len(sys.argv) > 1 else "perplexity"
for epoch in range(run.epochs):
    for _ in range(4):
        with run.step(num_samples=8) as step:
            step.loss = 1 / (1 + epoch)
    if run.epoch(**{name: 200 / 2**epoch}):
        break
run.finish(weights=[])
