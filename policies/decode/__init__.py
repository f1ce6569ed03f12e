"""Write replies: sampling, batches, queues, caches."""
