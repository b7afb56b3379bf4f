"""Rows of a data set wherever they live: in memory, out of core, on Dask workers."""
