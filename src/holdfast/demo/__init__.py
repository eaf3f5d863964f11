"""The demonstration behind `holdfast demo`; `show.run` is all of it."""
