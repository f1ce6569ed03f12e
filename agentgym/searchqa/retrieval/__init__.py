"""What searches a corpus: engines in this process, a client and a server, and index folders."""
