"""The dashboards as code: one file a board, written with Grafana's own SDK; ``make boards`` writes the JSON beside."""
