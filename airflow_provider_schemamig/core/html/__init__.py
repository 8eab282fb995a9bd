"""Documents as HTML, for the page in Airflow and for the report that travels in mails. Knows nothing of Airflow."""
