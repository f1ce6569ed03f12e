"""SOTOPIA: two people with private goals talk, and a judge scores them (`agentgym.sotopia.env`)."""
