"""What the daemon recommends: which pending jobs to start where, and what to change about running jobs.

``advisor`` asks the active policy and explains its decisions (``policy_advice``); ``model_roles``, ``model_loader`` and
``inference`` decide which trained models are asked, load them and ask them; ``warm_up`` compiles policies beforehand.
``feasible_starts`` holds what the scheduler would refuse. ``topology_cost``, ``locality_speed`` and ``gpu_assignment``
compare placements. ``recommender`` is the interface of recommendations beyond starts; ``recommenders`` has one file for
each, and ``scaling``, ``rightsizing`` and ``migration`` do their work.
"""
