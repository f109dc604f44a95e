"""What a site may set: every settings class, with its defaults, bounds and the reason to change each value.

Nobody of ours is imported here, so that every room can read its own section. The rest of the file is the daemon's:
``daemon.config`` reads YAML, adds the sources (each declared by the exporter that reads it) and passes the checks of
names that only other rooms know, such as those of policies.
"""
