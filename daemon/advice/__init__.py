"""What the daemon recommends: which pending jobs to start where, and what to change about running jobs.

``advisor`` asks the active policy and explains its decisions (``policy_advice``); ``model_roles`` and ``inference``
load and ask trained models; ``warm_up`` compiles policies beforehand. ``feasible_starts`` holds what the scheduler
would refuse, and ``preemption`` adds starts at the cost of others. ``topology_cost`` compares placements,
``wait_estimate`` says when jobs start. ``recommender`` is the interface of recommendations beyond starts;
``recommenders`` has one file for each, and ``scaling``, ``rightsizing`` and ``migration`` do their work.
"""
