"""The protocol of SPA and its successors: free action strings, objects resolved by name, partial observations."""
