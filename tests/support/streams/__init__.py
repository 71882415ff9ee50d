"""Pipelines of Kafka Streams: an application in Java, and what it must compute.

    Pipelines.java    word count, windowed join, table
    pipelines.py      inputs, and the results of each pipeline computed in one go. Pure
    application.py    the process, its inputs and its outputs
"""
