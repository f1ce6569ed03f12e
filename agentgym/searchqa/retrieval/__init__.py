"""Search engines, client, server and index folders."""
