"""The daemon's web side: a person's page, the metrics, the API, behind TLS and passwords where configured."""
