"""The protocol of SPA, STeCa and HISR: free action strings, objects resolved by name, partial observations."""
