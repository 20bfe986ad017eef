"""Cells at the edges of what columns beside the released ones can hold: periods and times."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.errors import DataError

COLUMNS = [hg.Column(name, "continuous", lower=-5, upper=5) for name in "xy"]


def plan_of(**release):
    return hg.Plan(title="Edges", form="moments", epsilon=1.0, delta=1e-6, columns=COLUMNS, **release)


def numbers(rows=200):
    return {name: np.random.default_rng(k).standard_normal(rows) for k, name in enumerate("xy")}


@pytest.mark.parametrize("days", [pd.date_range("2024-01-02", periods=2), [True, False]])
def test_a_period_that_another_type_would_name_otherwise_is_refused(days, tmp_path):
    frame = pd.DataFrame(numbers() | {"day": pd.Series(days).repeat(100).to_numpy()})
    with pytest.raises(DataError, match="must hold text or whole numbers"):
        hg.publish(frame, plan_of(period_column="day", period="2024-01-02"), tmp_path / "r", simulate_seed=1)


def test_text_and_whole_numbers_name_one_period(tmp_path):
    for k, months in enumerate((["202401", "202402"], [202401, 202402], pd.Categorical(["202401", "202402"]))):
        frame = pd.DataFrame(numbers() | {"month": pd.Series(months).repeat(100).to_numpy()})
        plan = plan_of(period_column="month", period="202401")
        assert hg.publish(frame, plan, tmp_path / str(k), simulate_seed=1).n == 100


def test_a_time_of_24_hours_is_in_no_hour_and_ends_nothing(tmp_path):
    when = pa.array(np.arange(200) % 86_400, pa.int32()).cast(pa.time32("s"))
    odd = pa.array([86_400 if k == 7 else k for k in range(200)], pa.int32()).view(pa.time32("s"))
    plan = plan_of(rows="series", order_column="when", order_step="1 second", seasons=["hour"], scale="linear")
    for k, cells in enumerate((when, odd)):
        assert hg.publish(pa.table(numbers() | {"when": cells}), plan, tmp_path / str(k), simulate_seed=1).n > 0
