"""A Spark Connect server on loopback, until its standard input ends: ``spark_server.py PORT``.

The port is the last word, whatever imports the file: pytest does, for its doctests.
"""

import os
import sys

LOOPBACK = "127.0.0.1"
SETTINGS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.connect.grpc.binding.port": sys.argv[
        -1
    ],  # the last word, so that the file can be imported
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}

if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2,4]").setAppName("dpsco").setAll(list(SETTINGS.items()))
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    print("ready", flush=True)
    sys.stdin.read()
    context.stop()
