import pytest

import dlbench
from dlbench.errors import UserError

SCENARIO = {
    "name": "from Python",
    "base": {"trainer": "numpy", "epochs": 2},
    "matrix": {"batch_size": [32, 64]},
    "baseline": "none",
}


def test_run_and_load_from_python(tmp_path):
    study = dlbench.run(SCENARIO, output=tmp_path, only={"batch_size": 64})
    assert study.runs["status"].tolist() == ["completed"]
    assert study.path.parent == tmp_path
    again = dlbench.run(SCENARIO, output=tmp_path, resume=True)
    assert again.path == study.path
    assert sorted(again.runs["batch_size"]) == [32, 64]
    loaded = dlbench.load_study(study.path)
    assert len(loaded.steps) == loaded.runs["steps"].sum()
    assert set(loaded.steps["batch_size"]) == {32, 64}
    assert set(loaded.epochs["epoch"]) == {1, 2}
    assert loaded.sensors["quantity"].notna().all()


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a study"):
        dlbench.load_study(tmp_path)
