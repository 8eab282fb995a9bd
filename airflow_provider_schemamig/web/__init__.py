"""The page in Airflow: a FastAPI app of the plugin, rendered here, over the same verbs and documents as the command line."""
