"""The dashboards as code, a file for each, by Grafana's own SDK; ``make dashboards`` writes the JSON beside."""
