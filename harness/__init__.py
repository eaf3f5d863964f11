"""What `benchmarks` and `soak` share: both are command lines over a folder of named parts."""
