"""Run by an environment that has SDMetrics, not by ours: how it judges synthetic rows.

    .venv-sdmetrics/bin/python benchmarks/tools/sdmetrics_score.py real.csv made.csv [numerical columns ...]

Every other column is categorical. Prints column shapes and pair trends, from 0 to 1, as JSON.
"""

import json
import sys

import pandas as pd
from sdmetrics.reports.single_table import QualityReport


def main() -> None:
    numbers = sys.argv[3:]
    real, made = (pd.read_csv(path, dtype=str).astype(dict.fromkeys(numbers, float)) for path in sys.argv[1:3])
    metadata = {
        "columns": {name: {"sdtype": "numerical" if name in numbers else "categorical"} for name in real.columns}
    }
    report = QualityReport()
    report.generate(real, made, metadata, verbose=False)
    scores = dict(report.get_properties().itertuples(index=False))
    print(json.dumps({"shapes": scores["Column Shapes"], "trends": scores["Column Pair Trends"]}))


if __name__ == "__main__":
    main()
