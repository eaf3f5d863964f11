"""What the site takes from the code and the benchmarks, and a look at what it has become."""
