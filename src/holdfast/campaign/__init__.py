"""Running simulations for people: many seeds on all cores, or one with its trace and picture.

What `holdfast sim` runs. The simulator itself is `holdfast.sim`, which prints and writes nothing.
"""
