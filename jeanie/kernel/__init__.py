"""The compiled library and its sources in C++: alignments, and the MLP of the graph encoder on the CPU."""
