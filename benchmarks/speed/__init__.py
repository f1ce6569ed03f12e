"""Speed and memory: one timing loop, one record and one table for all that is measured."""
