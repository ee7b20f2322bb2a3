"""Spark jobs for the topics of a Kafka or Barnabas cluster; each file is a program of its own.

``archive``: topics → Parquet, partitioned by topic and day, each record once.

They need PySpark and its Kafka connector and nothing of Barnabas, so that a file
can be handed to ``spark-submit`` alone. Only tests import this package.
"""
