"""The edge to the Prometheus world: sources that are read, and the page that is published."""
