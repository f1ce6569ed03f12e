"""Models that run elsewhere: inference engines, servers, chat endpoints, judges."""
