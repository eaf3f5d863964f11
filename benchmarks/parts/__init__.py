"""One module per part, each with `run(report: Report) -> None` and, if so, `USES_SPARK = True`."""
