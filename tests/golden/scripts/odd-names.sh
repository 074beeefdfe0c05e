#!/bin/bash
# 한글 $(touch x)
#SBATCH --job-name=dlbench--HOME-x
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --signal=B:TERM@60
#SBATCH --output=/dev/null

folder='/data/a study'"'"'s "runs"/한글
$HOME;x/submissions/1'
cd -- "$folder" || exit 73  # the hosts of the job do not share the file system that the study is on
exec >>output.log 2>&1
leave() {
    printf '%s\n' "$1" >"$folder/exit_code.new" && mv -- "$folder/exit_code.new" "$folder/exit_code"
    exit "$1"
}
cd -- '/data/a study'"'"'s "runs"/한글
$HOME;x/here' || leave 2
PYTHONPATH=$(IFS=: kept=; set -f; for entry in ${PYTHONPATH-}; do case $entry in (/*) printf %s "$kept$entry"; kept=:;; esac; done)
python='/opt/my env'"'"'s/bin/python'
if [ ! -x "$python" ]; then
    echo "dlbench: $(hostname) has no $python: the environment must be at the same place on every host"
    leave 2
fi
export DLBENCH_SUBMITTED="$SLURM_JOB_ID"
# Slurm asks this shell alone to end: before the time limit, and when the job is cancelled in good order.
trap 'asked=yes; kill -TERM "$child" 2>/dev/null' TERM
"$python" -P -m dlbench run --study '/data/a study'"'"'s "runs"/한글
$HOME;x' --cluster '/data/a study'"'"'s "runs"/한글
$HOME;x/submissions/1/cluster.yaml' --only 'model=내.모듈:net' --only 'dataset.path=a "b" c' --followed &
child=$!
asked=yes
while [ -n "$asked" ]; do
    asked=
    wait "$child"
    code=$?
done
leave "$code"
