"""VirtualHome: the household as an evolving graph, its rules, protocols and tasks."""
