"""How an agent comes to advise: trained on recorded history, judged on days held out, promoted, demoted."""
