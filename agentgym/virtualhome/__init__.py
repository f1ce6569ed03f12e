"""VirtualHome: the household as a changing graph, its rules, protocols and tasks."""
