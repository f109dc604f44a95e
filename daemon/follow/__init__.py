"""Acting on advice: the one part of idlewatt that changes anything on a cluster, in a process of its own.

The daemon advises and changes nothing. ``idlewatt follow`` asks it over HTTP, and lets Slurm start pending jobs where
they are advised to, within an allow-list. Whatever it changes it notes first, and takes back again.
"""
