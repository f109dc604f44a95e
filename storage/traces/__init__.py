"""Importers of outside job traces, one file per format."""
