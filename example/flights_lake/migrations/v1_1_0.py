"""Delays get their full names, route statistics a finer grain, and flight numbers room to grow.

Why: `dep_delay` next to `dep_time` was read as a time of day more than once. Flight numbers above 32,767 are announced, so `flight` is
widened together with `distance` and `alt`. `hour` and `minute` repeat
`sched_dep_time`, and `speed` is known for 23 of 3,322 planes: all three go when the hold is over. Freighters have no seats.

`route_stats` counted a route over the whole year; it now counts it by carrier and month. No column of the old rows says which carrier
they were, so they cannot be evolved: the table is built anew from `flights`.

The weather is read station by station, so its table is partitioned by `origin` from now on; on the way its measurements get the types they
are reported in. Only a rewrite can do that. It is followed until the cut-over, and `down` takes later reports back on a rollback.
"""

from airflow_provider_schemamig import evolution, replacement, rewrite

STEPS = [
    evolution("airlines"),
    evolution("airports", rename={"tzone": "time_zone"}),
    evolution("planes", drop=["speed"]),
    rewrite(
        "weather",
        up="""
            SELECT origin, time_hour, temp, dewp, humid, wind_dir,
                   CAST(wind_speed AS DOUBLE) AS wind_speed,
                   CAST(wind_gust AS DOUBLE) AS wind_gust,
                   CAST(precip AS DECIMAL(4, 2)) AS precip,
                   CAST(pressure AS DECIMAL(5, 1)) AS pressure,
                   visib
            FROM {weather}
        """,
        down="""
            SELECT origin, time_hour, temp, dewp, humid, wind_dir,
                   CAST(wind_speed AS FLOAT) AS wind_speed,
                   CAST(wind_gust AS FLOAT) AS wind_gust,
                   CAST(precip AS FLOAT) AS precip,
                   CAST(pressure AS DOUBLE) AS pressure,
                   visib
            FROM {weather}
        """,
    ),
    evolution("flights", rename={"dep_delay": "departure_delay", "arr_delay": "arrival_delay"}, drop=["hour", "minute"]),
    replacement(
        "route_stats",
        fill="""
            SELECT carrier, origin, dest, month,
                   count(*) AS flights,
                   count_if(dep_time IS NULL) AS cancelled,
                   named_struct('departure', avg(dep_delay), 'arrival', avg(arr_delay)) AS delay
            FROM {flights}
            GROUP BY carrier, origin, dest, month
        """,
    ),
]
