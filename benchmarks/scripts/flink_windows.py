"""Flink SQL's HOP window over two CSV lanes, sampled while it runs; prints JSON.

Run in the stream peers' environment by the part `spark-windows`: FOLDER SIZE SLIDE SECONDS, where
size and slide are in milliseconds. A first job warms up the JVM; the second one is sampled.
"""

import json
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

WARM_UP = 12
PERIOD = 0.5


def main():
    folder, size, slide, seconds = sys.argv[1], *map(int, sys.argv[2:])
    port = free_port()
    tables = environment(port)
    insert = declare(tables, folder, size, slide)
    watch(tables, insert, port, WARM_UP)
    samples, finished, windows = watch(tables, insert, port, seconds)
    json.dump({"samples": samples, "finished": finished, "windows": windows}, sys.stdout)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def environment(port):
    settings = Configuration()
    for name, value in {
        "parallelism.default": "2",
        "pipeline.object-reuse": "true",
        "rest.address": "127.0.0.1",
        "rest.port": str(port),
        "rest.bind-port": str(port),
        "metrics.fetcher.update-interval": "200",
    }.items():
        settings.set_string(name, value)
    streaming = EnvironmentSettings.new_instance().in_streaming_mode()
    return TableEnvironment.create(streaming.with_configuration(settings).build())


def declare(tables, folder, size, slide):
    """Make the tables; the statement that reads one into the other."""
    files = Path(folder).resolve().as_uri()
    tables.execute_sql(
        f"""CREATE TABLE readings (
            `key` STRING, ts BIGINT, `value` DOUBLE, moment AS TO_TIMESTAMP_LTZ(ts, 3),
            WATERMARK FOR moment AS moment - INTERVAL '2' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{files}', 'format' = 'csv')"""
    )
    tables.execute_sql(
        """CREATE TABLE nowhere (
            `key` STRING, starts TIMESTAMP(3), n BIGINT, total DOUBLE, low DOUBLE, high DOUBLE
        ) WITH ('connector' = 'blackhole')"""
    )
    return f"""INSERT INTO nowhere
        SELECT `key`, window_start, COUNT(*), SUM(`value`), MIN(`value`), MAX(`value`)
        FROM TABLE(HOP(TABLE readings, DESCRIPTOR(moment),
            INTERVAL '{slide // 1000}' SECOND(9), INTERVAL '{size // 1000}' SECOND(9)))
        GROUP BY `key`, window_start, window_end"""


def watch(tables, insert, port, seconds):
    """Run the statement for so long: (second, rows read) again and again, and its windows."""
    client = tables.execute_sql(insert).get_job_client()
    job = f"http://127.0.0.1:{port}/jobs/{client.get_job_id()}"
    begun, samples, windows = None, [[0.0, 0]], 0
    while True:
        try:
            read, answered = counts(job)
        except urllib.error.URLError:
            # The cluster goes with its job: this raises unless the job ended well.
            client.get_job_execution_result().result()
            return samples, True, windows
        now = time.monotonic()
        if begun is None and read:
            begun, samples = now, [[0.0, read]]
        elif begun is not None:
            samples.append([now - begun, read])
            windows = answered
            if now - begun > seconds:
                client.cancel().result()
                return samples, False, windows
        time.sleep(PERIOD)


def counts(job):
    """Rows the source has handed on, answers the sink has got."""
    source, sink = ask(job)["vertices"]
    return (
        metric(job, source, "Source__readings", "numRecordsOut"),
        metric(job, sink, "nowhere", "numRecordsIn"),
    )


def metric(job, vertex, operator, name):
    address = f"{job}/vertices/{vertex['id']}/subtasks/metrics"
    found = [
        each["id"]
        for each in ask(address)
        if each["id"].startswith(operator) and each["id"].endswith(f".{name}")
    ]
    if not found:
        return 0
    return sum(each["sum"] for each in ask(f"{address}?get={','.join(found)}"))


def ask(address):
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
