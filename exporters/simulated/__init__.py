"""A DGX cluster that exists only at the far end of the wire: the GIST AI-X cluster of the paper, sized by parameters.

Nothing here is read by the daemon but over HTTP: the pages of dcgm-exporter, node_exporter and ipmi_exporter and the
answers of slurmrestd, as the real ones write them. ``cluster`` is the physics and knows neither HTTP nor the wall
clock; ``pages`` and ``slurm`` turn it into text; ``server`` serves that text.
"""
