"""What the daemon recommends: every policy heard on the state of now, and what the one in charge would do.

rehearsal compiles, hearing asks, advisor words it; agency and council seat the agents; vicinity and indexes say where.
Beyond starts: subject is the joint, counsel holds a file for each; elastic, room and shares work out what these tell
"""
