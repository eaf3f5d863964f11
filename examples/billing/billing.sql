-- The same job as billing.py in Spark's SQL: each view is a stage.

CREATE TEMPORARY VIEW readings USING parquet OPTIONS (path 'data/readings/*.parquet');

CREATE TEMPORARY VIEW contracts (meter STRING, customer STRING, tariff STRING)
USING csv OPTIONS (path 'data/contracts.csv', header 'true');

CREATE TEMPORARY VIEW tariffs (tariff STRING, from_hour INT, to_hour INT, cents_per_kwh DECIMAL(9, 2))
USING csv OPTIONS (path 'data/tariffs.csv', header 'true');

-- Floating-point numbers are added in sorted order: the sum is the same on every replica.
CREATE TEMPORARY VIEW hourly AS
SELECT meter, date_trunc('hour', at) AS hour,
       aggregate(array_sort(collect_list(wh)), 0D, (sum, each) -> sum + each) AS wh,
       count(wh) AS readings
FROM (SELECT meter, at, max(wh) AS wh FROM readings GROUP BY meter, at)
GROUP BY meter, date_trunc('hour', at);

CREATE TEMPORARY VIEW charges AS
SELECT customer, meter, hour, wh, readings,
       CAST(CAST(wh AS DECIMAL(18, 3)) / 1000 * cents_per_kwh AS DECIMAL(18, 6)) AS cents
FROM hourly JOIN contracts USING (meter) JOIN tariffs USING (tariff)
WHERE hour(hour) BETWEEN from_hour AND to_hour;

CREATE TEMPORARY VIEW bills AS
SELECT customer, to_date(hour) AS day,
       aggregate(array_sort(collect_list(wh)), 0D, (sum, each) -> sum + each) / 1000 AS kwh,
       CAST(sum(cents) AS DECIMAL(18, 2)) AS cents,
       max(struct(cents, -unix_seconds(hour) AS before, hour)).hour AS dearest_hour,
       sum(readings) AS readings
FROM charges
GROUP BY customer, to_date(hour);
