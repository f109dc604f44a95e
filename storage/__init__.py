"""What is known: records, schema, history, and importers of outside traces."""
