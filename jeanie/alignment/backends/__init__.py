"""Implementations of the alignment recursion: C++ on the CPU, torch on any device."""
