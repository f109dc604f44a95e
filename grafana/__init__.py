"""Dashboards, rules, runbooks and provisioning of idlewatt, as data."""
