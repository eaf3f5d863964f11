"""Everything that touches Spark. Import it only where Spark is wanted: it loads pyspark."""
